//! Files whose locks a child decides about by itself, in the table of its parent (`locks/delegations.rs`).
//!
//! In the table such a child has one lock on the whole file, of an owner that no program is. It is in the way of everybody else. Who
//! wants a lock then waits, also who does not wait for locks, and who tests: nobody but the child knows yet what is free.

use super::left::ANY_OWNER;
use super::{Asker, Held, Holder, LockTable, TableKey, Waiter, Wish, excludes, family_number, overlaps, range_of};
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::request::{LockFamily, LockKind, LockRange, LockRequest};
use wayfs_types::{FileId, OriginId, Time};
use wayfs_wire::DelegationId;

/// All that is delegated.
#[derive(Debug, Default)]
pub(super) struct Delegations {
    rows: BTreeMap<TableKey, Delegation>,
    counts: BTreeMap<OriginId, usize>,
    last: DelegationId,
    /// When those that were asked to return a file are not waited for any more.
    asked: BTreeSet<(Time, TableKey)>,
    /// Files that were returned since it was looked for those who wait for each other there.
    pub(super) returned: BTreeSet<TableKey>,
}

/// One file of one child.
#[derive(Debug, Clone, Copy)]
struct Delegation {
    child: OriginId,
    serial: DelegationId,
    recalled: Recalled,
}

/// How far it is with the return of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recalled {
    No,
    /// The child was asked for it, and is waited for until then.
    Asked(Time),
    /// It did not return it in time: the whole file counts as a lock of its until it does.
    Late,
}

/// What a child is asked to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recall {
    pub(crate) child: OriginId,
    pub(crate) file: FileId,
    pub(crate) family: LockFamily,
    pub(crate) serial: DelegationId,
}

impl Delegations {
    /// Whether what is held in a file is a child's that decides about all of it.
    pub(super) fn is_delegated(&self, key: TableKey, held: &Held) -> bool {
        let is_its = |row: &Delegation| row.child == held.holder.origin && row.recalled != Recalled::Late;
        held.holder.owner == ANY_OWNER && self.rows.get(&key).is_some_and(is_its)
    }

    /// Whether somebody decides about a file's locks.
    pub(super) fn has(&self, key: TableKey) -> bool {
        self.rows.contains_key(&key)
    }

    /// A child is asked to return a file, unless it was already, and waited for until then.
    pub(super) fn recall(&mut self, key: TableKey, until: Time) -> Option<Recall> {
        let row = self.rows.get_mut(&key).filter(|row| row.recalled == Recalled::No)?;
        row.recalled = Recalled::Asked(until);
        self.asked.insert((until, key));
        let (file, family) = (key.0, super::family_of(key.1));
        Some(Recall { child: row.child, file, family, serial: row.serial })
    }

    fn remove(&mut self, key: TableKey) -> Option<Delegation> {
        let row = self.rows.remove(&key)?;
        if let Recalled::Asked(until) = row.recalled {
            self.asked.remove(&(until, key));
        }
        if let Some(count) = self.counts.get_mut(&row.child) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&row.child);
            }
        }
        Some(row)
    }
}

impl LockTable {
    /// Has a child decide about a file's locks if nobody else has one or waits for one there, and it has fewer than so many files.
    /// Answers the serial of what is delegated, also if it was before.
    pub(crate) fn delegate(&mut self, child: OriginId, request: &LockRequest, most: usize) -> Option<DelegationId> {
        let key = (request.file, family_number(request.family));
        if let Some(row) = self.delegations.rows.get(&key) {
            return (row.child == child && row.recalled == Recalled::No).then_some(row.serial);
        }
        let count = self.delegations.counts.get(&child).copied().unwrap_or(0);
        if self.pauses(request.family) || self.files.contains_key(&key) || count >= most || self.is_full(child) {
            return None;
        }
        let holder = Holder { origin: child, owner: ANY_OWNER };
        self.files.entry(key).or_default().grant(holder, LockRange::WHOLE, LockKind::Write, 0);
        *self.counts.entry(child).or_insert(0) += 1;
        self.delegations.last = self.delegations.last.next();
        let serial = self.delegations.last;
        self.delegations.rows.insert(key, Delegation { child, serial, recalled: Recalled::No });
        *self.delegations.counts.entry(child).or_insert(0) += 1;
        Some(serial)
    }

