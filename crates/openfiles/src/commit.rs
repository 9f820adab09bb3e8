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

use super::base::Base;
use super::body::{Body, BodyFile};
use super::body_files::BodyFiles;
use super::contents::{Contents, OldBase, OperationError, Store, Stored, WaitPolicy};
use super::life::Origin;
use super::loading;
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

/// Whether appended bytes have another place now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appended {
    /// Behind what another machine wrote.
    Moved,
    /// The rules for conflicts decide: something else was written as well, or the file is gone.
    AsWritten,
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

/// A commit under way, in steps: what was written is taken, then hashed, then stored. Anything may happen to the file between two of
/// them. Who has one follows what [`CommitStep`] says until it is over.
pub struct Commit {
    start: Time,
    /// How often it began.
    attempts: usize,
    snapshot: Option<Snapshot>,
    content: Option<Content>,
    is_moved: bool,
    /// What an earlier turn of it stored.
    before: Option<Committed>,
}

/// What a commit needs next.
#[derive(Debug)]
pub enum CommitStep {
    /// [`OpenFile::commit_hash`].
    Hash,
    /// The engine's answer to this, for [`OpenFile::commit_stored`].
    Store(Store),
    /// Nothing.
    Over(CommitResult),
}

/// What became of a commit; `None` if there was nothing to commit.
pub type CommitResult = Result<Option<Committed>, OperationError>;

impl Commit {
    /// Its end, after which whatever an earlier turn stored is stored.
    fn over(&mut self, result: Result<(), OperationError>) -> CommitStep {
        let before = self.before.take();
        CommitStep::Over(match result {
            Err(slow) if before.is_none() => Err(slow),
            Ok(()) | Err(_) => Ok(before),
        })
    }
}

impl OpenFile {
    /// Commits what was written; `None` if there is nothing to commit.
    ///
    /// # Errors
    /// [`OperationError::WouldBlock`] if it may not wait, also when another commit of the file is running;
    /// what the chunk store and the engine say. The changes are kept.
    pub fn commit(&self, contents: &dyn Contents, files: &BodyFiles, wait_policy: WaitPolicy) -> CommitResult {
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
        let _making = Making::begin(contents);
        let (mut commit, mut step) = self.commit_begin(contents, files);
        loop {
            step = match step {
                CommitStep::Hash => self.commit_hash(contents, files, wait_policy, &mut commit),
                CommitStep::Store(store) => self.commit_stored(contents, files, &mut commit, contents.store(store)),
                CommitStep::Over(result) => return result,
            }
        }
    }

    /// Begins a commit in steps. No other one of the file is under way.
    pub fn commit_begin(&self, contents: &dyn Contents, files: &BodyFiles) -> (Commit, CommitStep) {
        let start = self.state().time();
        let mut commit = Commit { start, attempts: 0, snapshot: None, content: None, is_moved: false, before: None };
        let step = self.commit_again(contents, files, &mut commit);
        (commit, step)
    }

    /// Takes what was written so far.
    fn commit_again(&self, contents: &dyn Contents, files: &BodyFiles, commit: &mut Commit) -> CommitStep {
        if commit.attempts == ATTEMPTS_MAX {
            return commit.over(Err(FsError::Io.into()));
        }
        commit.attempts += 1;
        commit.snapshot = self.begin(contents, files);
        if commit.snapshot.is_some() { CommitStep::Hash } else { commit.over(Ok(())) }
    }

    /// Makes the content of what was taken.
    pub fn commit_hash(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        wait_policy: WaitPolicy,
        commit: &mut Commit,
    ) -> CommitStep {
        let Some(snapshot) = &commit.snapshot else { return commit.over(Ok(())) };
        match self.build(contents, files, snapshot, wait_policy) {
            Ok(content) => match same_version(contents, snapshot, &content) {
                Some(version) => {
                    drop(self.settle(snapshot, content, version));
                    self.commit_settled(contents, files, commit, None)
                }
                None => {
                    let store = self.store_of(snapshot, content.clone());
                    commit.content = Some(content);
                    self.keep_attributes(contents);
                    CommitStep::Store(store)
                }
            },
            Err(Setback::Shrank) => {
                self.give_up();
                self.commit_again(contents, files, commit)
            }
            Err(Setback::Removed) => {
                self.give_up();
                commit.over(Ok(()))
            }
            Err(Setback::OperationError(slow)) => {
                self.give_up();
                commit.over(Err(slow))
            }
        }
    }

