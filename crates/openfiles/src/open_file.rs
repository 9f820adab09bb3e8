//! One file that is open or dirty: reading, writing, truncating.

use super::base::Base;
use super::body::{Body, BodyFile, zero_body};
use super::body_files::BodyFiles;
use super::contents::{Contents, OperationError, WaitPolicy};
use super::host::Host;
use super::journaled::Step;
use super::loading::{self, NodeCache, Piece};
use super::read_ahead::{Limits, ReadAhead};
use super::state::{State, fill};
use bytes::Bytes;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayfs_types::{Content, FileId, FsError, Inode, WallTime};

/// Longest file: 256 TiB, of which a hole fits three levels of list nodes.
pub const SIZE_MAX: u64 = 1 << 48;
/// A read that finds its range gone again and again (truncated, refreshed) gives up after so many looks.
const READ_ATTEMPTS_MAX: usize = 16;

/// What differs from the engine's inode while a file is open and dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlay {
    /// Bytes in the file.
    pub size: u64,
    /// Last write, if there are uncommitted ones.
    pub mtime: Option<WallTime>,
    /// No name is left, and the file lives on through its handles.
    pub is_removed: bool,
    /// Units of 512 bytes that it takes, if its content does not tell.
    pub blocks: Option<u64>,
}

/// One file.
#[derive(Debug)]
pub struct OpenFile {
    /// Its number: another one from the moment at which a file that was made without a name gets one.
    id: AtomicU64,
    /// Held for the whole of a commit, so that commits of one file follow each other.
    pub(super) committing: Mutex<()>,
    /// Held while its bytes are fetched for programs that read it directly.
    pub(super) following: Mutex<()>,
    state: Mutex<State>,
    pub(super) nodes: NodeCache,
    /// A leaf in the order of locks.
    ahead: Mutex<ReadAhead>,
}

/// Where bytes come from, found out under the lock and used without it.
enum Source {
    Ready(Bytes),
    File(Arc<BodyFile>, Range<u64>),
    Base(Base, Range<u64>),
}

impl OpenFile {
    /// Whether it is no more than what an earlier daemon left to commit: programs went on from another version of the file.
    pub fn is_beside(&self) -> bool {
        self.state().is_beside
    }

    /// A file as the engine knows it.
    pub fn new(id: FileId, inode: &Inode, host: Arc<dyn Host>) -> Self {
        Self {
            id: AtomicU64::new(id.inode_number()),
            committing: Mutex::new(()),
            following: Mutex::new(()),
            state: Mutex::new(State::new(id, inode, host)),
            nodes: NodeCache::default(),
            ahead: Mutex::default(),
        }
    }

    /// Which file.
    pub fn id(&self) -> FileId {
        let number = self.id.load(Ordering::Acquire);
        FileId::from_inode_number(number).expect("only numbers of files are put there")
    }

