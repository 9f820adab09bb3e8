//! Advisory locks of one mount: who holds what, who waits.
//!
//! A plain data structure without input or output, for handlers that grant locks themselves. A *file*
//! has for each [`LockScope`] a list of held locks; the locks of one owner never overlap, and locks of
//! different owners overlap only if both are shared. Requests that must wait stand in one queue in
//! order of arrival; whenever locks are dropped, those of that file are tried again in that order.
//! `W` is whatever answers a waiting request, usually a [`crate::Reply`].

use std::collections::BTreeMap;

use crate::{FileLock, Inode, LockKind, LockOwner, LockRange, LockScope, Unique};

/// Held ranges per file and scope at most; a program that locks every other byte of a large file ends here.
const HELD_MAX: usize = 4096;
/// Waiting requests at most, over all files.
const WAITERS_MAX: usize = 4096;

/// Whose locks on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockSubject {
    /// The file.
    pub inode: Inode,
    /// Record locks or flock locks.
    pub scope: LockScope,
    /// Who.
    pub owner: LockOwner,
}

/// What came of a lock request.
#[derive(Debug, PartialEq, Eq)]
pub enum LockOutcome<W> {
    /// Held (or dropped, for an unlock). The waiter comes back, to be answered.
    Granted(W),
    /// Another holds it: EAGAIN. The waiter comes back.
    Held(W),
    /// Waiting would never end, since the holder waits for this owner: EDEADLK. The waiter comes back.
    Deadlock(W),
    /// A limit of the table is reached: ENOLCK. The waiter comes back.
    TooMany(W),
    /// The waiter is kept until granted or cancelled.
    Waiting,
}

/// The locks of a mount.
#[derive(Debug)]
pub struct LockTable<W> {
    held: BTreeMap<(Inode, LockScope), Vec<Held>>,
    waiting: Vec<Waiting<W>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    owner: LockOwner,
    lock: FileLock,
}

#[derive(Debug)]
struct Waiting<W> {
    unique: Unique,
    subject: LockSubject,
    lock: FileLock,
    waiter: W,
}

impl<W> Default for LockTable<W> {
    fn default() -> Self {
        Self { held: BTreeMap::new(), waiting: Vec::new() }
    }
}

impl<W> LockTable<W> {
    /// The first lock of another owner that stands in the way of `lock`.
    #[must_use]
    pub fn conflict(&self, subject: LockSubject, lock: &FileLock) -> Option<FileLock> {
        self.conflicts(subject, lock).map(|held| held.lock).next()
    }

    /// Takes, changes or drops a lock, without waiting.
    ///
    /// Also returns the waiters of others that are granted in consequence.
    pub(crate) fn try_set(&mut self, subject: LockSubject, lock: FileLock, waiter: W) -> (LockOutcome<W>, Vec<W>) {
        if self.conflict(subject, &lock).is_some() {
            return (LockOutcome::Held(waiter), Vec::new());
        }
        if !self.apply(subject, lock) {
            return (LockOutcome::TooMany(waiter), Vec::new());
        }
        (LockOutcome::Granted(waiter), self.wake(subject))
    }

    /// As [`LockTable::try_set`], but stands in the queue if another holds it.
    pub fn set(&mut self, unique: Unique, subject: LockSubject, lock: FileLock, waiter: W) -> (LockOutcome<W>, Vec<W>) {
        if self.conflict(subject, &lock).is_none() {
            return self.try_set(subject, lock, waiter);
        }
        if self.waiting.len() >= WAITERS_MAX {
            return (LockOutcome::TooMany(waiter), Vec::new());
        }
        match subject.scope {
            LockScope::Record => {
                if self.would_deadlock(subject, &lock) {
                    return (LockOutcome::Deadlock(waiter), Vec::new());
                }
                self.waiting.push(Waiting { unique, subject, lock, waiter });
                (LockOutcome::Waiting, Vec::new())
            }
            // A flock that changes its kind lets go before it waits, or two that share and both
            // want it alone would wait for each other for ever.
            LockScope::Flock => {
                self.waiting.push(Waiting { unique, subject, lock, waiter });
                (LockOutcome::Waiting, self.release(subject))
            }
        }
    }

    /// Drops all that the owner holds on the file (at the flush or release that ends it).
    pub fn release(&mut self, subject: LockSubject) -> Vec<W> {
        let everything = LockRange { start: 0, end: u64::MAX };
        self.carve(subject, everything);
        self.wake(subject)
    }

    /// Takes a waiter out of the queue: its caller was interrupted.
    pub fn cancel(&mut self, unique: Unique) -> Option<W> {
        let place = self.waiting.iter().position(|waiting| waiting.unique == unique)?;
        Some(self.waiting.remove(place).waiter)
    }

