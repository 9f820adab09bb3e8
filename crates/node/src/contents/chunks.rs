//! The local chunks of a volume, guarded against the sweep.

use super::passing::Passing;
use super::protection::{Protection, Tree, Whence};
use super::recent::Recent;
use super::room::WritersRoom;
use crate::sweep::SweepAlarm;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use wayfs_content::ChunkSink;
use wayfs_store::{ChunkError, ChunkStats, ChunkStore};
use wayfs_transfer::Piece;
use wayfs_types::{Content, Digest, StorageError};

/// Room on the disk beside a chunk itself: its header, a summary, a mark of removal.
const RECORD_ROOM: u64 = 64 << 10;

/// Why a chunk could not be read or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentsError {
    /// It is not here.
    #[error("chunk {0} is not here")]
    Missing(Digest),
    /// It was here, but damaged; it was put aside and can be fetched again.
    #[error("chunk {0} is damaged on this disk and was put aside")]
    Damaged(Digest),
    /// The disk is full.
    #[error("no space left for contents: make room, and it goes on by itself")]
    NoSpace,
    /// A peer sent something else than it said.
    #[error("a peer sent bad contents: {0}")]
    Peer(String),
    /// The volume has stopped.
    #[error("the volume has stopped")]
    Stopped,
    /// The disk failed.
    #[error("contents: {0}")]
    Io(String),
}

impl From<ChunkError> for ContentsError {
    fn from(error: ChunkError) -> Self {
        match error {
            ChunkError::NoSpace { .. } => Self::NoSpace,
            ChunkError::Corrupt(digest) => Self::Damaged(digest),
            error @ (ChunkError::Misnamed(_)
            | ChunkError::TooLarge(_)
            | ChunkError::Poisoned(_)
            | ChunkError::Io { .. }) => Self::Io(error.to_string()),
        }
    }
}

impl From<StorageError> for ContentsError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::NoSpace => Self::NoSpace,
            error @ (StorageError::Corrupt(_)
            | StorageError::Poisoned(_)
            | StorageError::Io(_)
            | StorageError::Busy(_)) => Self::Io(error.to_string()),
        }
    }
}

/// The chunk store of a volume. All methods may be called from any thread; those that touch the disk may wait for it.
pub struct Contents {
    store: Arc<RwLock<Option<Arc<ChunkStore>>>>,
    protection: Mutex<Protection>,
    recent: Mutex<Recent>,
    passing: Mutex<Passing>,
    checks: Mutex<BTreeSet<Digest>>,
    pub(crate) writers_room: WritersRoom,
    pub(crate) sweep_alarm: Arc<SweepAlarm>,
}

/// While it lives, no chunk is removed.
pub struct Hold<'a>(&'a Contents);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.lock().release();
    }
}

/// While it lives, contents are made here: none of the chunks that are put meanwhile by [`Contents::put_new`] is removed, however
/// long that takes and however short room is. To be dropped when the record that names them is there.
pub struct Making<'a>(&'a Contents, u64);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.lock().end_making(self.1);
    }
}

impl std::fmt::Debug for Making<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Making({})", self.1)
    }
}

/// A disk with little room left for contents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskShortage {
    /// Bytes to win back before it counts as ample again.
    pub(crate) lacks: u64,
    /// Bytes of removed chunks on it.
    pub(crate) dead: u64,
    /// Bytes that somebody waits for.
    pub(crate) wanted: u64,
}

/// What is to become of a chunk that came from a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It must be kept: it is an error if there is no room.
    Must,
    /// It is pinned: it is kept beyond the bound of the cache, too, if there is room on the disk.
    Pinned,
    /// It is kept if there is room, and passes through memory to its reader if not.
    IfRoom,
}

/// Syncs the chunks, for the thread of the syncer.
pub(crate) struct ChunkHandle(Arc<RwLock<Option<Arc<ChunkStore>>>>);