    /// Its state, with all that was written by passthrough so far.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.notice_passthrough();
        state.notice_stores();
        state
    }

    /// How it differs from what the engine says.
    pub fn overlay(&self) -> Overlay {
        let state = self.state();
        let mtime = state.life.is_dirty().then_some(state.mtime);
        Overlay { size: state.size, mtime, is_removed: state.life.is_removed(), blocks: state.blocks() }
    }

    /// It got a name, and a number of its own.
    pub(super) fn set_id(&self, id: FileId) {
        self.id.store(id.inode_number(), Ordering::Release);
    }

    /// Whether what is hashed of it is for something: it has a name, or is about to get one.
    pub(super) fn is_wanted(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.life.is_wanted()
    }

    /// Whether its last name went by our own doing. Does not look at what was written by passthrough.
    pub(super) fn is_removed(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).life.is_removed()
    }

    /// The inode kept when the last name went.
    pub fn removed_inode(&self) -> Option<Arc<Inode>> {
        self.state().life.removed().cloned()
    }

    /// Whether programs write it by passthrough at present.
    pub fn is_written_by_passthrough(&self) -> bool {
        self.state().life.is_written_by_passthrough()
    }

    /// A program asked for a sync.
    pub fn note_sync(&self) {
        self.state().life.synced();
    }

    /// Whether a program syncs in the middle of what it writes by passthrough.
    pub fn is_syncer(&self) -> bool {
        self.state().life.is_syncer()
    }

    /// Whether it holds what no record holds.
    pub fn is_dirty(&self) -> bool {
        self.state().life.is_dirty()
    }

    /// Bytes written that no record holds.
    pub fn dirty_len(&self) -> u64 {
        let state = self.state();
        state.life.uncommitted_len()
    }

    /// Reads up to `len` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// [`OperationError`].
    pub fn read(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        range: Range<u64>,
        wait_policy: WaitPolicy,
    ) -> Result<Bytes, OperationError> {
        for _ in 0..READ_ATTEMPTS_MAX {
            match self.source(&range) {
                Source::Ready(bytes) => return Ok(bytes),
                Source::File(file, range) => {
                    // A truncation between the look and the read makes it short: look again.
                    if let Ok(bytes) = file.file().read_at(range.start, (range.end - range.start) as usize) {
                        return Ok(bytes.into());
                    }
                }
                Source::Base(base, range) => {
                    let pieces = loading::load(contents, &self.nodes, &base, range.clone(), wait_policy)?;
                    self.read_ahead(contents, &base, &range, wait_policy);
                    if let Some(bytes) = self.keep(files, &base, &range, &pieces) {
                        return Ok(bytes);
                    }
                }
            }
        }
        Err(FsError::Io.into())
    }

    fn source(&self, range: &Range<u64>) -> Source {
        let state = self.state();
        let range = range.start.min(state.size)..range.end.min(state.size);
        if range.start >= range.end {
            return Source::Ready(Bytes::new());
        }
        match (state.life.body(), &state.base.content) {
            (Some(Body::Memory(bytes)), _) => {
                Source::Ready(Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize]))
            }
            (Some(Body::Disk { file, present }), _) if present.contains(&range) => {
                Source::File(Arc::clone(file), range)
            }
            (None, Content::Inline(bytes)) => Source::Ready(bytes.slice(range.start as usize..range.end as usize)),
            (Some(Body::Disk { .. }) | None, _) => Source::Base(state.base.clone(), range),
        }
    }

    /// Puts loaded chunks into the body; returns the bytes if they need not be read from there.
    fn keep(&self, files: &BodyFiles, base: &Base, range: &Range<u64>, pieces: &[Piece]) -> Option<Bytes> {
        let mut state = self.state();
        if state.base.content != base.content {
            return None;
        }
        if state.life.body().is_none() && base.content.size() <= files.memory_max() {
            return assemble(pieces, range);
        }
        match fill(&mut state, files, pieces) {
            Ok(()) => None,
            // Without room for a second copy the bytes are served straight from the chunks, unless
            // parts of the range were overwritten since.
            Err(_) if state.life.is_all_of_base() => assemble(pieces, range),
            Err(_) => None,
        }
    }

    /// Whether its body is a second copy of bytes that this machine has in chunks.
    pub(super) fn is_in_chunks(&self, contents: &dyn Contents) -> bool {
        let base = self.state().base.clone();
        matches!(base.content, Content::Inline(_)) || loading::is_whole(contents, &self.nodes, &base)
    }

    /// Asks for what comes next. A read that may wait is one that found nothing without.
    fn read_ahead(&self, contents: &dyn Contents, base: &Base, read: &Range<u64>, wait_policy: WaitPolicy) {
        let ahead = || self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if wait_policy == WaitPolicy::None && !ahead().is_begun() {
            return;
        }
        let limits = Limits { size: base.content.size(), window: contents.window() };
        let next = match wait_policy {
            WaitPolicy::None => ahead().went_on(read, limits),
            WaitPolicy::Silence(_) => ahead().waited(read, limits),
        };
        if next.is_empty() {
            return;
        }
        let digests = loading::absent(contents, &self.nodes, base, next);
        if !digests.is_empty() {
            contents.prefetch(base.wanted(digests));
        }
    }

    /// Writes bytes; `offset` is `None` to append. Returns where they went.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::FileTooLarge`], [`FsError::Io`].
    pub fn write(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        offset: Option<u64>,
        data: &[u8],
        user: u32,
    ) -> Result<u64, FsError> {
        let mut state = self.state();
        let start = offset.unwrap_or(state.size);
        if data.is_empty() {
            return Ok(start);
        }
        let end = start.checked_add(data.len() as u64).filter(|end| *end <= SIZE_MAX).ok_or(FsError::FileTooLarge)?;
        state.put(contents, files, start, data)?;
        state.user = user;
        let changes = state.life.changes();
        let is_appended = offset.is_none() && (changes.is_appended || !changes.is_any);
        state.touched(start..end, contents.now());
        if is_appended {
            state.life.was_appended();
        }
        state.journal(contents, files, Step::Written(start, data));
        Ok(start)
    }

    /// Makes the file so long: cuts it off, or extends it by a hole.
    ///
    /// # Errors
    /// As for [`OpenFile::write`].
    pub fn truncate(&self, contents: &dyn Contents, files: &BodyFiles, size: u64, user: u32) -> Result<(), FsError> {
        if size > SIZE_MAX {
            return Err(FsError::FileTooLarge);
        }
        let mut state = self.state();
        let former = state.resize(contents, files, size, user)?;
        state.journal(contents, files, Step::Resized);
        drop(former);
        Ok(())
    }

    /// Empties it because it was opened so.
    ///
    /// # Errors
    /// As for [`OpenFile::write`].
    pub fn empty(&self, contents: &dyn Contents, files: &BodyFiles, user: u32) -> Result<(), FsError> {
        let mut state = self.state();
        let was_dirty = state.life.is_dirty() && !state.life.is_only_emptied();
        let former = state.resize(contents, files, 0, user)?;
        if was_dirty {
            state.journal(contents, files, Step::Resized);
        } else {
            state.life.emptied();
        }
        drop(former);
        Ok(())
    }

    /// Whether all there is to commit is that an open emptied it: what is to be written comes yet.
    pub fn is_only_emptied(&self) -> bool {
        self.state().life.is_only_emptied()
    }

    /// Makes a range read as zeros, extending the file if it ends beyond and `extend` says so.
    ///
    /// # Errors
    /// As for [`OpenFile::write`].
    pub fn zero(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        range: Range<u64>,
        extend: Extend,
    ) -> Result<(), FsError> {
        if range.end > SIZE_MAX {
            return Err(FsError::FileTooLarge);
        }
        let mut state = self.state();
        let end = match extend {
            Extend::Yes => range.end,
            Extend::No => range.end.min(state.size),
        };
        if range.start >= end {
            return Ok(());
        }
        state.write_body(contents, files, end, |body| zero_body(body, range.start..end))?;
        state.touched(range.start..end, contents.now());
        state.journal(contents, files, Step::Zeroed(range.start, end - range.start));
        Ok(())
    }

    /// Gives an uncommitted file another modification time.
    ///
    /// Answers whether it was uncommitted; if not, the time is the engine's to change.
    pub fn set_mtime_if_dirty(&self, mtime: WallTime) -> bool {
        let mut state = self.state();
        if state.life.is_removed() {
            return true;
        }
        if !state.life.is_dirty() {
            return false;
        }
        state.changed(mtime);
        // Until somebody writes again, the time that was asked for holds, and not the body's.
        state.mark_passthrough();
        true
    }
}

/// Whether zeroing may make a file longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extend {
    /// As far as the range goes.
    Yes,
    /// The size stays.
    No,
}

/// Joins chunks to the bytes of a range; `None` if they do not cover it.
fn assemble(pieces: &[Piece], range: &Range<u64>) -> Option<Bytes> {
    let cut = |piece: &Piece| {
        let all = piece.range();
        let (from, until) = (range.start.max(all.start), range.end.min(all.end));
        (from < until).then(|| piece.bytes.slice((from - all.start) as usize..(until - all.start) as usize))
    };
    let mut parts: Vec<Bytes> = pieces.iter().filter_map(cut).collect();
    if parts.iter().map(|part| part.len() as u64).sum::<u64>() != range.end - range.start {
        return None;
    }
    Some(if parts.len() == 1 { parts.remove(0) } else { parts.concat().into() })
}
