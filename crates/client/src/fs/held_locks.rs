//! Which locks programs of this mount may hold, and under which numbers the engine knows their owners.

use super::ids::{HandleId, LockOwner};
use super::lock_wishes::{LockScope, LockWish};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wayfs_types::FileId;
use wayfs_types::request as ask;

/// One owner's locks on one file.
type Key = (FileId, ScopeNumber, LockOwner);

/// Record locks are 0, `flock` is 1.
type ScopeNumber = u8;

/// What is known of one owner's locks on one file. It may be too much, never too little.
#[derive(Debug)]
struct Held {
    /// The owner, as the engine knows it.
    owner: ask::LockOwner,
    /// The handles through which they were asked for.
    handles: BTreeSet<HandleId>,
    /// Whether it has any. Who let go of all keeps its number while a handle is open: another thread may ask for a lock just then, and that
    /// one is to be let go under the number under which it was taken.
    is_held: bool,
    /// Whether one of them excluded all others.
    is_exclusive: bool,
}

/// Who took locks, so that a close without any asks nobody, and a handle that goes takes its own along.
///
/// The kernel's number for the owner of an open file's locks is made of an address, which the next open file may have. The end of the one
/// before may be told after the lock of the next: so owners of record locks have numbers of our own, a new one when all their handles went.
#[derive(Default)]
pub(super) struct HeldLocks(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    held: BTreeMap<Key, Held>,
    last_owner: u64,
}

impl Rows {
    /// The number of an owner: the one that it has, or a new one.
    fn owner(&mut self, file: FileId, scope: LockScope, owner: LockOwner) -> ask::LockOwner {
        let known = self.held.get(&(file, number(scope), owner)).map(|held| held.owner);
        known.unwrap_or_else(|| match scope {
            LockScope::Record => {
                self.last_owner += 1;
                ask::LockOwner(OWN_NUMBERS | self.last_owner)
            }
            LockScope::Flock => ask::LockOwner(owner.number()),
        })
    }
}

/// Owners of record locks; a `flock` has the number of its handle.
const OWN_NUMBERS: u64 = 1 << 62;

impl HeldLocks {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lock is asked for through a handle. Answers whose it is to the engine.
    pub(super) fn note(&self, file: FileId, handle: HandleId, wish: &LockWish) -> ask::LockOwner {
        let mut rows = self.rows();
        let owner = rows.owner(file, wish.scope, wish.owner);
        let none = Held { owner, handles: BTreeSet::new(), is_held: false, is_exclusive: false };
        let held = rows.held.entry((file, number(wish.scope), wish.owner)).or_insert(none);
        held.handles.insert(handle);
        held.is_held = true;
        held.is_exclusive |= wish.kind == ask::LockKind::Write;
        owner
    }

    /// Whose a lock is to the engine.
    pub(super) fn owner(&self, file: FileId, scope: LockScope, owner: LockOwner) -> ask::LockOwner {
        self.rows().owner(file, scope, owner)
    }

    /// Whether an owner may hold record locks on a file.
    pub(super) fn has_records(&self, file: FileId, owner: LockOwner) -> bool {
        self.rows().held.get(&(file, number(LockScope::Record), owner)).is_some_and(|held| held.is_held)
    }

    /// Whether an owner may exclude others.
    pub(super) fn is_exclusive(&self, file: FileId, scope: LockScope, owner: LockOwner) -> bool {
        self.rows().held.get(&(file, number(scope), owner)).is_some_and(|held| held.is_exclusive)
    }

    /// An owner lets go of all. Answers its number if it may have had any.
    pub(super) fn let_go(&self, file: FileId, scope: LockScope, owner: LockOwner) -> Option<ask::LockOwner> {
        let mut rows = self.rows();
        let key = (file, number(scope), owner);
        // A `flock` is its handle's, which asks for no other number.
        if scope == LockScope::Flock {
            return rows.held.remove(&key).map(|held| held.owner);
        }
        let held = rows.held.get_mut(&key)?;
        held.is_exclusive = false;
        std::mem::take(&mut held.is_held).then_some(held.owner)
    }

    /// Whether record locks of an owner, as the engine knows it, were asked for through a handle.
    pub(super) fn was_asked_through(&self, file: FileId, handle: HandleId, owner: ask::LockOwner) -> bool {
        let rows = self.rows();
        let mut of_file = rows.held.range(records_of(file)).map(|(_, held)| held);
        of_file.any(|held| held.owner == owner && held.handles.contains(&handle))
    }

    /// A handle went. Whose record locks went with it, and whether they excluded others: those that were taken through no other. These
    /// are locks of the open file itself, for whose end the kernel sends nothing, and those taken through handles that are not flushed.
    pub(super) fn handle_gone(&self, file: FileId, handle: HandleId) -> Vec<(ask::LockOwner, bool)> {
        let mut rows = self.rows();
        let mut gone = Vec::new();
        for (key, held) in rows.held.range_mut(records_of(file)) {
            if held.handles.remove(&handle) && held.handles.is_empty() {
                gone.push((*key, held.owner, held.is_exclusive));
            }
        }
        for (key, ..) in &gone {
            rows.held.remove(key);
        }
        gone.into_iter().map(|(_, owner, is_exclusive)| (owner, is_exclusive)).collect()
    }
}

/// The rows of record locks of a file.
fn records_of(file: FileId) -> RangeInclusive<Key> {
    let scope = number(LockScope::Record);
    (file, scope, LockOwner::new(0))..=(file, scope, LockOwner::new(u64::MAX))
}

fn number(scope: LockScope) -> ScopeNumber {
    match scope {
        LockScope::Record => 0,
        LockScope::Flock => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::lock_wishes::LockWait;
    use super::*;

    fn exclusive(owner: LockOwner) -> LockWish {
        let (scope, kind, wait) = (LockScope::Record, ask::LockKind::Write, LockWait::Try);
        LockWish { owner, scope, range: ask::LockRange::WHOLE, kind, pid: 1, wait }
    }

    /// The next open file had the address of the one before, and its lock ended with that one.
    #[test]
    fn the_end_of_an_open_file_ends_no_lock_of_the_next_at_its_address() {
        let locks = HeldLocks::default();
        let wish = exclusive(LockOwner::new(77));
        let (file, before, next) = (FileId::ROOT, HandleId::new(1), HandleId::new(2));
        let first = locks.note(file, before, &wish);
        assert_eq!(locks.note(file, before, &wish), first, "one owner has one number");
        let gone = locks.handle_gone(file, before);
        let second = locks.note(file, next, &wish);
        assert_eq!(gone, [(first, true)]);
        assert_ne!(first, second);
        assert!(locks.was_asked_through(file, next, second) && !locks.was_asked_through(file, next, first));
    }

    /// One thread lets go of all while another asks for a lock: that one is let go under the number under which it was asked for.
    #[test]
    fn an_owner_keeps_its_number_while_it_has_the_file_open() {
        let locks = HeldLocks::default();
        let wish = exclusive(LockOwner::new(77));
        let (file, handle) = (FileId::ROOT, HandleId::new(1));
        let asked = locks.note(file, handle, &wish);
        assert_eq!(locks.let_go(file, LockScope::Record, wish.owner), Some(asked));
        assert!(!locks.has_records(file, wish.owner), "a close has nothing to let go of");
        assert_eq!(locks.owner(file, LockScope::Record, wish.owner), asked);
        assert_eq!(locks.handle_gone(file, handle), [(asked, false)], "what was granted in the meantime ends here");
    }
}
