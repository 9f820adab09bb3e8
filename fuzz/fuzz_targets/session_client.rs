//! A client that says anything at all harms nobody at a home or a station.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wayfs_proto::fuzzing::client(bytes));
