//! From dirty ranges to a store record.
//!
//! A commit takes the changes gathered so far (the **saving** half), cuts and hashes what they
//! touch, and tells the engine. Writes go on meanwhile and gather in the **unsaved** half. If the
//! commit fails, the halves are joined again and nothing is lost.
//!
//! A write that races with the hashing may be in the content or not; it is in the unsaved half in
//! either case, and the next commit reads its range again.
//!
//! A removal that races with the hashing calls the commit off. Which of the two came first is decided by the engine,
//! which works off one change at a time: it refuses to store what a program of this machine has removed.

use super::append::Appended;
use super::body::{Body, BodyFile, BodyFiles};
use super::contents::{Contents, OldBase, OperationError, Store, Stored, WaitPolicy};
use super::life::Origin;
use super::loading::{self, Base};
use super::open_file::OpenFile;
use super::state::State;
use bytes::Bytes;
use std::ops::Range;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use wayfs_content::{ChunkSink, ContentError, WriteError};
use wayfs_types::{Content, Digest, FileId, FsError, Inode, RecordId, Time, WallTime};

/// How often a commit begins again because the file was cut off under it.
const ATTEMPTS_MAX: usize = 8;
/// What is written by passthrough is hashed whole at each commit. While it is open that may take this part of one core's time: a ninth.
const REST_FACTOR: u32 = 8;

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The version that the new content was built upon.
    pub base: RecordId,
    /// The engine's answer.
    pub stored: Stored,
    /// Whether the file now holds what was written; if not, it was a conflict that another won.
    pub is_ours: bool,
    /// Whether what was appended stands behind what another machine appended meanwhile: not where it was written.
    pub is_moved: bool,
}

impl Committed {
    /// A commit and the one that followed it at once.
    fn both(one: Option<Self>, next: Option<Self>) -> Option<Self> {
        match (one, next) {
            (Some(one), Some(next)) => {
                let (is_ours, is_moved) = (one.is_ours && next.is_ours, one.is_moved || next.is_moved);
                Some(Self { base: one.base, stored: next.stored, is_ours, is_moved })
            }
            (one, next) => next.or(one),
        }
    }
}

/// The changes to commit and the bytes they lie over.
struct Snapshot {
    base: Base,
    size: u64,
    mtime: WallTime,
    user: u32,
    dirty: Vec<Range<u64>>,
    bytes: SnapshotBytes,
    old_base: OldBase,
    origin: Origin,
}

impl Snapshot {
    /// Whether a record may hold it already.
    fn is_left(&self) -> bool {
        self.origin == Origin::Left
    }
}

enum SnapshotBytes {
    Memory(Bytes),
    Disk(Arc<BodyFile>),
    /// Only the time changed, or the content was taken from another file.
    Unchanged,
}

/// Why a content could not be made.
enum Setback {
    /// The file became shorter while it was read.
    Shrank,
    /// Its last name went by our own doing: no record will hold it.
    Removed,
    OperationError(OperationError),
}

impl From<OperationError> for Setback {
    fn from(slow: OperationError) -> Self {
        Self::OperationError(slow)
    }
}

