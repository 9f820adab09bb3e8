//! A small disk that can be full and can grow.

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

/// A tmpfs that goes away with the test.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Room of a small disk, in MiB: enough for the stores' own files.
    pub const SMALL: u32 = 192;
    /// Room of a smaller one.
    pub const TINY: u32 = 96;

    /// A small one. `None`, with the reason printed, where nothing can be mounted.
    pub fn new(path: &Path) -> Option<Self> {
        Self::sized(path, Self::SMALL)
    }

    /// One of so many MiB.
    pub fn sized(path: &Path, mebibytes: u32) -> Option<Self> {
        fs::create_dir_all(path).expect("make a directory");
        let size = CString::new(format!("size={mebibytes}m")).expect("plain text");
        match mount("tmpfs", path, "tmpfs", MountFlags::empty(), size.as_c_str()) {
            Ok(()) => Some(Self(path.to_owned())),
            Err(error) => {
                println!("skipped: no tmpfs can be mounted here: {error}");
                None
            }
        }
    }

    /// Gives it the room of eight small ones.
    pub fn grow(&self) {
        let size = CString::new(format!("size={}m", Self::SMALL * 8)).expect("plain text");
        mount_remount(&self.0, MountFlags::empty(), size.as_c_str()).expect("remount a tmpfs");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
