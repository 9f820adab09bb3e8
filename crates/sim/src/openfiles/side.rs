//! What is beside and below the open files of a host: its engine and its chunks as they are at this moment, and its clock.
//!
//! The world sets it before each call of the table, and carries out afterwards what was asked for.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_openfiles::body::BodyFile;
use wayfs_openfiles::host::Host;
use wayfs_openfiles::{Contents, Store, Stored, WaitPolicy, Wanted};
use wayfs_types::request::Change;
use wayfs_types::{Digest, FileId, FsError, Inode, RecordId, Time, WallTime};

/// Nothing is waited for: what is not here is asked for, and the operation is tried again.
pub(super) const AT_ONCE: WaitPolicy = WaitPolicy::Silence(Duration::ZERO);

/// The bytes of all chunks that were made of open files, whoever has them.
pub(crate) type ChunkBytes = Arc<Mutex<BTreeMap<Digest, Bytes>>>;

/// What a table of open files sees of its host.
#[derive(Debug, Default)]
pub(crate) struct Side {
    state: Mutex<Seen>,
    pub(crate) bytes: ChunkBytes,
}

/// A moment of a host.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) now: Time,
    pub(crate) wall: WallTime,
    /// Chunks that can be read.
    pub(crate) chunks: BTreeSet<Digest>,
    pub(crate) is_full: bool,
    pub(crate) inodes: BTreeMap<FileId, Arc<Inode>>,
    pub(crate) is_ordered_by_home: bool,
    /// How far its log goes, and up to where a kill takes nothing.
    pub(crate) recorded: u64,
    pub(crate) written: u64,
    /// The newest that its replica made.
    pub(crate) last_record: Option<RecordId>,
    /// Chunks that were made, in order.
    pub(crate) made: Vec<Digest>,
    /// What was asked for and is not here.
    pub(crate) wanted: Vec<Wanted>,
}

impl Side {
    pub(crate) fn new(bytes: ChunkBytes) -> Self {
        Self { state: Mutex::default(), bytes }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a chunk, whoever has it.
    pub(crate) fn find(&self, digest: &Digest) -> Option<Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
    }
}

/// The same, as the machine below.
#[derive(Debug)]
struct Machine(Arc<Side>);

/// A host's table holds this.
#[derive(Debug)]
pub(crate) struct Beside(pub(crate) Arc<Side>);

impl Host for Machine {
    fn now(&self) -> Time {
        self.0.seen().now
    }

    fn is_held_elsewhere(&self, _body: &BodyFile) -> bool {
        false
    }
}

impl Contents for Beside {
    fn chunk(&self, digest: &Digest) -> Result<Option<Bytes>, FsError> {
        let is_here = self.has(digest);
        Ok(is_here.then(|| self.0.find(digest)).flatten())
    }

    fn has(&self, digest: &Digest) -> bool {
        self.0.seen().chunks.contains(digest)
    }

    fn fetch(&self, wanted: Wanted, _patience: Duration) -> Result<(), FsError> {
        self.0.seen().wanted.push(wanted);
        Err(FsError::Unreachable)
    }

    fn window(&self) -> u64 {
        0
    }

    fn prefetch(&self, _wanted: Wanted) {}

    fn put(&self, digest: Digest, bytes: Bytes) -> Result<(), FsError> {
        let mut seen = self.0.seen();
        if seen.is_full && !seen.chunks.contains(&digest) {
            return Err(FsError::NoSpace);
        }
        seen.chunks.insert(digest);
        seen.made.push(digest);
        drop(seen);
        self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, bytes);
        Ok(())
    }

    fn inode(&self, file: FileId) -> Option<Arc<Inode>> {
        self.0.seen().inodes.get(&file).cloned()
    }

    fn store(&self, _store: Store) -> Result<Stored, FsError> {
        unreachable!("commits are made in steps")
    }

    fn change(&self, _user: u32, _change: Change) -> Result<(), FsError> {
        Ok(())
    }

    fn is_ordered_by_home(&self, _file: FileId) -> bool {
        self.0.seen().is_ordered_by_home
    }

    fn sync(&self) -> Result<(), FsError> {
        let seen = self.0.seen();
        if seen.written >= seen.recorded { Ok(()) } else { Err(FsError::TimedOut) }
    }

    fn last_record(&self) -> Option<RecordId> {
        self.0.seen().last_record
    }

    fn recorded(&self) -> u64 {
        self.0.seen().recorded
    }

    fn written(&self) -> u64 {
        self.0.seen().written
    }

    fn now(&self) -> WallTime {
        self.0.seen().wall
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::new(Machine(Arc::clone(&self.0)))
    }
}
