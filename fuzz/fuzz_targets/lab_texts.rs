//! Any text is a trace, a network or a line, or is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| wayfs_lab::fuzzing::read(text));