impl ChunkHandle {
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let store = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(store) = store else { return Err(StorageError::Io("the volume has stopped".into())) };
        store.sync().map_err(|error| match error {
            ChunkError::NoSpace { .. } => StorageError::NoSpace,
            ChunkError::Poisoned(why) => StorageError::Poisoned(why),
            error @ (ChunkError::Corrupt(_)
            | ChunkError::Misnamed(_)
            | ChunkError::TooLarge(_)
            | ChunkError::Io { .. }) => StorageError::Io(error.to_string()),
        })
    }
}

impl Contents {
    pub(crate) fn new(store: ChunkStore, grace: Duration) -> Self {
        Self {
            store: Arc::new(RwLock::new(Some(Arc::new(store)))),
            protection: Mutex::new(Protection::new(grace)),
            recent: Mutex::default(),
            passing: Mutex::default(),
            checks: Mutex::default(),
            writers_room: WritersRoom::default(),
            sweep_alarm: Arc::default(),
        }
    }

    /// Keeps a chunk that a neighbour sent. Durable when a record that names it is, or when [`crate::Volume::sync`] returns.
    /// A chunk that is here already costs nothing.
    ///
    /// # Errors
    /// [`ContentsError::NoSpace`]: nothing was lost, and it may be tried again; `Io`.
    pub fn put(&self, digest: Digest, bytes: Bytes) -> Result<(), ContentsError> {
        self.put_from(Whence::Neighbour, digest, bytes)
    }

    fn put_from(&self, whence: Whence, digest: Digest, bytes: Bytes) -> Result<(), ContentsError> {
        {
            let mut protection = self.lock();
            protection.protect_chunk(digest, whence);
            // What is new goes last.
            protection.read(digest);
        }
        self.store()?.put(&digest, &bytes)?;
        self.recent().put(digest, bytes);
        self.sweep_alarm.stir();
        Ok(())
    }

    /// Takes in a chunk that a neighbour gave; whether it is kept. But with [`Keep::Must`] it is at hand for its reader in any case.
    ///
    /// # Errors
    /// As [`Contents::put`]; [`ContentsError::NoSpace`] with [`Keep::Must`] only.
    pub(crate) fn put_fetched(&self, digest: Digest, bytes: Bytes, keep: Keep) -> Result<bool, ContentsError> {
        let len = bytes.len() as u64;
        let is_let_in = keep == Keep::IfRoom && !self.has(&digest);
        if is_let_in && !(self.is_disk_ample() && self.writers_room.lets_in(len, || self.bytes())) {
            self.passing().put(digest, bytes);
            return Ok(false);
        }
        let put = self.put(digest, bytes.clone());
        if is_let_in {
            self.writers_room.has_come(len);
        }
        match put {
            Err(ContentsError::NoSpace) if keep != Keep::Must => {
                self.passing().put(digest, bytes);
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    /// The same for what our own user writes: in a bounded cache there must be room for it beside what cannot be evicted, and
    /// on the disk. Waits for room for a few seconds, while what can be fetched again gives way.
    ///
    /// # Errors
    /// As [`Contents::put`].
    pub fn put_new(&self, digest: Digest, bytes: Bytes) -> Result<(), ContentsError> {
        if self.has(&digest) {
            return self.put_from(Whence::Here, digest, bytes);
        }
        let len = bytes.len() as u64;
        self.sweep_alarm.stir();
        if !self.writers_room.wait_for(len, || self.bytes(), (len + RECORD_ROOM, || self.left_on_disk())) {
            return Err(ContentsError::NoSpace);
        }
        self.put_from(Whence::Here, digest, bytes)
    }

    /// Waits for a few seconds until so many bytes are free on the disk, the reserve counted, while what can be fetched again gives
    /// way; whether they are.
    pub(crate) fn wait_for_disk(&self, free: u64) -> bool {
        let reserve = self.store().map_or(0, |store| store.min_free());
        self.sweep_alarm.stir();
        self.writers_room.wait_for(0, || 0, (free.saturating_sub(reserve), || self.left_on_disk()))
    }

    /// Bytes left for contents on the disk. A disk that does not say is asked by writing.
    fn left_on_disk(&self) -> u64 {
        self.available().unwrap_or(u64::MAX)
    }

    /// Tells that contents are being made here, until the answer is dropped.
    pub fn making(&self) -> Making<'_> {
        Making(self, self.begin_making())
    }

    /// The same for who cannot keep a borrow: until [`Contents::end_making`] is called with the answer.
    pub fn begin_making(&self) -> u64 {
        self.lock().begin_making()
    }

    /// See [`Contents::begin_making`].
    pub fn end_making(&self, making: u64) {
        self.lock().end_making(making);
    }

    /// Lets go of what passed through memory and nobody read.
    pub(crate) fn forget_passed(&self) {
        self.passing().forget_old();
    }

    /// Keeps what passed through memory last, as far as there is room since; whether all of it.
    pub(crate) fn keep_passed(&self) -> bool {
        while let Some((digest, bytes)) = { self.passing().take_last() } {
            match self.put_fetched(digest, bytes, Keep::IfRoom) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    tracing::debug!(%error, "keep a chunk that passed through memory");
                    return true;
                }
            }
        }
        true
    }

