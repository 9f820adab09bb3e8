//! A station that says anything at all leaves a tree at its home, and harms no session.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wayfs_proto::fuzzing::station(bytes));
