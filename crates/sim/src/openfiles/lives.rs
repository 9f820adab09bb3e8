//! How a table begins with its process, what it finds of the one before, and what is looked after while it runs.

use super::side::Beside;
use super::views::{ALL, difference};
use super::{AT_ONCE, OpenEvent};
use crate::coverage::Branch;
use crate::world::{Event, World};
use rand::Rng;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use wayfs_openfiles::{FileTable, TableSettings};
use wayfs_types::{FileId, RecordId};

/// What is uncommitted for so long is committed.
const DIRTY_AGE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_secs(1);

impl World {
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
        let left = self.on_table(index, |table| table.left().iter().map(|open| open.id()).collect::<Vec<_>>());
        for file in left.unwrap_or_default() {
            self.begin_commit(index, file, None);
        }
        let first = self.millis(1, 1000);
        self.open_event_after(index, first, OpenEvent::Program);
        self.open_event_after(index, TICK, OpenEvent::Tick);
    }

    /// After a kill a file is what the programs were told ([S-kill]); after a power cut only records count.
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
        let last = self.hosts[index].replica.as_ref().and_then(|replica| replica.progress().last_record);
        let is_lost = |record: RecordId| {
            last.is_none_or(|last| last.origin() == record.origin() && last.sequence() < record.sequence())
        };
        let is_judged = is_killed && !self.plan.exclusive;
        let engine = self.engine_bytes(index, file);
        let Some(view) = self.view(index, file) else { return };
        let is_own = view.is_dirty || view.record.is_some_and(is_lost);
        let is_sure = !view.is_unsure && !view.is_unknown;
        let before = std::mem::take(view);
        let Some(shown) = shown else {
            // It lies elsewhere: what it is shows later.
            view.is_dirty = is_dirty;
            view.bytes = before.next.unwrap_or(before.bytes);
            view.is_unknown = true;
            return;
        };
        view.bytes.clone_from(&shown);
        // The journal says what was appended, and a step that nobody was answered may have been the first.
        let appended_at = before.appended_at.or((!before.is_dirty).then_some(before.bytes.len()));
        view.appended_at = appended_at.filter(|at| is_dirty && *at <= shown.len());
        view.is_dirty = is_dirty;
        // An open that emptied it goes with the kill while nothing was written ([S-kill]): it is the version that there is by now.
        let is_as_if_not_emptied = before.emptied.is_some() && !is_dirty && engine.as_ref() == Some(&shown);
        let is_fit = before.may_be(&shown) || is_as_if_not_emptied;
        if is_killed && is_dirty {
            self.cover(Branch::OpenFileRecovered);
        }
        if is_judged && is_own && is_sure && !is_fit {
            let line = format!("host {index}, {file}: {}", difference(&before.bytes, &shown));
            self.violate("a kill takes nothing that was written", line);
        }
        if !is_killed && is_dirty {
            self.violate("after a power cut only records count", format!("host {index}, {file}"));
        }
    }

    /// Somebody waits for the disk of a host.
    pub(super) fn sync_for_open_files(&mut self, index: usize) {
        let (span, life) = (self.sync_span(), self.hosts[index].life);
        let point = self.hosts[index].disk.0.borrow().sync_point();
        self.after(span, Event::Synced { host: index, life, point });
    }

    /// Once a second.
    pub(super) fn tick_open_files(&mut self, index: usize) {
        self.open_event_after(index, TICK, OpenEvent::Tick);
        let through = self.hosts[index].disk.0.borrow().records_durable().0;
        self.on_table(index, |table| table.written(through));
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
        self.on_table(index, |table| {
            while table.poll_wrong_pages().is_some() {}
            table.tend_journals();
        });
    }
}
