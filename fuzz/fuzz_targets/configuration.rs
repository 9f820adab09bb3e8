//! Any text is a configuration file or is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| wayfs_cli::fuzzing::configuration(text));
