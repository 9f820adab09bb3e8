//! What can go wrong with a mount, in words that say what to do.

use std::io;
use std::path::PathBuf;

/// Why a file system was not mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The mount point does not exist.
    #[error("mount point {} does not exist: create it first", path.display())]
    Missing {
        /// As given.
        path: PathBuf,
    },
    /// The mount point is a file.
    #[error("mount point {} is not a directory", path.display())]
    NotADirectory {
        /// As given.
        path: PathBuf,
    },
    /// Someone serves a file system of ours there.
    #[error("{} is already a mount of this kind: umount it first", path.display())]
    AlreadyMounted {
        /// As given.
        path: PathBuf,
    },
    /// A FUSE mount is there and its daemon is not.
    #[error("{} is a mount whose daemon is gone: `umount` it first", path.display())]
    Stale {
        /// As given.
        path: PathBuf,
    },
    /// The kernel says that the mount point is in use.
    #[error("mount point {} is busy", path.display())]
    Busy {
        /// As given.
        path: PathBuf,
    },
    /// There is no `/dev/fuse`.
    #[error("there is no /dev/fuse: load the kernel module `fuse`, or give the container the device")]
    NoDevice(#[source] io::Error),
    /// No right to mount, or to look at the mount point.
    #[error("no permission to {action}")]
    NotPermitted {
        /// What was refused.
        action: &'static str,
        /// The refusal.
        source: io::Error,
    },
    /// The helper program could not be run.
    #[error("run fusermount3 (is the package fuse3 installed?)")]
    NoHelper(#[source] io::Error),
    /// The helper program refused.
    #[error("fusermount3 refused: {message}")]
    Helper {
        /// What it wrote.
        message: String,
    },
    /// The mount point cannot be examined.
    #[error("examine mount point {}", path.display())]
    Look {
        /// As given.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The table of mounts cannot be read.
    #[error("read /proc/self/mountinfo")]
    MountTable(#[source] io::Error),
    /// The system call failed.
    #[error("mount {}", path.display())]
    Failed {
        /// As given.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl MountError {
    pub(crate) fn from_look(path: PathBuf, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT) => Self::Missing { path },
            Some(libc::ENOTDIR) => Self::NotADirectory { path },
            // The daemon's end is closed, or the connection was aborted.
            Some(libc::ENOTCONN | libc::ECONNABORTED) => Self::Stale { path },
            Some(libc::EACCES | libc::EPERM) => Self::NotPermitted { action: "look at the mount point", source },
            _ => Self::Look { path, source },
        }
    }

    pub(crate) fn from_open(source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Self::NotPermitted { action: "open /dev/fuse", source },
            _ => Self::NoDevice(source),
        }
    }

    pub(crate) fn from_mount(path: PathBuf, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { action: "mount", source },
            Some(libc::EBUSY) => Self::Busy { path },
            Some(libc::ENODEV) => Self::NoDevice(source),
            Some(libc::ENOTDIR) => Self::NotADirectory { path },
            Some(libc::ENOENT) => Self::Missing { path },
            Some(libc::ENOTCONN) => Self::Stale { path },
            _ => Self::Failed { path, source },
        }
    }
}

/// Why a file system was not unmounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UmountError {
    /// Files are open, or something is mounted inside, or a process has its directory there.
    #[error("{} is in use", path.display())]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// Anything else.
    #[error("unmount {}", path.display())]
    Failed {
        /// The mount point.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
