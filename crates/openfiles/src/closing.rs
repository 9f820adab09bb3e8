//! Files that were closed before they were cut and hashed.
//!
//! Cutting and hashing a file that was written whole takes longer than writing it, so the close of a large one
//! does not wait for that: its body is complete, and a thread makes the record from it. Until then the file is
//! **closing**. Its contents need room a second time, as chunks: a close of what would not find that waits.
//!
//! A **note** beside the body says whose it is. If the daemon is killed, the next one finds body and note, and
//! goes on where the other was: that is all the memory of a closed file that no record holds. A note is taken
//! back when the record is durable. After a crash of the whole machine the host promises nothing of a body that was never synced, so
//! notes name the boot that they were written in and count no further than that.
//!
//! A body has one note at a time. While a commit of the file runs, or its note waits for the disk, nobody closes
//! it early: such a note would name a base that a kill may still undo, or go with the one before it. Handles that
//! a fork copied are closed in the middle of what the program writes, so this happens.

use super::body::{Body, BodyFile};
use super::body_files::BodyFiles;
use super::life::Closing;
use super::open_file::OpenFile;
use super::ranges::RangeSet;
use super::staging::StagingDisk;
use super::state::State;
use super::table::FileTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wayfs_types::{Content, FileId, RecordId, WallTime};

/// Version of the form of notes.
const FORMAT: u32 = 2;
/// What notes are called, beside the body they are about.
const EXTENSION: &str = ".closed";
/// What a note is called besides while it is written.
const HALF: &str = "-half";

/// How the close of a file goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyClose {
    /// It returns: the file is committed soon, and the next daemon knows of it if this one is killed.
    Noted,
    /// It waits for its commit and for the disk: an earlier commit of the file is not through.
    BehindAnother,
    /// It waits for its commit, as every close of a file that was not written whole does.
    Unfit,
}

/// What the next daemon must know about a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    format: u32,
    boot: String,
    /// Whose body it is.
    pub(super) file: FileId,
    /// The version that it replaces.
    pub(super) base: RecordId,
    /// Its length.
    pub(super) len: u64,
    pub(super) mtime: WallTime,
    pub(super) user: u32,
    /// The first generation of the journal that says as much, or more.
    pub(super) generation: u64,
}

/// A body that an earlier daemon left closed and without a record.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) note: Note,
    pub(super) body: BodyFile,
}

impl Orphan {
    /// Whose it is.
    pub(super) fn file(&self) -> FileId {
        self.note.file
    }

    /// What body and note are called.
    pub(super) fn names(&self) -> [String; 2] {
        [self.body.name().to_owned(), note_name(&self.body)]
    }

    /// Nobody wants it any more.
    pub(super) fn discard(self, disk: &Arc<dyn StagingDisk>) {
        forget_note(disk, &note_name(&self.body));
    }
}

/// The bodies and notes that count on a disk, of this boot and whole, and that are `wanted`.
pub(super) fn find_orphans(disk: &Arc<dyn StagingDisk>, wanted: &dyn Fn(&Note) -> bool) -> Vec<Orphan> {
    let names = disk.list().unwrap_or_default();
    let bodies = names.iter().filter_map(|name| name.strip_suffix(EXTENSION));
    // Between the note of a body and the end of the note of the one before, a file has two: the newer body counts.
    let mut newest = BTreeMap::new();
    for left in bodies.filter_map(|body| left(disk, body, wanted)) {
        match newest.entry(left.file()) {
            Entry::Vacant(entry) => drop(entry.insert(left)),
            Entry::Occupied(mut entry) if entry.get().body.number() < left.body.number() => drop(entry.insert(left)),
            Entry::Occupied(_) => {}
        }
    }
    newest.into_values().collect()
}

fn left(disk: &Arc<dyn StagingDisk>, body: &str, wanted: &dyn Fn(&Note) -> bool) -> Option<Orphan> {
    let note: Note = serde_json::from_slice(&disk.read(&format!("{body}{EXTENSION}")).ok()?).ok()?;
    if note.format != FORMAT || note.boot != disk.boot() {
        tracing::warn!(file = %note.file, "what was closed last before the machine went down was not synced and is gone");
        return None;
    }
    if !wanted(&note) {
        return None;
    }
    let body = BodyFile::open(disk, body).ok()?;
    // What was cut off or appended since was neither closed nor synced.
    let len = body.file().look().ok()?.len.min(note.len);
    body.file().set_len(len).ok()?;
    Some(Orphan { note: Note { len, ..note }, body })
}

/// Puts a note where an earlier one may be: whoever is killed leaves the one or the other.
fn write_note(disk: &Arc<dyn StagingDisk>, name: &str, note: &Note) -> std::io::Result<()> {
    let half = format!("{name}{HALF}");
    disk.write(&half, &serde_json::to_vec(note)?)?;
    disk.rename(&half, name)
}

/// What the note about a body is called.
fn note_name(body: &BodyFile) -> String {
    format!("{}{EXTENSION}", body.name())
}

fn forget_note(disk: &Arc<dyn StagingDisk>, name: &str) {
    match disk.remove(name) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "take back the note of a closed file");
        }
        Ok(()) | Err(_) => {}
    }
}

