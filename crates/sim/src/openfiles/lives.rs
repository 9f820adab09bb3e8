//! How a table begins with its process, what it finds of the one before, and what is looked after while it runs.

use super::event::OpenEvent;
use super::side::{AT_ONCE, Beside};
use super::view::{ALL, Made, View};
use super::views::difference;
use crate::coverage::Branch;
use crate::world::{Event, World};
use rand::Rng;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use wayfs_openfiles::{FileTable, TableSettings};
use wayfs_types::{FileId, RecordId};

/// What is uncommitted for so long is committed.
const DIRTY_AGE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_secs(1);

/// What a process that was killed left of a file.
struct Left {
    shown: Vec<u8>,
    is_dirty: bool,
}

/// Whether a kill took a record, if the process that follows has this one last.
fn is_lost(last: Option<RecordId>, record: RecordId) -> bool {
    last.is_none_or(|last| last.origin() == record.origin() && last.sequence() < record.sequence())
}

impl World {
    /// The last record that a host has made.
    pub(crate) fn last_record(&self, index: usize) -> Option<RecordId> {
        self.hosts[index].replica.as_ref().and_then(|replica| replica.progress().last_record)
    }

    /// Whether the end of a process is a kill: its machine goes on.
    pub(crate) fn is_only_killed(&mut self, index: usize) -> bool {
        let is_killed = self.hosts[index].open.is_some() && self.random.random_bool(0.6);
        if let Some(open) = self.hosts[index].open.as_mut() {
            open.is_killed = is_killed;
        }
        is_killed
    }

    /// The open files of a process that starts.
    pub(crate) fn open_table(&mut self, index: usize) {
        let (Some(plan), Some(open)) = (self.plan.open_files, self.hosts[index].open.as_mut()) else { return };
        let is_killed = std::mem::take(&mut open.is_killed);
        if !is_killed {
            open.disk.cut_power(&mut self.random);
        }
        let (side, disk) = (Arc::clone(&open.side), Arc::new(open.disk.clone()));
        self.show_host(index);
        let settings = TableSettings {
            disk,
            idle_len_max: plan.scale * 2,
            idle_count_max: 2,
            memory_max: plan.memory_max,
            body_count_max: 64,
        };
        let table = match FileTable::open(Arc::new(Beside(side)), settings) {
            Ok(table) => table,
            Err(error) => return self.violate("open files begin", format!("host {index}: {error}")),
        };
        let Some(open) = self.hosts[index].open.as_mut() else { return };
        open.table = Some(Rc::new(table));
        for file in self.open_files().to_vec() {
            self.check_recovered(index, file, is_killed);
        }
        let left = self.on_table(index, |table| table.left().iter().map(|open| open.id()).collect::<BTreeSet<_>>());
        // Before anybody else hears of it.
        for file in left.unwrap_or_default() {
            self.begin_commit(index, file, None);
            self.hash(index, file);
        }
        let first = self.millis(1..=1000);
        self.open_event_after(index, first, OpenEvent::Program);
        self.open_event_after(index, TICK, OpenEvent::Tick);
    }

    /// What a new process shows of a file is what it goes on from.
    fn check_recovered(&mut self, index: usize, file: FileId, is_killed: bool) {
        let found = self.on_table(index, |table| {
            let open = table.find(file)?;
            Some((table.read(&open, ALL, AT_ONCE).ok(), open.is_dirty()))
        });
        let (shown, is_dirty) = match found {
            Some(Some((shown, is_dirty))) => (shown.map(|bytes| bytes.to_vec()), is_dirty),
            Some(None) => (self.engine_bytes(index, file), false),
            None => return,
        };
        if is_killed && is_dirty {
            self.cover(Branch::OpenFileRecovered);
        }
        let last = self.last_record(index);
        let Some(view) = self.view(index, file) else { return };
        let before = std::mem::take(view);
        let appended_at = before.appended_at_after(shown.as_deref(), |record| is_lost(last, record));
        view.is_dirty = is_dirty;
        if is_killed && !self.plan.exclusive {
            self.judge_copies(index, file, &before);
        }
        let Some(view) = self.view(index, file) else { return };
        let Some(shown) = shown else {
            // It lies elsewhere: what it is shows later.
            view.bytes = before.next.unwrap_or(before.bytes);
            (view.is_unknown, view.appended_at) = (true, appended_at.filter(|_| is_dirty));
            view.may_move = is_dirty;
            return;
        };
        view.bytes.clone_from(&shown);
        // A commit may have moved it behind another machine's version, and have come no further.
        let moved_to = before.appended_in(&shown).filter(|_| before.is_dirty);
        view.appended_at = moved_to.or(appended_at).filter(|at| is_dirty && *at <= shown.len());
        if is_killed && !self.plan.exclusive {
            self.judge_killed(index, file, &before, Left { shown, is_dirty });
        } else if !is_killed && is_dirty {
            self.violate("after a power cut only records count", format!("host {index}, {file}"));
        }
    }

