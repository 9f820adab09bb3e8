//! All files that are open, dirty, or lie ready in a plain file.

use super::body::Body;
use super::body_files::BodyFiles;
use super::commit::{Commit, CommitResult, CommitStep};
use super::contents::{Contents, OperationError, Stored, WaitPolicy};
use super::follow::Followed;
use super::generations::Recovery;
use super::handle::Access;
use super::kernel_pages::KernelPages;
use super::note::{Orphan, find_orphans};
use super::open_file::{Extend, OpenFile, Overlay};
use super::recently_removed::RecentlyRemoved;
use super::settings::TableSettings;
use super::sharing::NotShared;
use super::state::Refreshed;
use super::stir::Stir;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_types::request::Removed;
use wayfs_types::{Content, FileId, FsError, Inode, Time, WallTime};

/// Uncommitted bytes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyFile {
    /// The file.
    pub file: FileId,
    /// Who wrote last, by the volume's number.
    pub user: u32,
    /// Bytes written that no record holds.
    pub len: u64,
    /// For how long.
    pub age: Duration,
    /// A commit of it failed a while ago, it was closed and is still open elsewhere, or nobody wrote for a second.
    pub is_due: bool,
    /// A commit hashes all of it, and there was one not long ago; or one failed just now.
    pub is_resting: bool,
}

/// The table.
pub struct FileTable {
    pub(super) contents: Arc<dyn Contents>,
    pub(super) files: BodyFiles,
    settings: TableSettings,
    map: Mutex<Map>,
    pub(super) stir: Arc<Stir>,
    /// Bytes of files that were closed and have no record yet.
    pub(super) closing_len: AtomicU64,
}

#[derive(Default)]
pub(super) struct Map {
    pub(super) entries: BTreeMap<FileId, Entry>,
    /// What programs wrote upon versions other than the one that they went on from, and an earlier daemon left: each becomes a version of
    /// its own. Nobody has it open.
    pub(super) lines: Vec<Arc<OpenFile>>,
    /// Files that nobody has open, the one unused longest first.
    pub(super) idle: BTreeMap<u64, FileId>,
    idle_len: u64,
    tick: u64,
    pub(super) pages: KernelPages,
    /// Files whose pages the kernel is to be told to forget, since a commit made them another version.
    wrong_pages: BTreeSet<FileId>,
    /// Files that went by our own doing a moment ago.
    removed: RecentlyRemoved,
}

pub(super) struct Entry {
    pub(super) file: Arc<OpenFile>,
    pub(super) handles: u32,
    /// Place among the idle and the length counted for it.
    pub(super) idle: Option<(u64, u64)>,
    /// Since when it is one of them; of no meaning else.
    pub(super) idle_since: Time,
    /// Somebody opened it to read it.
    pub(super) is_read: bool,
    /// The chunks of its bytes were not all here when they were looked for.
    pub(super) is_only_copy: bool,
}

impl Entry {
    fn new(file: OpenFile) -> Self {
        Self {
            file: Arc::new(file),
            handles: 0,
            idle: None,
            idle_since: Time::ZERO,
            is_read: false,
            is_only_copy: false,
        }
    }
}

impl Map {
    fn wake(&mut self, file: FileId) {
        if let Some(entry) = self.entries.get_mut(&file)
            && let Some((tick, len)) = entry.idle.take()
        {
            self.idle.remove(&tick);
            self.idle_len -= len;
        }
    }

    pub(super) fn forget(&mut self, file: FileId) {
        self.wake(file);
        self.entries.remove(&file);
    }

    /// The kernel's pages of a file are not what it is after a commit.
    fn pages_are_wrong(&mut self, file: FileId) {
        self.pages.mix(file);
        self.wrong_pages.insert(file);
    }

    fn rest(&mut self, file: FileId, len: u64, now: Time) {
        self.tick += 1;
        let tick = self.tick;
        if let Some(entry) = self.entries.get_mut(&file) {
            entry.idle = Some((tick, len));
            entry.idle_since = now;
            self.idle.insert(tick, file);
            self.idle_len += len;
        }
    }
}

