//! The small files of a mount's cache, and the kernel's list of what is watched, for the fuzzer.

use crate::labels::Labels;
use crate::pins::Pins;
use crate::saved::Saved;
use std::path::Path;
use wayfs_types::OriginId;

/// Reads bytes as each small file of a cache; `scratch` is an empty directory.
///
/// # Panics
/// If a membership does not survive being kept: a fault of its form.
pub fn read_files(scratch: &Path, bytes: &[u8]) {
    let file = |name: &str| {
        let path = scratch.join(name);
        std::fs::write(&path, bytes).expect("memory has room");
        path
    };
    file("client.json");
    if let Ok(Some(saved)) = Saved::load(scratch) {
        let _ = saved.volume_id(scratch);
        saved.save(scratch).expect("memory has room");
        assert_eq!(Saved::load(scratch).ok().flatten().as_ref(), Some(&saved), "a membership survives being kept");
    }
    if let Ok(pins) = Pins::load(&file("pins.json")) {
        let _ = pins.list();
    }
    let _ = Labels::load(&file("labels.json"), (OriginId::GENESIS, String::new()));
}

/// Reads text as a line of `/proc/PID/fdinfo`.
pub fn read_watch(text: &str) {
    for line in text.lines() {
        let _ = crate::inotify::watched(line, "39");
    }
}