impl OpenFile {
    /// Commits what was written; `None` if there is nothing to commit.
    ///
    /// # Errors
    /// [`OperationError::WouldBlock`] if it may not wait, also when another commit of the file is running;
    /// what the chunk store and the engine say. The changes are kept.
    pub fn commit(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        wait_policy: WaitPolicy,
    ) -> Result<Option<Committed>, OperationError> {
        let _one_at_a_time = match wait_policy {
            WaitPolicy::Silence(_) => self.committing.lock().unwrap_or_else(PoisonError::into_inner),
            WaitPolicy::None => match self.committing.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Err(OperationError::WouldBlock),
            },
        };
        if matches!(wait_policy, WaitPolicy::None) && self.is_dirty() && !contents.is_free(self.id()) {
            return Err(OperationError::WouldBlock);
        }
        let start = self.state().time();
        let _making = Making::begin(contents);
        let mut is_moved = false;
        let mut before: Option<Committed> = None;
        for _ in 0..ATTEMPTS_MAX {
            let Some(snapshot) = self.begin(contents, files) else { return Ok(before) };
            match self.build(contents, files, &snapshot, wait_policy) {
                Ok(content) => match self.store_if_new(contents, &snapshot, content) {
                    Err(OperationError::Failed(FsError::Changed)) => {
                        is_moved |= self.append_to_newest(contents, files)? == Appended::Moved;
                    }
                    // The close is committed; what is left is tried again.
                    Err(_) if before.is_some() => return Ok(before),
                    stored => {
                        self.state().rest_after(start);
                        let committed = stored?.map(|committed| Committed { is_moved, ..committed });
                        before = Committed::both(before, committed);
                        if !self.state().life.is_set_since_its_close() {
                            return Ok(before);
                        }
                    }
                },
                Err(Setback::Shrank) => self.give_up(),
                Err(Setback::Removed) => {
                    self.give_up();
                    return Ok(before);
                }
                Err(Setback::OperationError(slow)) => {
                    self.give_up();
                    return before.map(Some).ok_or(slow);
                }
            }
        }
        before.map(Some).ok_or(FsError::Io.into())
    }

    fn begin(&self, contents: &dyn Contents, files: &BodyFiles) -> Option<Snapshot> {
        let mut state = self.state();
        if !state.life.is_to_be_committed() {
            return None;
        }
        adopt_name(&mut state, contents);
        if state.life.is_only_emptied() {
            // What is written upon this commit needs it, and it may be lost.
            state.journal_image(contents, files);
        }
        Some(state.freeze())
    }

    /// Has a file that never had a name made under one, with all that was written to it: `make` is given the content and
    /// when it was written last, and asks for the record.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has a name or had one, and what the chunk store and `make` say. It stays as it was then.
    pub(super) fn publish(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        wait_policy: WaitPolicy,
        make: &mut dyn FnMut(Content, WallTime) -> Result<Stored, FsError>,
    ) -> Result<Stored, OperationError> {
        let _one_at_a_time = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let _making = Making::begin(contents);
        for _ in 0..ATTEMPTS_MAX {
            let snapshot = {
                let mut state = self.state();
                if !state.life.naming_begun() {
                    return Err(FsError::NotFound.into());
                }
                state.freeze()
            };
            let outcome = match self.build(contents, files, &snapshot, wait_policy) {
                Ok(content) => make(content.clone(), snapshot.mtime).map(|stored| (content, stored)),
                Err(Setback::Shrank) => {
                    self.give_up();
                    continue;
                }
                Err(Setback::Removed) => Err(FsError::NotFound),
                Err(Setback::OperationError(slow)) => Err(slow.into_error()),
            };
            self.state().life.naming_failed();
            return match outcome {
                Ok((content, stored)) => {
                    self.named(&snapshot, content, &stored);
                    Ok(stored)
                }
                Err(error) => {
                    self.give_up();
                    Err(error.into())
                }
            };
        }
        Err(FsError::Io.into())
    }

    /// It has a name, and with it a number of its own.
    fn named(&self, snapshot: &Snapshot, content: Content, stored: &Stored) {
        let mut state = self.settle(snapshot, content);
        let file = FileId::made_by(stored.record);
        (state.base.file, state.base.version) = (file, stored.inode.version);
        state.known_as = Arc::new(Inode { content: Content::EMPTY, ..Inode::clone(&stored.inode) });
        state.life.named();
        self.set_id(file);
    }

    fn build(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        snapshot: &Snapshot,
        wait_policy: WaitPolicy,
    ) -> Result<Content, Setback> {
        if snapshot.base.lender.is_some() && !matches!(snapshot.bytes, SnapshotBytes::Memory(_)) {
            self.keep_shared(contents, &snapshot.base, snapshot.size, wait_policy)?;
        }
        match &snapshot.bytes {
            SnapshotBytes::Unchanged if snapshot.base.content.size() == snapshot.size => {
                Ok(snapshot.base.content.clone())
            }
            // Of what was taken from another file the rest was not.
            SnapshotBytes::Unchanged => self.rewrite(contents, files, snapshot, None, wait_policy),
            SnapshotBytes::Memory(bytes) => {
                let mut sink = Sink { contents, file: self };
                wayfs_content::build(bytes, &mut sink).map_err(|error| match error {
                    WriteError::Io(setback) => setback,
                    WriteError::Content(_) => Setback::OperationError(FsError::FileTooLarge.into()),
                })
            }
            SnapshotBytes::Disk(file) => self.rewrite(contents, files, snapshot, Some(file), wait_policy),
        }
    }

    fn rewrite(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        snapshot: &Snapshot,
        file: Option<&Arc<BodyFile>>,
        wait_policy: WaitPolicy,
    ) -> Result<Content, Setback> {
        loop {
            let mut sink = Sink { contents, file: self };
            let nodes = |digest: &Digest| contents.chunk(digest).ok().flatten();
            let mut read = |offset: u64, len: usize| -> Result<Bytes, Setback> {
                self.check_wanted()?;
                let range = offset..offset + len as u64;
                if is_dirty(&snapshot.dirty, &range)
                    && let Some(file) = file
                    && let Ok(bytes) = file.file().read_at(offset, len)
                {
                    return Ok(bytes.into());
                }
                Ok(self.read(contents, files, range, wait_policy)?)
            };
            // What was written whole is cut without a look at what was there, which may not be on this machine.
            let is_whole = matches!(snapshot.dirty.as_slice(), [only] if *only == (0..snapshot.size));
            let old = if is_whole { &Content::EMPTY } else { &snapshot.base.content };
            // Nor are its holes, which would take as long to hash as if they held anything.
            let written = file.filter(|_| is_whole).and_then(|file| file.written(snapshot.size));
            let dirty = written.as_deref().unwrap_or(&snapshot.dirty);
            let made = wayfs_content::rewrite(old, &nodes, dirty, snapshot.size, &mut read, &mut sink);
            match made {
                Ok(rewritten) => return Ok(rewritten.content),
                Err(WriteError::Io(setback)) => return Err(setback),
                Err(WriteError::Content(ContentError::MissingNode(digest))) => {
                    loading::fetch(contents, &snapshot.base, vec![digest], wait_policy)?;
                }
                Err(WriteError::Content(ContentError::ShortRead { .. })) => return Err(Setback::Shrank),
                Err(WriteError::Content(ContentError::TooLarge(_))) => {
                    return Err(Setback::OperationError(FsError::FileTooLarge.into()));
                }
                Err(WriteError::Content(error)) => {
                    tracing::error!(file = %self.id(), %error, "content to build upon cannot be read");
                    return Err(Setback::OperationError(FsError::Io.into()));
                }
            }
        }
    }

    fn store_if_new(
        &self,
        contents: &dyn Contents,
        snapshot: &Snapshot,
        content: Content,
    ) -> Result<Option<Committed>, OperationError> {
        let Some(version) = same_version(contents, snapshot, &content) else {
            return self.store(contents, snapshot, content);
        };
        self.settle(snapshot, content).base.version = version;
        Ok(None)
    }

    fn store(
        &self,
        contents: &dyn Contents,
        snapshot: &Snapshot,
        content: Content,
    ) -> Result<Option<Committed>, OperationError> {
        let store = Store {
            user: snapshot.user,
            file: self.id(),
            base: snapshot.base.version,
            content: content.clone(),
            mtime: snapshot.mtime,
            old_base: snapshot.old_base,
        };
        self.keep_attributes(contents);
        match contents.store(store) {
            Ok(stored) => Ok(Some(self.finish(snapshot, content, stored))),
            // A program of this machine removed it while it was hashed, and the engine heard of that first.
            Err(FsError::Stale) => {
                self.give_up();
                let last = self.last_seen(contents.inode(self.id()).as_deref());
                let mut state = self.state();
                if !state.life.is_removed() {
                    state.life.unnamed(last);
                }
                Ok(None)
            }
            Err(error) => {
                self.give_up();
                Err(error.into())
            }
        }
    }

    /// Whether the commit that is running is still for something.
    fn check_wanted(&self) -> Result<(), Setback> {
        if self.is_wanted() { Ok(()) } else { Err(Setback::Removed) }
    }

    fn finish(&self, snapshot: &Snapshot, content: Content, stored: Stored) -> Committed {
        let is_ours = stored.inode.content == content;
        let mut state = self.settle(snapshot, content);
        // Where another won, what is written on top of this follows it: its base is our own record.
        state.base.version = if is_ours { stored.inode.version } else { stored.record };
        drop(state);
        Committed { base: snapshot.base.version, stored, is_ours, is_moved: false }
    }

    /// The saved half is in a record.
    fn settle(&self, snapshot: &Snapshot, content: Content) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.base.content = content;
        state.base.lender = None;
        state.base_limit = snapshot.size.min(state.life.changes().low_water.unwrap_or(u64::MAX));
        let now = state.time();
        let is_as_it_was = !state.life.changes().is_any && !state.is_served_or_watched();
        if state.life.commit_done(now) == Origin::Left && is_as_it_was {
            // A program that has it from the dead daemon's kernel may write there still, and nobody hears of that.
            state.life.body_dropped();
        }
        state.settle_journal();
        state
    }

    fn give_up(&self) {
        let mut state = self.state();
        let (size, now) = (state.size, state.time());
        state.life.commit_failed(size, now);
    }
}

