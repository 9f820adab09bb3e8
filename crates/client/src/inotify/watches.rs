//! Which files of the mount programs watch, as `/proc` tells it (proc(5), `/proc/PID/fdinfo`).

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_types::FileId;

/// Shortest time between two scans: one costs a few milliseconds on a machine with some hundred processes.
const SCAN_PERIOD: Duration = Duration::from_millis(500);
/// What the link of an inotify descriptor says.
const INOTIFY_LINK: &str = "anon_inode:inotify";

/// The watched files of one mount.
pub(super) struct Watches {
    /// The mount's device, as the kernel prints it.
    device: String,
    files: BTreeSet<FileId>,
    scanned: Option<Instant>,
}

impl Watches {
    pub(super) fn new(device: u64) -> Self {
        let kernel_form = (u64::from(rustix::fs::major(device)) << 20) | u64::from(rustix::fs::minor(device));
        Self { device: format!("{kernel_form:x}"), files: BTreeSet::new(), scanned: None }
    }

    /// How long to wait until they may be read again.
    pub(super) fn due_in(&self) -> Duration {
        self.scanned.map_or(Duration::ZERO, |at| SCAN_PERIOD.saturating_sub(at.elapsed()))
    }

    /// Reads them.
    pub(super) fn refresh(&mut self) {
        self.files.clear();
        scan(Path::new("/proc"), &self.device, &mut self.files);
        self.scanned = Some(Instant::now());
    }

    /// Whether a program watches a file.
    pub(super) fn has(&self, file: FileId) -> bool {
        self.files.contains(&file)
    }

    /// All of them.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        self.files.iter().copied()
    }
}

/// Processes come and go while they are read, and those of others may be closed to us: what cannot be read is left out.
fn scan(proc: &Path, device: &str, files: &mut BTreeSet<FileId>) {
    let Ok(processes) = std::fs::read_dir(proc) else { return };
    for process in processes.flatten() {
        let is_process = process.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        let Ok(descriptors) = (if is_process { std::fs::read_dir(process.path().join("fd")) } else { continue }) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            if std::fs::read_link(descriptor.path()).is_ok_and(|link| link.as_os_str() == INOTIFY_LINK) {
                let info = process.path().join("fdinfo").join(descriptor.file_name());
                files.extend(
                    std::fs::read_to_string(info).unwrap_or_default().lines().filter_map(|l| watched(l, device)),
                );
            }
        }
    }
}

/// The file of one line, if it is on the device: `inotify wd:1 ino:2a sdev:39 mask:…`, numbers in hexadecimal.
pub(crate) fn watched(line: &str, device: &str) -> Option<FileId> {
    let mut words = line.strip_prefix("inotify ")?.split(' ');
    let inode = words.find_map(|word| word.strip_prefix("ino:"))?;
    let on = words.find_map(|word| word.strip_prefix("sdev:"))?;
    if on != device {
        return None;
    }
    FileId::from_inode_number(u64::from_str_radix(inode, 16).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read_and_others_left_out() {
        let line = "inotify wd:3 ino:1 sdev:39 mask:fc6 ignored_mask:0 fhandle-bytes:8";
        assert_eq!(watched(line, "39"), Some(FileId::ROOT));
        for odd in [
            "inotify wd:3 ino:1 sdev:3a mask:fc6",
            "inotify wd:3 ino:0 sdev:39",
            "inotify wd:3 ino:zz sdev:39",
            "pos:\t0",
            "inotify ",
        ] {
            assert_eq!(watched(odd, "39"), None, "{odd}");
        }
    }
}
