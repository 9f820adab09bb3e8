//! Whatever a log holds, no ticket gets into a bundle.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| wayfs_cli::fuzzing::log(text));