/// Takes the engine's name for the base if it holds the same bytes under another version (records
/// folded together, a file merged with its twin): so that building upon it is no conflict.
fn adopt_name(state: &mut State, contents: &dyn Contents) {
    if let Some(inode) = contents.inode(state.base.file)
        && inode.content == *state.base.own_content()
    {
        state.base.version = inode.version;
    }
}

/// The engine's version of a file that counts as written, if that holds the very same, time of modification included. What a
/// killed daemon left counts by its bytes alone: a program may have set the time since, or nothing was written.
fn same_version(contents: &dyn Contents, snapshot: &Snapshot, content: &Content) -> Option<RecordId> {
    let inode = contents.inode(snapshot.base.file)?;
    if inode.content == *content && (snapshot.is_left() || inode.mtime == snapshot.mtime) {
        return Some(inode.version);
    }
    let is_nothing = snapshot.is_left() && *snapshot.base.own_content() == *content;
    is_nothing.then_some(snapshot.base.version)
}

impl State {
    /// Takes what was written so far to be committed.
    fn freeze(&mut self) -> Snapshot {
        self.mark_passthrough();
        let bytes = match self.life.body() {
            Some(Body::Memory(bytes)) => SnapshotBytes::Memory(Bytes::copy_from_slice(bytes)),
            Some(Body::Disk { file, .. }) => SnapshotBytes::Disk(Arc::clone(file)),
            None => SnapshotBytes::Unchanged,
        };
        let old_base = if self.appended().is_some() { OldBase::IsRefused } else { OldBase::Conflicts };
        let (size, now, origin) = (self.size, self.time(), self.life.origin());
        let changes = self.life.commit_begun(size, now);
        Snapshot {
            base: self.base.clone(),
            size,
            mtime: self.mtime,
            user: self.user,
            dirty: changes.ranges.iter().collect(),
            bytes,
            old_base,
            origin,
        }
    }

    /// All that was written by passthrough was hashed, which took since then: another time not too soon.
    fn rest_after(&mut self, start: Time) {
        let now = self.time();
        self.life.rest(now + now.since(start) * REST_FACTOR);
    }
}

fn is_dirty(dirty: &[Range<u64>], range: &Range<u64>) -> bool {
    let next = dirty.partition_point(|one| one.end < range.end);
    dirty.get(next).is_some_and(|one| one.start <= range.start)
}

/// While it lives, nothing that was put for the commit goes, however short room is and however long hashing takes.
struct Making<'a>(&'a dyn Contents, u64);

impl<'a> Making<'a> {
    fn begin(contents: &'a dyn Contents) -> Self {
        Self(contents, contents.begin_making())
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.end_making(self.1);
    }
}

/// Gives chunks to the chunk store, as long as anybody wants the file.
struct Sink<'a> {
    contents: &'a dyn Contents,
    file: &'a OpenFile,
}

impl ChunkSink for Sink<'_> {
    type Error = Setback;

    fn put(&mut self, digest: Digest, bytes: Bytes) -> Result<(), Setback> {
        self.file.check_wanted()?;
        Ok(self.contents.put(digest, bytes).map_err(OperationError::from)?)
    }
}
