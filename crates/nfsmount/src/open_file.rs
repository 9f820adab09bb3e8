//! What is written to a file, and what became of it.

use crate::write_behind::WriteBehind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};
use wayfs_fuse::Errno;
use wayfs_nfs::Timestamp;
use wayfs_nfs::rpc::Credentials;

/// The writing side of a file.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    pub(crate) behind: WriteBehind,
    /// In whose name it is written: who opened it for writing last.
    pub(crate) who: Option<Arc<Credentials>>,
    /// Writes that the server refused so far, and the last reason.
    pub(crate) refusals: u64,
    pub(crate) refusal: Option<Errno>,
    /// The server does not know the handle any more: nothing is sent until somebody has looked for the file.
    pub(crate) is_stale: bool,
    /// The server asked for patience: nothing is sent before.
    pub(crate) not_before: Option<Instant>,
    pub(crate) jukebox_times: u32,
    pub(crate) is_committing: bool,
    /// Since when something is dirty, and when a program wrote last.
    pub(crate) dirty_since: Option<Instant>,
    pub(crate) written_at: Option<Timestamp>,
}

impl FileState {
    /// The server refuses writes for good.
    pub(crate) fn refuse(&mut self, errno: Errno) {
        self.refusals += 1;
        self.refusal = Some(errno);
    }
}

/// What a program may do with a file that it opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// And perhaps read.
    Write,
}

impl Access {
    /// By the flags of an open.
    pub(crate) const fn of(flags: i32) -> Self {
        if flags & libc::O_ACCMODE == libc::O_RDONLY { Self::Read } else { Self::Write }
    }
}

/// A file that a program has open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) inode: wayfs_fuse::Inode,
    pub(crate) access: Access,
    /// Refusals that this program was told of.
    seen: AtomicU64,
}

impl OpenFile {
    pub(crate) const fn new(inode: wayfs_fuse::Inode, access: Access, refusals: u64) -> Self {
        Self { inode, access, seen: AtomicU64::new(refusals) }
    }

    /// A refusal that this program was not told of yet.
    pub(crate) fn news(&self, file: &FileState) -> Result<(), Errno> {
        if self.seen.swap(file.refusals, Ordering::Relaxed) == file.refusals {
            return Ok(());
        }
        Err(file.refusal.unwrap_or(Errno::IO))
    }
}

/// The time here.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX), nanoseconds: since.subsec_nanos() }
}
