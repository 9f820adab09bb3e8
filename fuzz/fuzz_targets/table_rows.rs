//! Any change of rows in the tables of a replica: it says so, or goes on.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wayfs_proto::fuzzing::rows(bytes));
