//! What was written and could not be committed, while somebody waits for it.
//!
//! Room comes back, and so does the network: a wait that ends at the first refusal ends too early.

use crate::fs::FileSystem;
use std::time::{Duration, Instant};
use wayfs_types::{FileId, FsError};

/// Pause before it is tried again: as short as the background's, so that nobody hashes a large file all the time.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Files whose writes are in no record.
#[derive(Debug)]
pub(super) struct Uncommitted {
    files: Vec<(FileId, FsError)>,
    tried: Instant,
}

impl Uncommitted {
    /// Commits all that can be committed.
    pub(super) fn commit(fs: &FileSystem) -> Self {
        Self { files: fs.commit_all(), tried: Instant::now() }
    }

    /// Commits what can be committed of these files.
    pub(super) fn commit_of(fs: &FileSystem, files: &[FileId]) -> Self {
        Self { files: fs.commit_these(files), tried: Instant::now() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.files.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether waiting helps: what was refused for a reason that does not pass is refused again.
    pub(super) fn may_pass(&self) -> bool {
        self.files.iter().all(|(_, error)| is_passing(*error))
    }

    /// Why the first of them is not committed; empty if there are none.
    pub(super) fn reason(&self) -> String {
        let first = self.files.first();
        first.map_or_else(String::new, |(file, error)| {
            format!("writes to an open file ({file}) cannot be kept: {error}")
        })
    }

    /// Commits again what was refused, when it is time. What programs write to other files meanwhile is not waited for.
    pub(super) fn try_again(&mut self, fs: &FileSystem) {
        if self.files.is_empty() || self.tried.elapsed() < RETRY_PAUSE {
            return;
        }
        let files: Vec<FileId> = self.files.iter().map(|(file, _)| *file).collect();
        self.files = fs.commit_these(&files);
        self.tried = Instant::now();
    }
}

/// Whether what was refused for this reason may be taken later.
fn is_passing(error: FsError) -> bool {
    match error {
        FsError::NoSpace
        | FsError::Quota
        | FsError::TooManyFiles
        | FsError::Unreachable
        | FsError::TimedOut
        | FsError::Locked
        | FsError::Interrupted
        | FsError::Changed => true,
        FsError::NotFound
        | FsError::Exists
        | FsError::NotDirectory
        | FsError::IsDirectory
        | FsError::NotEmpty
        | FsError::Invalid
        | FsError::NotPermitted
        | FsError::AccessDenied
        | FsError::ReadOnly
        | FsError::NameTooLong
        | FsError::TooManyLinks
        | FsError::TooBig
        | FsError::FileTooLarge
        | FsError::NoAttribute
        | FsError::Deadlock
        | FsError::NoLocks
        | FsError::Stale
        | FsError::Io
        | FsError::Unsupported => false,
    }
}
