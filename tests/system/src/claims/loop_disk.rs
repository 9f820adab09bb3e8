//! A small disk of its own for a machine's directory: ext4 in a file. It can be filled, and can lose power.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::run_for;
use rustix::mount::UnmountFlags;

/// Longest time for one command about a disk.
const DONE: Duration = Duration::from_secs(60);
/// Its size in MiB: room for a store's own files and a few files of ours.
const SIZE_MIB: u64 = 320;

/// A file system in a file, mounted; taken away when dropped.
#[derive(Debug)]
pub(super) struct LoopDisk {
    backing: PathBuf,
    directory: PathBuf,
}

fn tool(program: &str, arguments: &[&Path]) -> bool {
    run_for(DONE, Command::new(program).args(arguments)).status.success()
}

impl LoopDisk {
    /// Makes one and mounts it at a directory. `None`: this machine has no loop devices, or we may not mount.
    pub(super) fn new(backing: PathBuf, directory: PathBuf) -> Option<Self> {
        fs::create_dir_all(&directory).expect("make a directory");
        let file = fs::File::create(&backing).expect("make a file");
        file.set_len(SIZE_MIB << 20).expect("set a length");
        let quiet = [Path::new("-q"), Path::new("-F"), backing.as_path()];
        if !tool("mkfs.ext4", &quiet) {
            return None;
        }
        let disk = Self { backing, directory };
        disk.attach().then_some(disk)
    }

    fn attach(&self) -> bool {
        tool("mount", &[Path::new("-o"), Path::new("loop"), &self.backing, &self.directory])
    }

    fn detach(&self) {
        let _ = rustix::mount::unmount(&self.directory, UnmountFlags::DETACH);
    }

    /// Copies what has reached the disk by now. Who writes to it is stopped or dead meanwhile.
    pub(super) fn image(&self) -> PathBuf {
        let image = self.backing.with_extension("cut");
        assert!(
            tool("cp", &[Path::new("--sparse=always"), &self.backing, &image]),
            "the image of a disk cannot be copied"
        );
        image
    }

    /// Goes on with an image, as after a power cut. Nobody may use the disk.
    pub(super) fn recover(&self, image: &Path) {
        self.detach();
        fs::rename(image, &self.backing).expect("put the image in place");
        assert!(self.attach(), "the disk cannot be mounted again");
    }

    /// Takes all room there is.
    pub(super) fn fill(&self) {
        use std::io::Write;
        let mut file = fs::File::create(self.filler()).expect("make a file");
        let piece = vec![0x55; 1 << 20];
        while file.write_all(&piece).is_ok() {}
        let _ = file.sync_all();
    }

    /// Gives it back. Answers whether it was taken.
    pub(super) fn empty(&self) -> bool {
        fs::remove_file(self.filler()).is_ok()
    }

    fn filler(&self) -> PathBuf {
        self.directory.join("filler")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        self.detach();
    }
}