    /// After a kill a file is what the programs were told ([S-kill]).
    fn judge_killed(&mut self, index: usize, file: FileId, before: &View, left: Left) {
        let Left { shown, is_dirty } = left;
        let last = self.last_record(index);
        let is_lost = |record| is_lost(last, record);
        let is_own = before.is_dirty || before.record.is_some_and(is_lost);
        let is_unsure = before.is_unsure || before.stored.iter().any(|made| made.is_unsure && is_lost(made.record));
        if !is_own || is_unsure || before.is_unknown || before.may_be(&shown) {
            return;
        }
        // An open that emptied it goes with the kill while nothing was written: it is the version that there is by now, or what this
        // machine had stored and what is not with the host.
        let is_stored = before.stored.iter().any(|made| is_lost(made.record) && made.bytes == shown);
        let is_version = !is_dirty && self.engine_bytes(index, file).as_ref() == Some(&shown);
        // Of a copy the journal may not have heard yet that its record is on the disk: it is committed again (seed 180024330).
        let is_copied = before.stored.iter().any(|made| made.file != file && made.bytes == shown);
        if before.emptied.is_some() && (is_version || is_dirty && (is_stored || is_copied)) {
            return;
        }
        // A copy whose record went is uncommitted again, and the journal may not have heard yet that it was one: the file shows it until it is
        // committed, as a copy once more, which is at once. What the programs saw is the version that the host has (seed 176039606).
        let is_as_seen = !before.is_dirty && self.engine_bytes(index, file).as_ref() == Some(&before.bytes);
        if is_dirty && is_stored && is_as_seen {
            return;
        }
        match before.appended_in(&shown).filter(|_| is_dirty && before.is_dirty) {
            Some(at) => self.check_known(index, file, &shown[..at]),
            None => {
                let line = format!("host {index}, {file}: {}", difference(&before.bytes, &shown));
                self.violate("a kill takes nothing that was written", line);
            }
        }
    }

    /// What a commit stored upon a version that another machine had replaced is a copy, and what a program writes afterwards does not stand
    /// for it. If a kill takes its record it is uncommitted again ([S-kill]).
    fn judge_copies(&mut self, index: usize, file: FileId, before: &View) {
        let last = self.last_record(index);
        let is_there = self.inode(index, file).is_some_and(|inode| !inode.is_removed());
        let lost: Vec<Made> = before.ends_lost(|record| is_lost(last, record)).cloned().collect();
        if lost.is_empty() || !is_there || before.was_full {
            return;
        }
        let engine = self.engine_bytes(index, file);
        let left = self.on_table(index, |table| {
            let left = table.to_commit(file);
            left.iter().map(|open| table.read(open, ALL, AT_ONCE).ok().map(|bytes| bytes.to_vec())).collect::<Vec<_>>()
        });
        let left = left.unwrap_or_default();
        let is_left = |made: &Made| left.iter().any(|left| left.as_ref().is_none_or(|left| *left == made.bytes));
        for made in lost {
            // What met another version, and was stored before, is the same once more: the copy has it (seed 178004871).
            let is_in_copy = self.engine_bytes(index, made.file).as_ref() == Some(&made.bytes);
            let is_kept = engine.as_ref() == Some(&made.bytes) || is_in_copy || is_left(&made);
            // An open that emptied it, and was committed so, is in no journal.
            if !made.bytes.is_empty() && !is_kept {
                let line = format!("host {index}, {file}: {} upon {}, {} left", made.record, made.base, left.len());
                self.violate("a kill takes no copy that was made", line);
            }
        }
    }

    /// Somebody waits for the disk of a host.
    pub(super) fn sync_for_open_files(&mut self, index: usize) {
        let (span, life) = (self.sync_span(), self.hosts[index].life);
        let point = self.hosts[index].disk.0.borrow_mut().begin_sync();
        self.after(span, Event::Synced { host: index, life, point });
    }

    /// Records of a host reached its disk: its open files hear of it before anybody else does.
    pub(crate) fn tell_open_files_of_disk(&mut self, index: usize) {
        let through = self.hosts[index].disk.0.borrow().records_durable().0;
        self.on_table(index, |table| table.written(through));
    }

    /// Once a second.
    pub(super) fn tick_open_files(&mut self, index: usize) {
        self.open_event_after(index, TICK, OpenEvent::Tick);
        let found = self.on_table(index, |table| {
            table.catch_up_with_the_disk();
            (table.due(DIRTY_AGE), table.closing_len() > 0)
        });
        let (due, is_note_left) = found.unwrap_or_default();
        if is_note_left {
            self.sync_for_open_files(index);
        }
        for file in due {
            self.begin_commit(index, file, None);
        }
        self.tell_kernel_of_wrong_pages(index);
        self.on_table(index, |table| table.tend_journals());
    }
}