impl State {
    fn note(&mut self, boot: String, files: &BodyFiles) -> Note {
        let generation = self.generation_of_note(files);
        Note {
            format: FORMAT,
            boot,
            file: self.base.file,
            base: self.base.version,
            len: self.size,
            mtime: self.mtime,
            user: self.user,
            generation,
        }
    }
}

impl FileTable {
    /// Lets the close of a file return before its commit, if it is one that can wait; `room` is the free
    /// space of the disk.
    pub fn close_early(&self, file: &OpenFile, room: u64) -> EarlyClose {
        let mut state = file.state();
        if state.life.is_behind_a_commit() {
            return EarlyClose::BehindAnother;
        }
        if !state.life.may_close_early(state.size) {
            return EarlyClose::Unfit;
        }
        let Some(Body::Disk { file: body, .. }) = state.life.body() else { return EarlyClose::Unfit };
        let (disk, name) = (self.files.disk(), note_name(body));
        let counted = state.life.closing().map_or(0, |before| before.len);
        let len = state.size;
        let fits = |closing: u64| closing.saturating_sub(counted).checked_add(len).filter(|sum| *sum <= room);
        if self.closing_len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return EarlyClose::Unfit;
        }
        let note = state.note(disk.boot(), &self.files);
        if let Err(error) = write_note(disk, &name, &note) {
            tracing::debug!(%error, "note a closed file");
            self.closing_len.fetch_add(counted, Ordering::Relaxed);
            self.closing_len.fetch_sub(len, Ordering::Relaxed);
            return EarlyClose::Unfit;
        }
        let closing = Closing { since: state.time(), len, note: name.clone() };
        if let Some(before) = state.life.closed_early(closing)
            && before.note != name
        {
            forget_note(disk, &before.note);
        }
        EarlyClose::Noted
    }

    /// Forgets that a file is closing: its record is durable, or nobody wants it any more.
    pub(super) fn end_closing(&self, closing: Option<Closing>) {
        let Some(closing) = closing else { return };
        self.closing_len.fetch_sub(closing.len, Ordering::Relaxed);
        forget_note(self.files.disk(), &closing.note);
    }

    /// Takes back the notes about what was committed, as soon as that is durable; answers `false` if the disk does
    /// not say so.
    pub(super) fn take_back_notes(&self, file: &OpenFile) -> bool {
        let Some(newest) = file.state().life.noted().last().map(|closing| closing.since) else { return true };
        if let Err(error) = self.contents.sync() {
            tracing::warn!(%error, "a closed file is in the log and not durable yet: its note stays");
            return false;
        }
        let mut state = file.state();
        // Another thread may have been here meanwhile, and yet another commit, which this sync says nothing of.
        // The lock is held to the end: the next close writes its note where these are.
        for closing in state.life.notes_durable(newest) {
            self.end_closing(Some(closing));
        }
        true
    }

    /// Takes back the notes that stayed because the disk did not say that their records are durable, while it says so:
    /// a disk that is stuck is waited for once, not once for each file.
    pub fn catch_up_with_the_disk(&self) {
        if self.closing_len() == 0 {
            return;
        }
        for file in self.files_here().into_iter().filter(|file| !file.state().life.noted().is_empty()) {
            if !self.take_back_notes(&file) {
                return;
            }
            self.settle_unused(&file);
        }
    }

    /// Makes a file of the table what an earlier daemon left of it.
    pub(super) fn take_over(&self, state: &mut State, left: Orphan) {
        let [_, note] = left.names();
        let Orphan { note: Note { base, len, mtime, user, .. }, body } = left;
        let now = state.time();
        self.closing_len.fetch_add(len, Ordering::Relaxed);
        state.base.version = base;
        state.base.content = Content::EMPTY;
        state.base.lender = None;
        state.base_limit = 0;
        state.size = len;
        state.mtime = mtime;
        state.user = user;
        let body = Body::Disk { file: Arc::new(body), present: RangeSet::of(0..len) };
        state.life.taken_over(body, Closing { since: now, len, note }, now);
    }

    /// Bytes of files that were closed and have no record yet.
    pub fn closing_len(&self) -> u64 {
        self.closing_len.load(Ordering::Relaxed)
    }

    /// Whether a file may have been closed and not be in the log yet.
    pub fn is_closing(&self, id: FileId) -> bool {
        self.closing_len() > 0 && self.find(id).is_some_and(|file| file.is_dirty())
    }

    /// Whether what is committed of a file waits for nobody, so that it may be committed after its close.
    pub fn is_free(&self, id: FileId) -> bool {
        self.contents.is_free(id)
    }

    /// Files that were closed and have no record yet, be it of a time that was set while they were committed, and those that an
    /// open emptied and nobody has written to.
    pub fn closed_or_emptied(&self) -> Vec<FileId> {
        let is_done = |file: &FileId| self.find(*file).is_some_and(|file| file.state().life.is_closed_or_emptied());
        self.dirty().into_iter().map(|dirty| dirty.file).filter(is_done).collect()
    }

    /// Files that were closed and have no record yet.
    pub fn closing(&self) -> Vec<FileId> {
        if self.closing_len() == 0 {
            return Vec::new();
        }
        let is_closing = |file: &FileId| self.find(*file).is_some_and(|file| file.state().life.closing().is_some());
        self.dirty().into_iter().map(|dirty| dirty.file).filter(is_closing).collect()
    }
}