    fn passing(&self) -> MutexGuard<'_, Passing> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk, checked against its name; from memory, if it passes through.
    ///
    /// # Errors
    /// [`ContentsError::Missing`], [`ContentsError::Damaged`]: fetch it; `Io`.
    pub fn get(&self, digest: &Digest) -> Result<Bytes, ContentsError> {
        match self.store()?.get(digest) {
            Ok(Some(bytes)) => {
                self.lock().read(*digest);
                Ok(bytes)
            }
            Ok(None) => self.passing().get(digest).ok_or(ContentsError::Missing(*digest)),
            Err(error) => {
                // What was thought complete may have lost a chunk just now.
                self.lock().removing();
                Err(error.into())
            }
        }
    }

    /// The same of what is kept, for walks: what passes through memory is no copy.
    pub(crate) fn get_kept(&self, digest: &Digest) -> Result<Bytes, ContentsError> {
        match self.store()?.get(digest) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(ContentsError::Missing(*digest)),
            Err(error) => {
                self.lock().removing();
                Err(error.into())
            }
        }
    }

    /// The same for the sweep, whose reading says nothing about use.
    pub(crate) fn peek(&self, digest: &Digest) -> Result<Bytes, ContentsError> {
        self.store()?.get(digest)?.ok_or(ContentsError::Missing(*digest))
    }

    /// Whether a chunk can be read without asking anybody: it is here, or passes through memory.
    pub fn is_at_hand(&self, digest: &Digest) -> bool {
        self.has(digest) || self.passing().get(digest).is_some()
    }

    /// Whether a chunk is here.
    pub fn has(&self, digest: &Digest) -> bool {
        self.store().is_ok_and(|store| store.has(digest))
    }

    /// Keeps a chunk that is here as if it had just been made here; whether it is here.
    pub fn keep(&self, digest: &Digest) -> bool {
        {
            // Before the look: who protects first keeps the chunk.
            let mut protection = self.lock();
            protection.protect_chunk(*digest, Whence::Here);
            protection.read(*digest);
        }
        self.has(digest)
    }

    /// Whether all of a content is here. Reads its list nodes.
    pub fn has_all(&self, content: &Content) -> bool {
        matches!(
            super::presence::missing(self, content, &super::presence::CallOff::default()),
            super::presence::Walk::Complete
        )
    }

    /// Keeps every chunk that is here until the answer is dropped: nothing is swept meanwhile.
    pub fn hold(&self) -> Hold<'_> {
        self.lock().hold();
        Hold(self)
    }

    /// Names and lengths of chunks from after one, in order of name, at most `limit`.
    ///
    /// # Errors
    /// [`ContentsError::Stopped`].
    pub fn list(&self, after: Option<&Digest>, limit: usize) -> Result<Vec<(Digest, u32)>, ContentsError> {
        Ok(self.store()?.list(after, limit))
    }

    /// Chunks and bytes kept.
    pub fn stats(&self) -> Option<ChunkStats> {
        self.store().ok().map(|store| store.stats())
    }

    /// Bytes of chunks kept.
    pub fn bytes(&self) -> u64 {
        self.store().map_or(0, |store| store.total_bytes())
    }

    /// What is short of room on the disk, the reserves taken off, with so many bytes wanted; `None`: nothing, or the disk does not
    /// say.
    pub(crate) fn disk_shortage(&self, wanted: u64) -> Option<DiskShortage> {
        let store = self.store().ok()?;
        let available = store.available_bytes().ok()?;
        let spare = store.min_free() / 2;
        let lacks = (spare * 2).max(wanted.saturating_add(spare)).saturating_sub(available);
        (available < spare.max(wanted)).then(|| DiskShortage { lacks, dead: store.stats().dead_bytes, wanted })
    }

    /// Whether there is room on the disk for what can be fetched again: such leaves as much again as the reserve to what is written.
    fn is_disk_ample(&self) -> bool {
        self.store().is_ok_and(|store| store.available_bytes().map_or(true, |available| available > store.min_free()))
    }

    /// Room left for contents on the disk, in bytes, the reserve taken off.
    pub fn available(&self) -> Option<u64> {
        self.store().ok().and_then(|store| store.available_bytes().ok())
    }

    /// A sink for [`wayfs_content::rewrite`] and builders.
    pub fn sink(&self) -> LocalSink<'_> {
        LocalSink { contents: self, _making: self.making() }
    }

    /// Reads off the runtime's own threads, but for what is in memory.
    pub(crate) async fn read(&self, digest: Digest) -> Result<Bytes, ContentsError> {
        let recent = self.recent().get(&digest);
        if let Some(bytes) = recent {
            return Ok(bytes);
        }
        let store = self.store()?;
        let read = tokio::task::spawn_blocking(move || store.get(&digest)).await;
        match read {
            Ok(Ok(Some(bytes))) => {
                self.lock().read(digest);
                Ok(bytes)
            }
            Ok(Ok(None)) => self.passing().get(&digest).ok_or(ContentsError::Missing(digest)),
            Ok(Err(error)) => {
                self.lock().removing();
                Err(error.into())
            }
            Err(error) => Err(ContentsError::Io(error.to_string())),
        }
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        ChunkHandle(Arc::clone(&self.store))
    }

    pub(crate) fn chunk_len(&self, digest: &Digest) -> Option<u32> {
        self.store().ok().and_then(|store| store.len(digest))
    }

    pub(crate) fn protect(&self, digest: Digest) {
        self.lock().protect_chunk(digest, Whence::Neighbour);
    }

    pub(crate) fn protect_tree(&self, tree: Tree) {
        self.lock().protect_tree(tree);
    }

    pub(crate) fn removal_epoch(&self) -> u64 {
        self.lock().epoch()
    }

    pub(crate) fn remember_complete(&self, piece: Piece, epoch: u64) {
        if piece.level > 0 {
            self.lock().remember_complete(piece, epoch);
        }
    }

    pub(crate) fn is_known_complete(&self, piece: &Piece) -> bool {
        self.lock().is_known_complete(piece)
    }

    /// Whether a check of this content is to be made by the caller: nobody else is about to.
    pub(crate) fn begin_check(&self, root: Digest) -> bool {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).insert(root)
    }

    pub(crate) fn end_check(&self, root: &Digest) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).remove(root);
    }

    pub(crate) fn store(&self) -> Result<Arc<ChunkStore>, ContentsError> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(ContentsError::Stopped)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Protection> {
        self.protection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the store go; whoever reads at this moment finishes first.
    pub(crate) fn close(&self) {
        self.store.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// Puts new chunks into the local store.
#[derive(Debug)]
pub struct LocalSink<'a> {
    contents: &'a Contents,
    _making: Making<'a>,
}

impl ChunkSink for LocalSink<'_> {
    type Error = ContentsError;

    fn put(&mut self, digest: Digest, bytes: Bytes) -> Result<(), ContentsError> {
        self.contents.put_new(digest, bytes)
    }
}
