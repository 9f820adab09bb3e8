//! Any bytes at the beginning of a stream are a greeting, a question or an answer, or are refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wayfs_node::fuzzing::decode_headers(bytes));
