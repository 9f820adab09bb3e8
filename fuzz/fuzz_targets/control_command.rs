//! Any line is a command or is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(command) = serde_json::from_str::<wayfs_control::Command>(text) {
        serde_json::to_string(&command).expect("a command that was read can be written");
    }
});
