//! A plain file system over a host directory, with kernel caching on.
//!
//! It adds nothing of its own, so it shows what the protocol costs: the ceiling for any file system
//! served through this crate. It is also the mounted file system of this crate's tests, and an
//! example of how answers are given late (locks).
//!
//! Every inode that the kernel knows is held by an `O_PATH` descriptor, so renames and removals on
//! the host do not confuse it; the process's limit of open files is raised for that. Everything runs
//! with the rights of the process: for root, that means that the kernel must check permissions
//! (`default_permissions`), and new files are given to the caller.

mod files;
mod inodes;
mod listing;
mod locks;
mod names;
mod transfer;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::Resource;

use crate::{
    Attributes, Delivery, Entry, Errno, FileSystemStatistics, Granted, Handler, InitFlags, Inode, Notifier, Operation,
    Reply, Request, Timestamp, Unique,
};
use files::Handles;
use inodes::Inodes;
use listing::Listings;
use locks::Locks;

/// How the loopback caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopbackOptions {
    /// For how long the kernel believes attributes. Default 60 s: nobody else changes the directory.
    pub attribute_ttl: Duration,
    /// For how long the kernel believes names, also absent ones. Default 60 s.
    pub entry_ttl: Duration,
    /// Let the kernel read and write the host's files itself, where it can. Default false.
    pub passthrough: bool,
}

impl Default for LoopbackOptions {
    fn default() -> Self {
        let ttl = Duration::from_secs(60);
        Self { attribute_ttl: ttl, entry_ttl: ttl, passthrough: false }
    }
}

/// The loopback file system: give it to [`crate::Session`].
#[derive(Debug)]
pub struct Loopback {
    options: LoopbackOptions,
    inodes: Inodes,
    handles: Handles,
    listings: Listings,
    locks: Locks,
    mount: OnceLock<(Granted, Notifier)>,
}

impl Loopback {
    /// A file system that shows the directory `root`.
    ///
    /// # Errors
    /// Those of opening the directory.
    pub fn new(root: &Path, options: LoopbackOptions) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        raise_open_files_limit();
        Ok(Self {
            options,
            inodes: Inodes::new(root)?,
            handles: Handles::default(),
            listings: Listings::default(),
            locks: Locks::default(),
            mount: OnceLock::new(),
        })
    }

    /// Number of inodes that the kernel holds, the root included.
    #[must_use]
    pub fn inodes_len(&self) -> usize {
        self.inodes.len()
    }

    fn has(&self, flag: InitFlags) -> bool {
        self.mount.get().is_some_and(|(granted, _)| granted.flags.contains(flag))
    }

    fn make_entry(&self, inode: Inode, stat: &rustix::fs::Stat) -> Entry {
        Entry {
            inode,
            generation: 0,
            entry_ttl: self.options.entry_ttl,
            attributes_ttl: self.options.attribute_ttl,
            attributes: attributes(stat),
        }
    }

    /// Answers with an entry that was counted as looked up, or with the error.
    fn reply_entry(&self, reply: Reply, result: Result<Entry, Errno>) {
        match result {
            Ok(entry) => {
                if reply.entry(&entry) == Delivery::Gone {
                    self.inodes.forget(entry.inode, 1);
                }
            }
            Err(errno) => {
                reply.error(errno);
            }
        }
    }

    fn statistics(&self) -> Result<FileSystemStatistics, Errno> {
        let root = self.inodes.node(Inode::ROOT)?;
        let stat = rustix::fs::fstatvfs(&root.fd)?;
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(FileSystemStatistics {
            blocks: stat.f_blocks,
            blocks_free: stat.f_bfree,
            blocks_available: stat.f_bavail,
            files: stat.f_files,
            files_free: stat.f_ffree,
            block_size: narrow(stat.f_bsize),
            name_len_max: narrow(stat.f_namemax),
            fragment_size: narrow(stat.f_frsize),
        })
    }
}

impl Handler for Loopback {
    fn init(&self, granted: &Granted, notifier: &Notifier) {
        let first = self.mount.set((granted.clone(), notifier.clone())).is_ok();
        assert!(first, "one loopback serves one mount");
    }

    fn handle(&self, request: Request, reply: Reply) {
        match request.operation() {
            Operation::Lookup { .. }
            | Operation::Symlink { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeDirectory { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. }
            | Operation::ReadLink => self.handle_name(&request, reply),
            Operation::GetAttributes { .. }
            | Operation::SetAttributes(_)
            | Operation::SetXattr { .. }
            | Operation::GetXattr { .. }
            | Operation::ListXattr { .. }
            | Operation::RemoveXattr { .. } => self.handle_inode(&request, reply),
            Operation::Open { .. }
            | Operation::Create { .. }
            | Operation::TemporaryFile { .. }
            | Operation::Flush { .. }
            | Operation::Release { .. } => self.handle_file(&request, reply),
            Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Fsync { .. }
            | Operation::Fallocate { .. }
            | Operation::Seek { .. }
            | Operation::CopyFileRange { .. } => self.handle_transfer(&request, reply),
            Operation::OpenDirectory { .. }
            | Operation::ReadDirectory { .. }
            | Operation::ReadDirectoryPlus { .. }
            | Operation::FsyncDirectory { .. }
            | Operation::ReleaseDirectory { .. } => self.handle_listing(&request, reply),
            Operation::GetLock { .. } | Operation::SetLock { .. } => self.handle_lock(&request, reply),
            Operation::StatFs => {
                match self.statistics() {
                    Ok(statistics) => reply.statistics(&statistics),
                    Err(errno) => reply.error(errno),
                };
            }
            Operation::Ioctl { .. } => {
                reply.error(Errno::NOTTY);
            }
            Operation::Access { .. }
            | Operation::Poll { .. }
            | Operation::SyncFileSystem
            | Operation::Unsupported { .. } => {
                reply.error(Errno::NOSYS);
            }
        }
    }

    fn forget(&self, inode: Inode, lookups: u64) {
        self.inodes.forget(inode, lookups);
    }

    fn interrupted(&self, unique: Unique) {
        self.locks.interrupted(unique);
    }
}

/// The host's attributes as ours.
fn attributes(stat: &rustix::fs::Stat) -> Attributes {
    let time =
        |seconds: i64, nanoseconds: u64| Timestamp { seconds, nanoseconds: u32::try_from(nanoseconds).unwrap_or(0) };
    Attributes {
        inode: Inode::new(stat.st_ino),
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        btime: None,
        mode: stat.st_mode,
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        device: kernel_device(stat.st_rdev),
        block_size: u32::try_from(stat.st_blksize).unwrap_or(4096),
    }
}

/// A device number in the 32-bit form that the protocol carries.
fn kernel_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The reverse of [`kernel_device`].
fn host_device(device: u32) -> u64 {
    let major = (device & 0xf_ff00) >> 8;
    let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
    rustix::fs::makedev(major, minor)
}

/// The way to a file of which only an `O_PATH` descriptor is held.
fn descriptor_path(fd: &impl std::os::fd::AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// As many open files as the system lets us have; failing that, a large tree ends in EMFILE.
fn raise_open_files_limit() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_the_protocol() {
        for (major, minor) in [(8, 1), (10, 229), (259, 70_000), (4095, 0xf_ffff)] {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(host_device(kernel_device(device)), device);
        }
    }
}