    /// A child returned a file, and this is what its programs have. Answers who is granted something thereby.
    pub(crate) fn take_back(&mut self, recall: Recall, held: &[LockRequest]) -> Vec<(Asker, LockRequest)> {
        let key = (recall.file, family_number(recall.family));
        let is_this = |row: &Delegation| (row.child, row.serial) == (recall.child, recall.serial);
        if !self.delegations.rows.get(&key).is_some_and(is_this) {
            return Vec::new();
        }
        self.delegations.remove(key);
        if let Some(file) = self.files.get_mut(&key) {
            file.cut(Holder { origin: recall.child, owner: ANY_OWNER }, LockRange::WHOLE);
        }
        for lock in held {
            // A client has no more in all: who says that it has lies.
            if self.is_full(recall.child) {
                break;
            }
            self.mirror(Holder { origin: recall.child, owner: lock.owner }, lock);
            *self.counts.entry(recall.child).or_insert(0) += 1;
        }
        self.count(recall.child);
        self.left.touched.insert(key);
        self.delegations.returned.insert(key);
        self.wake(key)
    }

    /// When a child is not waited for any more that was asked to return a file.
    pub(crate) fn next_late_return(&self) -> Option<Time> {
        self.delegations.asked.first().map(|(until, _)| *until)
    }

    /// Who did not return a file in time has it, for all that others know: who does not wait for locks, or tests, is told so.
    pub(crate) fn end_late_returns(&mut self, now: Time) {
        while let Some((until, key)) = self.delegations.asked.first().copied().filter(|(until, _)| now >= *until) {
            self.delegations.asked.remove(&(until, key));
            if let Some(row) = self.delegations.rows.get_mut(&key) {
                row.recalled = Recalled::Late;
            }
            self.left.touched.insert(key);
        }
    }

    /// A child's session is over: it returns nothing any more, and what was delegated to it counts as a lock of it.
    pub(crate) fn end_delegations(&mut self, child: OriginId) {
        if !self.delegations.counts.contains_key(&child) {
            return;
        }
        let its: Vec<TableKey> =
            self.delegations.rows.iter().filter(|(_, row)| row.child == child).map(|(key, _)| *key).collect();
        for key in its {
            self.delegations.remove(key);
            self.left.touched.insert(key);
        }
    }

    /// Whether what is in a lock's way is for a child to say.
    pub(super) fn is_for_a_child_to_say(&self, holder: Holder, request: &LockRequest) -> bool {
        let key = (request.file, family_number(request.family));
        let Some(file) = self.files.get(&key).filter(|_| self.delegations.has(key)) else { return false };
        file.obstacles(holder, range_of(request), request.kind).any(|held| self.delegations.is_delegated(key, held))
    }

    /// Every lock that a replica has in a file, of one family.
    pub(crate) fn held_in_file(&self, origin: OriginId, file: FileId, family: LockFamily) -> Vec<LockRequest> {
        let Some(row) = self.files.get(&(file, family_number(family))) else { return Vec::new() };
        let its = row.held.iter().filter(|held| held.holder.origin == origin);
        its.map(|held| held.request(file, family)).collect()
    }
}

impl Waiter {
    /// Whether a lock that is held keeps it waiting, if nobody takes it back.
    pub(super) fn is_kept_by(&self, held: &Held) -> bool {
        let is_left_over = held.is_left_over_of(self.holder.origin);
        let is_others = held.holder != self.holder && !is_left_over;
        is_others && overlaps(held.range, range_of(&self.request)) && excludes(held.kind, self.request.kind)
    }

    /// Whether it waits for a lock of its own.
    pub(super) fn takes(&self) -> bool {
        self.wish != Wish::Test
    }
}
