//! A file as programs of one machine know it: what they were told it is, what it was, and what of it is in no record.

use std::collections::VecDeque;
use wayfs_types::{FileId, RecordId};

/// Most commits of one file whose records a kill may take.
const STORED_MAX: usize = 16;
/// Most of what a file was that is kept for comparison with the pages of a kernel.
const PAST_MAX: usize = 12;
/// Longer than any file.
pub(super) const ALL: std::ops::Range<u64> = 0..1 << 40;

/// A file as programs of one machine know it.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    /// What it becomes if the step that is under way is done.
    pub(super) next: Option<Vec<u8>>,
    /// What it was before, since the kernel had no page of it; the oldest first.
    past: VecDeque<Vec<u8>>,
    /// That is not all of it.
    is_past_cut: bool,
    /// Something of it is in no record.
    pub(super) is_dirty: bool,
    /// Programs were told of bytes that no commit has stored yet, whatever the table says of it.
    pub(super) is_owed: bool,
    /// What an open emptied: a kill may bring it back.
    pub(super) emptied: Option<Vec<u8>>,
    /// Since when all that was written was appended: the length then.
    pub(super) appended_at: Option<usize>,
    /// The same of what was written since a commit took the rest.
    pub(super) taken_at: Option<usize>,
    /// What it was when nothing was uncommitted last.
    pub(super) clean: Option<Vec<u8>>,
    /// The record that made it what it is, if it is of this machine.
    pub(super) record: Option<RecordId>,
    /// What the last commits of this machine stored.
    pub(super) stored: VecDeque<Made>,
    /// The disk was full: a kill may take what is uncommitted.
    pub(super) is_unsure: bool,
    /// The disk was full at some time since the process began: the journal may lack what records held.
    pub(super) was_full: bool,
    /// Some of it lies elsewhere: what it is shows later.
    pub(super) is_unknown: bool,
    /// So it was when a commit took it: how much of it was there then is not known either.
    pub(super) was_unknown_when_taken: bool,
    /// What is uncommitted since such a commit may be all appended, and go behind another machine's version.
    pub(super) may_move: bool,
}

/// What a commit stored.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) record: RecordId,
    /// The file that has it: a copy, if another version met it.
    pub(super) file: FileId,
    /// The version that it was written upon.
    pub(super) base: RecordId,
    pub(super) bytes: Vec<u8>,
    /// As of the view.
    appended_at: Option<usize>,
    /// As of the view: while its record is not on the disk, no journal stands for it.
    pub(super) is_unsure: bool,
}

impl View {
    /// A commit stored what it had taken, which is what was written upon from now on.
    pub(super) fn note_made(&mut self, (record, file): (RecordId, FileId), base: RecordId, bytes: Vec<u8>) {
        if self.stored.len() == STORED_MAX {
            self.stored.pop_front();
        }
        self.stored.push_back(Made {
            record,
            file,
            base,
            bytes: bytes.clone(),
            appended_at: self.appended_at,
            is_unsure: self.is_unsure,
        });
        self.record = (self.bytes == bytes).then_some(record);
        self.is_owed &= self.bytes != bytes;
        self.clean = Some(bytes);
        self.appended_at = self.taken_at;
        self.may_move |= self.was_unknown_when_taken;
    }

    /// A close returned, and waited for no disk: whatever it stored survives a kill.
    pub(super) fn closed(&mut self) {
        self.stored.iter_mut().for_each(|made| made.is_unsure = false);
    }

    /// What commits stored that nothing of this machine was written upon, and that a kill took.
    pub(super) fn ends_lost(&self, is_lost: impl Fn(RecordId) -> bool) -> impl Iterator<Item = &Made> {
        let is_gone_on_from = |made: &Made| self.stored.iter().any(|later| later.base == made.record);
        let is_shown = |made: &Made| self.record == Some(made.record) || self.clean.as_ref() == Some(&made.bytes);
        self.stored.iter().filter(move |made| is_lost(made.record) && !is_gone_on_from(made) && !is_shown(made))
    }

    /// Since when all was appended that is uncommitted after a kill. What a commit had stored is uncommitted again, if the kill took its
    /// record, or came before the journal heard that the record is with the host.
    pub(super) fn appended_at_after(&self, shown: Option<&[u8]>, is_lost: impl Fn(RecordId) -> bool) -> Option<usize> {
        let is_back = |made: &Made| is_lost(made.record) || shown == Some(&made.bytes[..]);
        match self.stored.iter().position(is_back) {
            Some(first) => {
                let is_all = self.stored.iter().skip(first).all(|made| made.appended_at.is_some());
                let is_same_since = self.appended_at.is_some() || !self.is_dirty;
                self.stored[first].appended_at.filter(|_| is_all && is_same_since)
            }
            // A step that nobody was answered may have been the first.
            None => self.appended_at.or((!self.is_dirty).then_some(self.bytes.len())),
        }
    }

    /// What programs appended, in the bytes that a host shows: behind another machine's version, if a commit moved it there.
    pub(super) fn appended_in(&self, bytes: &[u8]) -> Option<usize> {
        let appended = self.bytes.get(self.appended_at?..).filter(|appended| !appended.is_empty())?;
        bytes.ends_with(appended).then(|| bytes.len() - appended.len())
    }

    /// A program is about to change it. If a step before was not answered, the process ended in it, and there is no other.
    pub(super) fn begin(&mut self, next: Vec<u8>) {
        self.next.get_or_insert(next);
    }

    /// Whether a kill may leave these bytes. A step that nobody was answered may have been done in part.
    pub(super) fn may_be(&self, bytes: &[u8]) -> bool {
        let is_part = |next: &Vec<u8>| {
            let is_known = |(at, byte): (usize, &u8)| [&self.bytes, next].iter().any(|view| view.get(at) == Some(byte));
            [self.bytes.len(), next.len()].contains(&bytes.len()) && bytes.iter().enumerate().all(is_known)
        };
        self.bytes == bytes || self.emptied.as_deref() == Some(bytes) || self.next.as_ref().is_some_and(is_part)
    }

    pub(super) fn become_other(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if self.past.len() == PAST_MAX {
            self.past.pop_front();
            self.is_past_cut = true;
        }
        self.past.push_back(before.clone());
        before
    }

    /// The kernel has no page of it any more.
    pub(super) fn forget_past(&mut self) {
        self.past.clear();
        self.is_past_cut = false;
    }

    /// It was out of sight for a while: of what it was then nothing is known, and the kernel may have pages of that until it is told
    /// (seed 180603337).
    pub(super) fn was_out_of_sight(&mut self) {
        self.is_past_cut = true;
    }

    /// Whether a page may be one of what the file is, or was.
    pub(super) fn may_have_been(&self, shows: impl Fn(&[u8]) -> bool) -> bool {
        self.is_past_cut || self.is_unknown || shows(&self.bytes) || self.past.iter().any(|past| shows(past))
    }

    /// It is told that it did.
    pub(super) fn acknowledge(&mut self) {
        if let Some(next) = self.next.take() {
            self.become_other(next);
            (self.is_dirty, self.is_owed) = (true, true);
            self.record = None;
        }
    }
}
