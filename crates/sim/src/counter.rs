//! A counter that programs keep in a file, under the lock of `locks.rs`: who is granted that sees the file at least as far as
//! anybody counted who let go of it, whoever and wherever that was ([S-lock-order] in exclusive directories).
//!
//! A program opens the file (the home is asked for all that it has, and the file is looked at) before it asks for the lock, as
//! programs do, and reads it when it has it. If nobody answered the look in time, the file was shown without the parent's word; the kernel
//! keeps nothing of that, and would ask again: such a program does not count. It stores one more, waits until the home has that, and lets go. What was counted
//! under a lock that was lost may meet what another counted: from then on nothing is judged.
//!
//! Where directories are not exclusive that holds among those at one server, and nobody waits for the home.

use crate::coverage::Branch;
use crate::host::{Expectation, name_of};
use crate::lock_use::{Counting, Held, LockUse, Wanted};
use crate::tally::Counted;
use crate::world::World;
use bytes::Bytes;
use rand::Rng;
use wayfs_types::request::{Answer, Change, Level, LockKind, LockRange, Outcome, Request};
use wayfs_types::{Content, FileId, Inode, Key, Kind};

/// Its name.
const COUNTER: &str = "counter";

fn number_in(inode: &Inode) -> u64 {
    match &inode.content {
        Content::Inline(bytes) => bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
        Content::Tree { .. } => 0,
    }
}

impl World {
    pub(crate) fn make_counter(&mut self) {
        if !self.judges_locks() {
            return;
        }
        let (parent, name, kind) = (FileId::ROOT, name_of(COUNTER), Kind::File);
        let change = Change::Create { parent, name, kind, mode: 0o644, uid: 0, gid: 0 };
        self.ask(0, Request::Change { user: 0, change }, Expectation::Created);
    }

    /// The file, if it is there.
    pub(crate) fn counter_file(&mut self) -> Option<FileId> {
        if self.counter.file.is_none() && self.judges_locks() {
            let home = self.hosts[0].replica.as_ref();
            let entry = home.and_then(|home| home.entry(FileId::ROOT, &name_of(COUNTER)).ok()).flatten();
            self.counter.file = entry.map(|entry| entry.file);
        }
        self.counter.file
    }

    /// A program opens the file to count. Answers whether it does.
    pub(crate) fn open_counter(&mut self, index: usize, wanted: Wanted) -> bool {
        if self.counter_file().is_none() || self.random.random_bool(0.3) {
            return false;
        }
        self.hosts[index].lock = LockUse::Opens(wanted);
        self.ask(index, Request::Refresh, Expectation::Nothing);
        true
    }

    /// Something that a program asked which opens the file was answered.
    pub(crate) fn opening_answered(&mut self, index: usize, wanted: Wanted, request: &Request, outcome: &Outcome) {
        let Some(file) = self.counter.file else { return };
        match request {
            Request::Refresh if outcome.is_ok() => {
                self.ask(index, Request::Attributes { file }, Expectation::Read);
            }
            Request::Attributes { file: of } if *of == file && outcome.is_ok() => {
                let opened = self.hosts[index].parent_session.filter(|_| self.is_verified(index, *of));
                self.ask_for_lock(index, Wanted { opened, ..wanted });
            }
            Request::Attributes { file: of } if *of != file => {}
            Request::Refresh | Request::Attributes { .. } => self.hosts[index].lock = LockUse::Idle,
            _ => {}
        }
    }

    /// Whether the parent vouches for what a host shows of a file.
    fn is_verified(&self, index: usize, file: FileId) -> bool {
        let replica = self.hosts[index].replica.as_ref();
        replica.is_some_and(|replica| replica.is_verified(&Key::Inode(file)).unwrap_or(false))
    }

