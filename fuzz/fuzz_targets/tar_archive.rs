//! Any bytes are a tar archive or are refused; what they name stays inside, and no entry is longer than it says.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wayfs_server::fuzzing::archive(bytes));