impl FileTable {
    /// A table with nothing in it but what an earlier process was told to close and could not commit.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open(contents: Arc<dyn Contents>, settings: TableSettings) -> std::io::Result<Self> {
        let mut open = Recovery::read(&settings.disk);
        let closed = find_orphans(&settings.disk, &|note| !open.is_newer_than(note));
        open.number_after(closed.iter().map(|orphan| orphan.note.generation));
        let kept: Vec<String> = closed.iter().flat_map(Orphan::names).chain(open.names()).collect();
        let files = BodyFiles::open(&settings, &kept, open.left())?;
        let table = Self {
            contents,
            files,
            settings,
            map: Mutex::default(),
            stir: Arc::default(),
            closing_len: AtomicU64::new(0),
        };
        closed.into_iter().for_each(|left| table.adopt(left));
        table.recover(open);
        Ok(table)
    }

    /// Takes over a file that was closed and not committed; it is committed with the next look at what is due.
    fn adopt(&self, left: Orphan) {
        let id = left.file();
        let Some(inode) = self.contents.inode(id) else {
            tracing::info!(file = %id, "a file was removed after it was closed and before it was committed");
            return left.discard(self.files.disk());
        };
        let entry = Entry::new(OpenFile::new(id, &inode, self.contents.host()));
        self.take_over(&mut entry.file.state(), left);
        self.map().entries.insert(id, entry);
        self.stir.stir();
    }

    /// Takes in what is uncommitted since before the start beside what the file is.
    pub(super) fn insert_line(&self, line: OpenFile) {
        self.map().lines.push(Arc::new(line));
        self.stir.stir();
    }

    /// Takes in a file that is uncommitted since before the start.
    pub(super) fn insert_left(&self, id: FileId, file: OpenFile) {
        self.map().entries.insert(id, Entry::new(file));
        self.stir.stir();
    }

    pub(super) fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file as the engine knows it.
    pub fn open_file(&self, id: FileId, inode: &Inode, access: Access) -> Arc<OpenFile> {
        let mut map = self.map();
        map.wake(id);
        let entry = map.entries.entry(id).or_insert_with(|| Entry::new(OpenFile::new(id, inode, self.contents.host())));
        entry.handles += 1;
        entry.is_read |= access == Access::Read;
        entry.is_only_copy = false;
        let file = Arc::clone(&entry.file);
        let removed = map.removed.find(id);
        drop(map);
        self.stir.stir();
        let mut state = file.state();
        // The caller asked the engine a while ago; a commit may have come between, and taking the older
        // word would undo it for this handle. Under the file's lock the engine's word is not older.
        let newest = self.contents.inode(id);
        let refreshed = state.refresh(newest.as_deref().unwrap_or(inode));
        if let Some(removed) = removed.filter(|_| newest.is_none_or(|inode| inode.is_removed()))
            && !state.life.is_removed()
        {
            state.life.unnamed(removed);
        }
        state.life.opened(access);
        drop(state);
        self.note_refresh(id, refreshed);
        file
    }

    /// What the kernel read so far is of another version.
    pub(super) fn note_refresh(&self, file: FileId, refreshed: Refreshed) {
        if refreshed == Refreshed::Yes {
            self.map().pages.mix(file);
        }
    }

    /// Ends an open. What is still uncommitted stays until a commit succeeds.
    pub fn close_file(&self, file: &OpenFile, access: Access) {
        let mut state = file.state();
        state.life.closed(access);
        if state.journaled.is_some() {
            state.tend_journal(&*self.contents, &self.files);
        }
        drop(state);
        let mut map = self.map();
        if let Some(entry) = map.entries.get_mut(&file.id()) {
            entry.handles = entry.handles.saturating_sub(1);
        }
        self.settle(&mut map, file.id());
    }

    /// As [`FileTable::settle`], for whoever does not hold the map.
    pub(super) fn settle_unused(&self, file: &OpenFile) {
        self.settle(&mut self.map(), file.id());
    }

    /// Drops or lays aside a file that nobody has open.
    pub(super) fn settle(&self, map: &mut Map, id: FileId) {
        let Some(entry) = map.entries.get(&id) else { return };
        if entry.handles > 0 || entry.idle.is_some() {
            return;
        }
        let state = entry.file.state();
        if !state.life.may_be_forgotten() {
            return;
        }
        let keep_len = match state.life.body() {
            Some(body @ Body::Disk { .. }) if !state.life.is_removed() => Some(body.disk_len()),
            Some(_) | None => None,
        };
        let now = state.time();
        drop(state);
        match keep_len {
            Some(len) => map.rest(id, len, now),
            None => map.forget(id),
        }
        while map.idle_len > self.settings.idle_len_max || map.idle.len() > self.settings.idle_count_max {
            let Some((_, &oldest)) = map.idle.first_key_value() else { break };
            map.forget(oldest);
        }
    }

    /// The open or dirty file with this id.
    pub fn find(&self, id: FileId) -> Option<Arc<OpenFile>> {
        self.map().entries.get(&id).map(|entry| Arc::clone(&entry.file))
    }

    /// Whether a kill would take what a commit of the file stored, since the journal had not taken it and the disk has no record of it yet.
    /// Then who is to count on the commit waits for [`FileTable::sync`].
    pub fn waits_for_the_disk(&self, file: &OpenFile) -> bool {
        file.state().unkept.is_some_and(|recorded| self.contents.written() < recorded)
    }

    /// What there may be to commit of a file: first what programs see of it.
    pub fn to_commit(&self, id: FileId) -> Vec<Arc<OpenFile>> {
        let map = self.map();
        let open = map.entries.get(&id).map(|entry| &entry.file);
        let lines = map.lines.iter().filter(|line| line.id() == id);
        open.into_iter().chain(lines).map(Arc::clone).collect()
    }

    /// How a file differs from what the engine says, if it is here and does.
    pub fn overlay(&self, id: FileId) -> Option<Overlay> {
        let overlay = self.find(id)?.overlay();
        (overlay.mtime.is_some() || overlay.is_removed).then_some(overlay)
    }

    /// Reads.
    ///
    /// # Errors
    /// [`OperationError`].
    pub fn read(&self, file: &OpenFile, range: Range<u64>, wait_policy: WaitPolicy) -> Result<Bytes, OperationError> {
        file.read(&*self.contents, &self.files, range, wait_policy)
    }

    /// Finds data or a hole.
    ///
    /// # Errors
    /// [`OperationError`].
    pub fn seek(
        &self,
        file: &OpenFile,
        offset: u64,
        seek: super::Seek,
        wait_policy: WaitPolicy,
    ) -> Result<Option<u64>, OperationError> {
        file.seek(&*self.contents, offset, seek, wait_policy)
    }

    /// Writes at an offset, or appends; returns where.
    ///
    /// # Errors
    /// As [`OpenFile::write`].
    pub fn write(&self, file: &OpenFile, offset: Option<u64>, data: &[u8], user: u32) -> Result<u64, FsError> {
        self.with_room(|| file.write(&*self.contents, &self.files, offset, data, user))
    }

    /// Copies a range of one file to the same place of another by sharing its content; answers how many bytes.
    ///
    /// # Errors
    /// [`NotShared`]: nothing was changed.
    pub fn share(&self, from: &OpenFile, to: &OpenFile, range: Range<u64>, user: u32) -> Result<u64, NotShared> {
        let shared = to.share(&*self.contents, from, range, user);
        if shared.is_ok() {
            to.state().tend_journal(&*self.contents, &self.files);
        }
        shared
    }

    /// Changes the size.
    ///
    /// # Errors
    /// As [`OpenFile::truncate`].
    pub fn truncate(&self, file: &OpenFile, size: u64, user: u32) -> Result<(), FsError> {
        self.with_room(|| file.truncate(&*self.contents, &self.files, size, user))
    }

    /// Empties a file because it was opened so.
    ///
    /// # Errors
    /// As [`OpenFile::empty`].
    pub fn empty(&self, file: &OpenFile, user: u32) -> Result<(), FsError> {
        self.with_room(|| file.empty(&*self.contents, &self.files, user))
    }

    /// Makes a range read as zeros.
    ///
    /// # Errors
    /// As [`OpenFile::zero`].
    pub fn zero(&self, file: &OpenFile, range: Range<u64>, extend: Extend) -> Result<(), FsError> {
        self.with_room(|| file.zero(&*self.contents, &self.files, range.clone(), extend))
    }

    /// Does something again after making room, if there was none.
    fn with_room<T>(&self, act: impl Fn() -> Result<T, FsError>) -> Result<T, FsError> {
        match act() {
            Err(FsError::NoSpace | FsError::TooManyFiles) if self.make_room() || self.wait_for_room() => act(),
            outcome => outcome,
        }
    }

    /// Commits what was written to a file.
    ///
    /// # Errors
    /// As [`OpenFile::commit`].
    pub fn commit(&self, file: &OpenFile, wait_policy: WaitPolicy) -> CommitResult {
        let mut outcome = file.commit(&*self.contents, &self.files, wait_policy);
        let may_wait = matches!(wait_policy, WaitPolicy::Silence(_));
        if outcome == Err(OperationError::Failed(FsError::NoSpace))
            && (self.make_room() || may_wait && self.wait_for_room())
        {
            outcome = file.commit(&*self.contents, &self.files, wait_policy);
        }
        self.commit_over(file, &outcome);
        outcome
    }

    /// Begins a commit in steps, as [`OpenFile::commit_begin`].
    pub fn commit_begin(&self, file: &OpenFile) -> (Commit, CommitStep) {
        file.commit_begin(&*self.contents, &self.files)
    }

    /// Goes on with it, as [`OpenFile::commit_hash`].
    pub fn commit_hash(&self, file: &OpenFile, wait_policy: WaitPolicy, commit: &mut Commit) -> CommitStep {
        file.commit_hash(&*self.contents, &self.files, wait_policy, commit)
    }

    /// Goes on with it, as [`OpenFile::commit_stored`].
    pub fn commit_stored(&self, file: &OpenFile, commit: &mut Commit, answer: Result<Stored, FsError>) -> CommitStep {
        file.commit_stored(&*self.contents, &self.files, commit, answer)
    }

    /// Does what the end of a commit sets off; to be called once for each that was made in steps.
    pub fn commit_over(&self, file: &OpenFile, outcome: &CommitResult) {
        file.state().tend_journal(&*self.contents, &self.files);
        self.take_back_notes(file);
        if file.is_removed() {
            let closing = file.state().life.forget_close();
            self.end_closing(closing);
        }
        if let Ok(Some(committed)) = outcome {
            file.give_attributes(&*self.contents, &committed.stored.inode);
        }
        let has_moved = file.state().life.take_moved();
        let mut map = self.map();
        match outcome {
            // Also where what was appended was moved, and could not be committed after that.
            _ if has_moved => map.pages_are_wrong(file.id()),
            Ok(Some(committed)) if !committed.is_ours => map.pages_are_wrong(file.id()),
            Ok(Some(committed)) => map.pages.commit(file.id(), committed.base, committed.stored.inode.version),
            Ok(None) | Err(_) => {}
        }
        map.lines.retain(|line| !line.state().life.may_be_forgotten());
        self.settle(&mut map, file.id());
    }

    /// A file whose pages the kernel is to be told to forget; call it after each commit, until there is none.
    pub fn poll_wrong_pages(&self) -> Option<FileId> {
        self.map().wrong_pages.pop_first()
    }

    /// The last name of a file went by our own doing: its handles keep it, and no record will.
    pub fn removed(&self, removed: Removed) {
        let Removed { file, inode } = removed;
        let mut map = self.map();
        if let Some(entry) = map.entries.get(&file) {
            let mut state = entry.file.state();
            state.life.unnamed(inode.clone());
            state.tend_journal(&*self.contents, &self.files);
            let closing = state.life.forget_close();
            drop(state);
            self.end_closing(closing);
            map.wake(file);
            self.settle(&mut map, file);
        }
        map.removed.keep(file, inode);
    }

    /// A file without a name (`O_TMPFILE`): it is there for its handles, and goes with the last of them.
    pub fn begin_nameless(&self, id: FileId, inode: Arc<Inode>) {
        let file = OpenFile::new(id, &inode, self.contents.host());
        file.state().life.unnamed(inode);
        self.map().entries.insert(id, Entry::new(file));
        self.stir.stir();
    }

    /// Gives such a file a name: `make` is told its content and when it was written, and asks for the record that makes it.
    ///
    /// # Errors
    /// As [`OpenFile::commit`]; [`FsError::NotFound`] if it has a name; what `make` says.
    pub fn give_name(
        &self,
        file: &Arc<OpenFile>,
        wait_policy: WaitPolicy,
        make: &mut dyn FnMut(Content, WallTime) -> Result<Stored, FsError>,
    ) -> Result<Stored, OperationError> {
        let former = file.id();
        let stored = file.publish(&*self.contents, &self.files, wait_policy, make)?;
        let mut map = self.map();
        map.pages.rename(former, file.id());
        if let Some(entry) = map.entries.remove(&former) {
            map.entries.insert(file.id(), entry);
        }
        self.settle(&mut map, file.id());
        drop(map);
        file.state().tend_journal(&*self.contents, &self.files);
        Ok(stored)
    }

    /// A removed file as it was last, if it is open or was removed by our own doing a moment ago.
    pub fn last_seen(&self, id: FileId) -> Option<Arc<Inode>> {
        if let Some(inode) = self.map().removed.find(id) {
            return Some(inode);
        }
        let file = self.find(id)?;
        Some(file.last_seen(self.contents.inode(id).as_deref()))
    }

    /// Attributes of a file changed, here or elsewhere: its handles show them if it is removed later.
    pub fn know(&self, id: FileId, inode: &Inode) {
        if let Some(file) = self.find(id) {
            file.know(inode);
        }
    }

    /// A file changed elsewhere: handles that wrote nothing see the new version.
    pub fn changed_elsewhere(&self, id: FileId) {
        let Some(file) = self.find(id) else { return };
        // First the lock, then the question: see [`FileTable::open_file`].
        let mut state = file.state();
        let inode = self.contents.inode(id);
        let refreshed = inode.map_or(Refreshed::No, |inode| state.refresh(&inode));
        drop(state);
        self.note_refresh(id, refreshed);
    }

    /// Has the kernel read the newest version of a file that it reads directly. Waits for bytes.
    ///
    /// # Errors
    /// [`OperationError`].
    pub fn follow(&self, file: &OpenFile, wait_policy: WaitPolicy) -> Result<Followed, OperationError> {
        file.follow(&*self.contents, wait_policy)
    }

    /// Files that the kernel reads directly, and that changed since elsewhere.
    pub fn behind(&self) -> Vec<Arc<OpenFile>> {
        self.files_here().into_iter().filter(|file| file.is_behind()).collect()
    }

    /// Takes in news that came while somebody had the file who wrote to it or had removed it, if that is over. Answers
    /// whether there were any: then the kernel may have asked again since it was told, and have been told what
    /// the handle saw.
    pub fn catch_up(&self, file: &OpenFile) -> bool {
        let missed = file.state().life.ask_for_news();
        if missed {
            self.changed_elsewhere(file.id());
        }
        missed
    }

    /// Which files are open, dirty, or lie ready.
    pub fn ids(&self) -> Vec<FileId> {
        self.map().entries.keys().copied().collect()
    }

    /// Every file of the table.
    pub(super) fn files_here(&self) -> Vec<Arc<OpenFile>> {
        let map = self.map();
        map.entries.values().map(|entry| &entry.file).chain(&map.lines).map(Arc::clone).collect()
    }

    /// Makes durable what was committed before.
    ///
    /// # Errors
    /// As [`Contents::sync`].
    pub fn sync(&self) -> Result<(), FsError> {
        self.contents.sync()
    }

    /// Uncommitted files, those longest so first.
    pub fn dirty(&self) -> Vec<DirtyFile> {
        let (files, now) = (self.files_here(), self.now().as_nanos());
        let mut dirty: Vec<DirtyFile> = files
            .iter()
            .filter_map(|file| {
                let state = file.state();
                let idle = Duration::from_nanos(now.saturating_sub(state.mtime.as_nanos()).max(0).unsigned_abs());
                let due = state.life.due(state.time(), idle)?;
                let (user, len) = (state.user, state.life.uncommitted_len());
                Some(DirtyFile {
                    file: file.id(),
                    user,
                    len,
                    age: due.age,
                    is_due: due.is_due,
                    is_resting: due.is_resting,
                })
            })
            .collect();
        dirty.sort_by_key(|file| std::cmp::Reverse(file.age));
        dirty
    }

    /// Commits everything uncommitted for at least `age`, and what failed before; returns what could not be.
    pub fn commit_older(&self, age: Duration, wait_policy: WaitPolicy) -> Vec<(FileId, FsError)> {
        let mut failed = Vec::new();
        self.catch_up_with_the_disk();
        for id in self.due(age) {
            for file in self.to_commit(id) {
                if let Err(slow) = self.commit(&file, wait_policy) {
                    failed.push((id, slow.into_error()));
                }
            }
        }
        self.tend_journals();
        failed
    }

    /// Files that are uncommitted for at least `age`, or due for another reason, those longest so first; at zero all that are uncommitted.
    pub fn due(&self, age: Duration) -> Vec<FileId> {
        let is_due = |dirty: &DirtyFile| !dirty.is_resting && (dirty.age >= age || dirty.is_due);
        let due = self.dirty().into_iter().filter(|dirty| age.is_zero() || is_due(dirty)).map(|dirty| dirty.file);
        // What is left beside a file has its number.
        let mut seen = BTreeSet::new();
        due.filter(|file| seen.insert(*file)).collect()
    }

    /// The wall clock of the replica.
    pub fn now(&self) -> WallTime {
        self.contents.now()
    }

    /// The boot of the machine that its files are of.
    #[cfg(test)]
    pub(super) fn boot(&self) -> String {
        self.files.disk().boot()
    }

    /// Where the body files are, for statistics of the disk.
    pub fn directory(&self) -> &std::path::Path {
        self.files.disk().directory()
    }

    /// Bytes of body files that nobody has open.
    pub fn idle_len(&self) -> u64 {
        self.map().idle_len
    }
}
