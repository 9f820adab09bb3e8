//! Tests of the stores on real directories.

mod bit_rot;
mod checkpoints;
mod directory;
mod freezing;
mod full_disk;
mod memory;
mod meta;
mod meta_crash;
mod power_cuts;

use crate::{DataDir, DiskMetaStore, MetaConfig, Role};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A server's data directory.
pub(crate) fn data_dir(path: &Path) -> DataDir {
    DataDir::open(path, Role::Server).expect("opens")
}

/// Small caches, no reserve and each commit a batch of its own, so that tests run anywhere and can count.
pub(crate) fn meta_config() -> MetaConfig {
    MetaConfig { cache_bytes: 4 << 20, memtable_bytes: 1 << 20, gather_bytes: 0, min_free: 0 }
}

pub(crate) fn open_meta(path: &Path) -> DiskMetaStore {
    DiskMetaStore::open(&data_dir(path), meta_config()).expect("opens")
}

/// Copies a directory as a crash of the process would leave it; zeros at the ends of files stay holes.
pub(crate) fn copy_image(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("makes a directory");
    for entry in std::fs::read_dir(from).expect("lists") {
        let entry = entry.expect("lists");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("has a type").is_dir() {
            copy_image(&entry.path(), &target);
            continue;
        }
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        let written = written_len(&bytes);
        let mut file = File::create(&target).expect("creates");
        file.write_all(&bytes[..written]).expect("writes");
        file.set_len(bytes.len() as u64).expect("sets the length");
    }
}

/// Where the last byte that is not zero ends; quick on the long unused ends of journals.
pub(crate) fn written_len(bytes: &[u8]) -> usize {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut blocks = bytes.chunks(ZEROS.len()).enumerate().rev();
    let last = blocks.find(|(_, block)| *block != &ZEROS[..block.len()]);
    last.map_or(0, |(at, block)| at * ZEROS.len() + 1 + block.iter().rposition(|byte| *byte != 0).unwrap_or(0))
}

/// A small random generator that repeats with its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            self.below(1);
            bytes.extend_from_slice(&self.0.to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// A small file system that fills up; unmounted when it goes.
pub(crate) struct SmallDisk {
    path: PathBuf,
    /// Removed with it.
    scratch: Option<tempfile::TempDir>,
}

impl SmallDisk {
    /// None, with the reason printed, where mounting is not allowed.
    pub(crate) fn mount(mib: u32) -> Option<Self> {
        let directory = tempfile::tempdir().expect("makes a directory");
        let mut disk = Self::mount_at(directory.path(), mib)?;
        disk.scratch = Some(directory);
        Some(disk)
    }

    /// The same in a directory that is there.
    pub(crate) fn mount_at(path: &Path, mib: u32) -> Option<Self> {
        let options = std::ffi::CString::new(format!("size={mib}m")).expect("has no zero byte");
        let flags = rustix::mount::MountFlags::empty();
        match rustix::mount::mount("wayfs-test", path, "tmpfs", flags, options.as_c_str()) {
            Ok(()) => Some(Self { path: path.to_path_buf(), scratch: None }),
            Err(error) => {
                eprintln!("skipped: a small disk cannot be mounted here: {error}");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that are free.
    pub(crate) fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.path).expect("tells its room");
        disk.f_bavail * disk.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.path, rustix::mount::UnmountFlags::DETACH);
    }
}
