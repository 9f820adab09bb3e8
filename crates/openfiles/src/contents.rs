//! The seam between open files and the rest: chunks below, the engine beside.

use super::host::Host;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{Content, Digest, FileId, FsError, Inode, RecordId, WallTime};

/// What the table of open files needs from the replica and its chunk store.
///
/// The live implementation is over a volume; the tests have one in memory.
pub trait Contents: Send + Sync + 'static {
    /// A chunk or list node, if it is on this machine.
    ///
    /// # Errors
    /// [`FsError::Io`] when the disk fails. A damaged chunk counts as absent: it can be fetched again.
    fn chunk(&self, digest: &Digest) -> Result<Option<Bytes>, FsError>;

    /// Whether a chunk or list node is on this machine; cheaper than reading it.
    fn has(&self, digest: &Digest) -> bool;

    /// Brings chunks onto this machine; waits, until nothing came for `patience`.
    ///
    /// # Errors
    /// [`FsError::Unreachable`], [`FsError::TimedOut`] or [`FsError::NoSpace`].
    fn fetch(&self, wanted: Wanted, patience: Duration) -> Result<(), FsError>;

    /// Bytes that the line to those who have contents is to have under way, as far as that is known.
    fn window(&self) -> u64;

    /// Begins to bring chunks onto this machine; returns at once and may do nothing.
    fn prefetch(&self, wanted: Wanted);

    /// Keeps a new chunk or list node. Durable no later than the record that needs it.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Io`].
    fn put(&self, digest: Digest, bytes: Bytes) -> Result<(), FsError>;

    /// Keeps a chunk or list node that is here as if it had been put now; whether it is here.
    fn keep(&self, digest: &Digest) -> bool {
        self.has(digest)
    }

    /// Tells that contents begin to be made: no chunk that is put from now on goes before [`Contents::end_making`] is called
    /// with the answer. For stores that take anything away by themselves.
    fn begin_making(&self) -> u64 {
        0
    }

    /// The record of these contents is there, or there will be none.
    fn end_making(&self, making: u64) {
        let _ = making;
    }

    /// The file as this replica sees it at present, if it does; never waits.
    fn inode(&self, file: FileId) -> Option<Arc<Inode>>;

    /// Records that a file has a new content.
    ///
    /// # Errors
    /// As the engine refuses: [`FsError::NoSpace`], [`FsError::ReadOnly`], [`FsError::NotFound`].
    fn store(&self, store: Store) -> Result<Stored, FsError>;

    /// Records a change of attributes.
    ///
    /// # Errors
    /// As the engine refuses.
    fn change(&self, user: u32, change: Change) -> Result<(), FsError>;

    /// Whether a file stands in an exclusive directory, where the home orders each change before it is answered.
    fn is_ordered_by_home(&self, file: FileId) -> bool {
        let _ = file;
        false
    }

    /// Whether a store of a file is answered without a question to the parent.
    fn is_free(&self, file: FileId) -> bool {
        let _ = file;
        true
    }

    /// The newest record that this replica made; none if it made none. Of all that it made those up to this one are here.
    fn last_record(&self) -> Option<RecordId>;

    /// Waits until everything recorded so far is durable on this machine.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Io`].
    fn sync(&self) -> Result<(), FsError>;

    /// How far everything recorded so far goes, for [`Contents::written`].
    fn recorded(&self) -> u64 {
        0
    }

    /// Everything recorded up to there survives a kill of this process. Takes no lock.
    fn written(&self) -> u64 {
        u64::MAX
    }

    /// The wall clock.
    fn now(&self) -> WallTime;

    /// The machine below, where bodies are.
    fn host(&self) -> Arc<dyn Host>;
}

/// Chunks of one version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The file.
    pub file: FileId,
    /// The version whose chunks they are.
    pub version: RecordId,
    /// Their names.
    pub digests: Vec<Digest>,
}

/// A new content for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// On whose behalf.
    pub user: u32,
    /// The file.
    pub file: FileId,
    /// The version that was edited.
    pub base: RecordId,
    /// What it holds.
    pub content: Content,
    /// When it was written.
    pub mtime: WallTime,
    /// What if the base is no longer current.
    pub old_base: OldBase,
}

/// What becomes of a store upon a version that another one replaced meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldBase {
    /// The rules for conflicts decide.
    Conflicts,
    /// It is refused with [`FsError::Changed`]: the new content is to be built upon the newest one.
    IsRefused,
}

/// What became of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The record in the log.
    pub record: RecordId,
    /// The file's inode afterwards.
    pub inode: Arc<Inode>,
}

/// How long an operation on a file may wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Not at all: what would need the network ends in [`OperationError`].
    None,
    /// Until nothing came for so long: bytes that come prolong it.
    Silence(Duration),
}

/// Why an operation did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// It needs bytes that are elsewhere, and it was told not to wait: try again on a thread that may wait.
    #[error("bytes that are needed are not on this machine")]
    WouldBlock,
    /// It failed.
    #[error(transparent)]
    Failed(#[from] FsError),
}

impl OperationError {
    /// The refusal for a caller that may wait.
    pub fn into_error(self) -> FsError {
        match self {
            Self::WouldBlock => FsError::Unreachable,
            Self::Failed(error) => error,
        }
    }
}
