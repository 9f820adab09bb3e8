//! Any text after `-o` is options of a mount or is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| wayfs_cli::fuzzing::mount_options(text));
