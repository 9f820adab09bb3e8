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

use super::body::Body;
use super::life::Closing;
use super::note::{Note, Orphan, forget_note, note_name, write_note};
use super::open_file::OpenFile;
use super::ranges::RangeSet;
use super::state::State;
use super::table::FileTable;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wayfs_types::{Content, FileId};

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