    /// Goes on with the engine's answer.
    pub fn commit_stored(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        commit: &mut Commit,
        answer: Result<Stored, FsError>,
    ) -> CommitStep {
        let (Some(snapshot), Some(content)) = (&commit.snapshot, commit.content.take()) else {
            return commit.over(Ok(()));
        };
        match answer {
            Ok(stored) => {
                let committed = self.finish(snapshot, content, stored);
                self.commit_settled(contents, files, commit, Some(committed))
            }
            // A program of this machine removed it while it was hashed, and the engine heard of that first.
            Err(FsError::Stale) => {
                self.give_up();
                let last = self.last_seen(contents.inode(self.id()).as_deref());
                let mut state = self.state();
                if !state.life.is_removed() {
                    state.life.unnamed(last);
                }
                drop(state);
                self.commit_settled(contents, files, commit, None)
            }
            Err(FsError::Changed) => {
                self.give_up();
                match self.append_to_newest(contents, files) {
                    Ok(appended) => {
                        commit.is_moved |= appended == Appended::Moved;
                        self.commit_again(contents, files, commit)
                    }
                    Err(error) => commit.over(Err(error.into())),
                }
            }
            // The close is committed; what is left is tried again.
            Err(error) => {
                self.give_up();
                commit.over(Err(error.into()))
            }
        }
    }

    /// What was taken is in a record, or nobody wants one.
    fn commit_settled(
        &self,
        contents: &dyn Contents,
        files: &BodyFiles,
        commit: &mut Commit,
        committed: Option<Committed>,
    ) -> CommitStep {
        let mut state = self.state();
        state.rest_after(commit.start);
        state.note_unkept(contents);
        drop(state);
        let committed = committed.map(|committed| Committed { is_moved: commit.is_moved, ..committed });
        commit.before = Committed::both(commit.before.take(), committed);
        if !self.state().life.is_set_since_its_close() {
            return commit.over(Ok(()));
        }
        self.commit_again(contents, files, commit)
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
        let mut state = self.settle(snapshot, content, stored.inode.version);
        let file = FileId::made_by(stored.record);
        state.base.file = file;
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

    fn store_of(&self, snapshot: &Snapshot, content: Content) -> Store {
        Store {
            user: snapshot.user,
            file: self.id(),
            base: snapshot.base.version,
            content,
            mtime: snapshot.mtime,
            old_base: snapshot.old_base,
        }
    }

    /// Whether the commit that is running is still for something.
    fn check_wanted(&self) -> Result<(), Setback> {
        if self.is_wanted() { Ok(()) } else { Err(Setback::Removed) }
    }

    fn finish(&self, snapshot: &Snapshot, content: Content, stored: Stored) -> Committed {
        let is_ours = stored.inode.content == content;
        // Where another won, what is written on top of this follows it: its base is our own record.
        drop(self.settle(snapshot, content, if is_ours { stored.inode.version } else { stored.record }));
        Committed { base: snapshot.base.version, stored, is_ours, is_moved: false }
    }

    /// The saved half is in a record, and what is written from now on is upon this version.
    fn settle(&self, snapshot: &Snapshot, content: Content, version: RecordId) -> MutexGuard<'_, State> {
        let mut state = self.state();
        (state.base.content, state.base.version) = (content, version);
        state.base.lender = None;
        state.base_limit = snapshot.size.min(state.life.changes().low_water.unwrap_or(u64::MAX));
        let now = state.time();
        let is_as_it_was = !state.life.changes().is_any && !state.is_served_or_watched();
        if state.life.commit_done(now) != Origin::Own && is_as_it_was {
            // A program that has it from the dead daemon's kernel may write there still, and nobody hears of that.
            state.life.body_dropped();
        }
        state.settle_journal(version);
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
