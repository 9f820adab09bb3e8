//! A parent that says anything at all does not end its children.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wayfs_proto::fuzzing::parent(bytes));