    /// A program was granted the lock. If it opened the file in this session, it is told of each change of it; after another one
    /// began its kernel would ask first.
    pub(crate) fn count(&mut self, index: usize, held: Held) {
        if held.wanted.opened.is_none() || held.wanted.opened != self.hosts[index].parent_session {
            return;
        }
        let Some(file) = self.counter.file else { return };
        let Some(inode) = self.inode(index, file) else { return };
        let Some(judge) = self.judge_of(&held) else { return };
        let number = number_in(&inode);
        let Counted { number: counted, by, given } = self.counter.counted.get(&judge).copied().unwrap_or_default();
        // Nobody waits for ever for who left: what it did may be on its way still.
        let is_there = self.plan.exclusive || self.is_kept(by, given);
        if number < counted && is_there && !self.is_met(index, file) {
            let line = format!("host {index} was granted it and saw {number}, after host {by} had counted {counted}");
            self.violate("who is granted a lock sees what was done under it before", line);
        }
        if self.random.random_bool(0.2) {
            return;
        }
        self.set_counting(index, held, Counting::Asked(number + 1));
        let unique: u64 = self.random.random();
        let bytes = [number + 1, unique].map(u64::to_le_bytes).concat().repeat(8);
        let content = Content::Inline(Bytes::from(bytes));
        let (base, mtime) = (inode.version, self.hosts[index].wall(self.now));
        let expectation = Expectation::Stored { base, content: content.clone() };
        let change = Change::Store { file, base, content, mtime };
        self.ask(index, Request::Change { user: 1000, change }, expectation);
    }

    /// Whose word counts for who had the lock: the home's, or outside of exclusive directories that of the server that gave it.
    fn judge_of(&self, held: &Held) -> Option<usize> {
        if self.plan.exclusive { Some(0) } else { held.given.map(|given| given.server) }
    }

    /// Whether a report tells of the file: counts under locks that were lost met others.
    fn is_met(&self, index: usize, file: FileId) -> bool {
        [0, index].into_iter().any(|host| {
            let replica = self.hosts[host].replica.as_ref();
            let reports = replica.and_then(|replica| replica.conflicts(None, usize::MAX).ok());
            reports.is_none_or(|reports| reports.iter().any(|report| report.conflict.file == file))
        })
    }

    /// Something that a program asked while it had the lock was answered.
    pub(crate) fn counting_answered(&mut self, index: usize, held: Held, request: &Request, outcome: &Outcome) {
        let Counting::Asked(number) = held.counting else { return };
        match (request, outcome) {
            (Request::Change { change: Change::Store { file, .. }, .. }, _) if Some(*file) != self.counter.file => {}
            (Request::Change { change: Change::Store { .. }, .. }, Ok(Answer::Changed { record, .. })) => {
                if !self.plan.exclusive {
                    self.set_counting(index, held, Counting::Done(number));
                    // What it stored is nowhere else yet.
                    if self.random.random_bool(0.7) {
                        self.leave_lock(index);
                    }
                    return;
                }
                let wait = Request::Wait { record: Some(*record), until: Level::Visible };
                self.ask(index, wait, Expectation::Nothing);
            }
            (Request::Wait { until: Level::Visible, .. }, Ok(_)) => {
                self.set_counting(index, held, Counting::Done(number));
            }
            (
                Request::Change { change: Change::Store { .. }, .. } | Request::Wait { until: Level::Visible, .. },
                Err(_),
            ) => {
                self.set_counting(index, held, Counting::Not);
            }
            _ => {}
        }
    }

    fn set_counting(&mut self, index: usize, held: Held, counting: Counting) {
        self.hosts[index].lock = LockUse::Has(Held { counting, ..held });
    }

    /// A program let go of the lock, which it had all the time.
    pub(crate) fn counted(&mut self, index: usize, held: &Held) {
        let (Counting::Done(number), Some(judge)) = (held.counting, self.judge_of(held)) else { return };
        let is_whole = held.wanted.range == LockRange::WHOLE && held.wanted.kind == LockKind::Write;
        if !is_whole || !self.plan.exclusive && !self.is_kept(index, held.given) {
            return;
        }
        self.cover(Branch::Counted);
        let counted = self.counter.counted.entry(judge).or_default();
        if number > counted.number {
            *counted = Counted { number, by: index, given: held.given };
        }
    }
}
