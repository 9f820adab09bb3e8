//! Any bytes are a packed chunk, alone or upon bases, or are refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wayfs_node::fuzzing::unpack_chunks(bytes));