    /// Number of requests that wait.
    #[must_use]
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    fn conflicts(&self, subject: LockSubject, lock: &FileLock) -> impl Iterator<Item = &Held> {
        let held = self.held.get(&(subject.inode, subject.scope)).map_or(&[][..], Vec::as_slice);
        let (range, kind) = (lock.range, lock.kind);
        held.iter().filter(move |held| {
            held.owner != subject.owner && held.lock.range.overlaps(range) && excludes(held.lock.kind, kind)
        })
    }

    /// Makes the owner's locks in the range be exactly `lock`. False if there are too many already.
    fn apply(&mut self, subject: LockSubject, lock: FileLock) -> bool {
        let held = self.held.entry((subject.inode, subject.scope)).or_default();
        // Carving the middle out of a lock makes two of it, then the new one is added.
        if lock.kind != LockKind::Unlock && held.len() + 2 > HELD_MAX {
            return false;
        }
        self.carve(subject, lock.range);
        if lock.kind != LockKind::Unlock {
            let held = self.held.entry((subject.inode, subject.scope)).or_default();
            held.push(Held { owner: subject.owner, lock });
            join_neighbours(held, subject.owner);
        }
        true
    }

    /// Drops what the owner holds inside `hole`, keeping what sticks out on either side.
    fn carve(&mut self, subject: LockSubject, hole: LockRange) {
        let key = (subject.inode, subject.scope);
        let Some(held) = self.held.get_mut(&key) else { return };
        let mut rests = Vec::new();
        held.retain(|one| {
            let hit = one.owner == subject.owner && one.lock.range.overlaps(hole);
            if hit {
                rests.extend(
                    without(one.lock.range, hole)
                        .map(|range| Held { owner: one.owner, lock: FileLock { range, ..one.lock } }),
                );
            }
            !hit
        });
        held.extend(rests);
        if held.is_empty() {
            self.held.remove(&key);
        }
    }

    /// Grants what has become free on the subject's file, in order of arrival.
    fn wake(&mut self, subject: LockSubject) -> Vec<W> {
        let mut granted = Vec::new();
        let mut place = 0;
        while let Some(waiting) = self.waiting.get(place) {
            let same = (waiting.subject.inode, waiting.subject.scope) == (subject.inode, subject.scope);
            if same && self.conflict(waiting.subject, &waiting.lock).is_none() {
                let waiting = self.waiting.remove(place);
                if self.apply(waiting.subject, waiting.lock) {
                    granted.push(waiting.waiter);
                } else {
                    // The file is at its limit: this one goes on waiting for others to let go.
                    self.waiting.insert(place, waiting);
                    place += 1;
                }
            } else {
                place += 1;
            }
        }
        granted
    }

    /// Follows "waits for" from the holders in the way; true if it leads back to the subject's owner.
    fn would_deadlock(&self, subject: LockSubject, lock: &FileLock) -> bool {
        let mut open: Vec<LockOwner> = self.conflicts(subject, lock).map(|held| held.owner).collect();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(owner) = open.pop() {
            if owner == subject.owner {
                return true;
            }
            if !seen.insert(owner) {
                continue;
            }
            let waits = self
                .waiting
                .iter()
                .filter(|waiting| waiting.subject.owner == owner && waiting.subject.scope == LockScope::Record);
            for waiting in waits {
                open.extend(self.conflicts(waiting.subject, &waiting.lock).map(|held| held.owner));
            }
        }
        false
    }
}

/// True if the two kinds cannot be held by different owners at once.
fn excludes(held: LockKind, wanted: LockKind) -> bool {
    match (held, wanted) {
        (LockKind::Unlock, _) | (_, LockKind::Unlock) | (LockKind::Read, LockKind::Read) => false,
        (LockKind::Write, _) | (LockKind::Read, LockKind::Write) => true,
    }
}

/// The parts of `range` before and after `hole`.
fn without(range: LockRange, hole: LockRange) -> impl Iterator<Item = LockRange> {
    let before = (range.start < hole.start).then(|| LockRange { start: range.start, end: hole.start - 1 });
    let after = (range.end > hole.end).then(|| LockRange { start: hole.end + 1, end: range.end });
    before.into_iter().chain(after)
}

/// Makes one lock of an owner's adjacent locks of the same kind.
fn join_neighbours(held: &mut Vec<Held>, owner: LockOwner) {
    let mut own: Vec<Held> = held.iter().filter(|one| one.owner == owner).copied().collect();
    held.retain(|one| one.owner != owner);
    own.sort_by_key(|one| one.lock.range.start);
    for one in own {
        match held.last_mut() {
            Some(last)
                if last.owner == owner
                    && last.lock.kind == one.lock.kind
                    && last.lock.range.end.checked_add(1) == Some(one.lock.range.start) =>
            {
                last.lock.range.end = one.lock.range.end;
            }
            _ => held.push(one),
        }
    }
}

#[cfg(test)]
mod tests;
