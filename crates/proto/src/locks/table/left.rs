//! What clients have that left, in the table: they may have taken it along, and are asked before it is given to others (`locks/left.rs`).
//!
//! It is in the way as anything held, and who wants it waits, also who does not wait for locks: nobody knows yet whether it is free.

use super::{
    Asker, File, Held, Holder, LockTable, Recall, TableKey, Waiter, excludes, family_number, family_of, overlaps,
    range_of,
};
use std::collections::{BTreeSet, VecDeque};
use wayfs_types::request::{LockFamily, LockOwner, LockRequest};
use wayfs_types::{OriginId, Time};

/// Who supposedly has what a client may have: its owners are not known.
pub(crate) const ANY_OWNER: LockOwner = LockOwner(u64::MAX);

/// Clients that left.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) clients: BTreeSet<OriginId>,
    /// Where somebody may wait for what they have, or for what is delegated, since it was looked at last.
    pub(super) touched: BTreeSet<TableKey>,
}

/// Who waits for what clients have that left, and for what is delegated.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// What is wanted of whom.
    pub(crate) wanted: Vec<(OriginId, LockRequest)>,
    /// What children are to return.
    pub(crate) recalled: Vec<Recall>,
    /// Who does not wait for locks, and somebody else has what they want.
    pub(crate) refused: Vec<(Asker, LockRequest)>,
    /// Who would wait for ever.
    pub(crate) deadlocked: Vec<(Asker, LockRequest)>,
    /// What is in the way of those who only want to know.
    pub(crate) tested: Vec<(Asker, Option<LockRequest>)>,
    /// Who is granted what he wants since they wait no more.
    pub(crate) granted: Vec<(Asker, LockRequest)>,
}

impl Looked {
    /// Whether nobody is to be told or asked anything.
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { wanted, recalled, refused, deadlocked, tested, granted } = self;
        let ends = refused.is_empty() && deadlocked.is_empty() && tested.is_empty() && granted.is_empty();
        ends && wanted.is_empty() && recalled.is_empty()
    }
}

impl File {
    /// Takes from a replica what excludes a lock, as far as that reaches.
    fn cut_all(&mut self, origin: OriginId, wanted: &LockRequest) {
        let excluded = |held: &&Held| held.holder.origin == origin && excludes(held.kind, wanted.kind);
        let holders: BTreeSet<Holder> = self.held.iter().filter(excluded).map(|held| held.holder).collect();
        for holder in holders {
            self.cut(holder, range_of(wanted));
        }
    }
}

impl LockTable {
    /// Whether of what stands in a lock's way nobody knows here whether it is in the way: clients that left have it, or a child
    /// decides about it.
    pub(super) fn only_undecided_exclude(&self, holder: Holder, request: &LockRequest) -> bool {
        let key = (request.file, family_number(request.family));
        let Some(file) = self.files.get(&key) else { return false };
        let mut obstacles = file.obstacles(holder, range_of(request), request.kind);
        obstacles.all(|held| self.is_undecided(key, held))
    }

    fn is_undecided(&self, key: TableKey, held: &Held) -> bool {
        self.left.clients.contains(&held.holder.origin) || self.delegations.is_delegated(key, held)
    }

    /// Somebody may wait on.
    pub(super) fn touch(&mut self, key: TableKey) {
        if !self.left.clients.is_empty() || self.delegations.has(key) {
            self.left.touched.insert(key);
        }
    }

    /// A client left with what it has.
    pub(crate) fn note_left(&mut self, client: OriginId) {
        self.left.clients.insert(client);
        let has = |file: &File| file.held.iter().any(|held| held.holder.origin == client);
        let keys = self.files.iter().filter(|(_, file)| has(file) && !file.waiting.is_empty());
        self.left.touched.extend(keys.map(|(key, _)| *key));
    }

    /// A client came back: what it has it speaks for itself.
    pub(crate) fn note_returned(&mut self, client: OriginId) {
        if self.left.clients.remove(&client) {
            let has = |file: &File| file.held.iter().any(|held| held.holder.origin == client);
            let keys = self.files.iter().filter(|(_, file)| has(file) && !file.waiting.is_empty());
            self.left.touched.extend(keys.map(|(key, _)| *key));
        }
    }

    /// A client that left may have anything: it is taken to have what others want.
    pub(crate) fn suppose(&mut self, client: OriginId, wanted: &LockRequest) {
        let holder = Holder { origin: client, owner: ANY_OWNER };
        let file = self.files.entry((wanted.file, family_number(wanted.family))).or_default();
        file.grant(holder, range_of(wanted), wayfs_types::request::LockKind::Write, 0);
    }

    /// All locks that somebody waits for.
    pub(crate) fn waited_for(&self) -> Vec<LockRequest> {
        let waiting = self.files.values().flat_map(|file| &file.waiting);
        waiting.filter(|waiter| waiter.takes()).map(|waiter| waiter.request).collect()
    }

    /// Who waits for what clients have that left, or for what is delegated, of those that nobody looked at yet. Children that are to
    /// return files are waited for until then.
    pub(crate) fn look_at_undecided(&mut self, until: Time) -> Looked {
        let mut looked = Looked::default();
        if self.is_paused {
            return looked;
        }
        for key in std::mem::take(&mut self.left.touched) {
            let is_returned = self.delegations.returned.remove(&key);
            let is_fewer = self.look_at(key, until, &mut looked);
            if is_returned && self.end_deadlocks(key, &mut looked) || is_fewer {
                looked.granted.extend(self.wake(key));
            }
        }
        looked
    }

    /// Answers whether any of those who wait there waits no more.
    fn look_at(&mut self, key: TableKey, until: Time, looked: &mut Looked) -> bool {
        let Some(file) = self.files.get_mut(&key) else { return false };
        let (mut on, mut tests) = (VecDeque::new(), Vec::new());
        let (mut is_wanted_back, before) = (false, file.waiting.len());
        for waiter in std::mem::take(&mut file.waiting) {
            let kept_by = || file.held.iter().filter(|held| waiter.is_kept_by(held));
            let left = |held: &&Held| self.left.clients.contains(&held.holder.origin);
            let is_for_a_child = kept_by().any(|held| self.delegations.is_delegated(key, held));
            let others = kept_by().any(|held| !left(&held) && !self.delegations.is_delegated(key, held));
            if !waiter.takes() && !is_for_a_child {
                tests.push(waiter);
                continue;
            }
            if others && !waiter.request.wait && waiter.takes() {
                looked.refused.push((waiter.asker, waiter.request));
                continue;
            }
            is_wanted_back |= is_for_a_child;
            let of: BTreeSet<OriginId> = kept_by().filter(left).map(|held| held.holder.origin).collect();
            looked.wanted.extend(of.into_iter().map(|client| (client, waiter.request)));
            on.push_back(waiter);
        }
        let is_fewer = on.len() < before;
        file.waiting = on;
        for test in tests {
            looked.tested.push((test.asker, self.test(test.holder, &test.request)));
        }
        if is_wanted_back {
            looked.recalled.extend(self.delegations.recall(key, until));
        }
        is_fewer
    }

    /// Who waits for itself by way of others: what a child decided about is known only now.
    fn end_deadlocks(&mut self, key: TableKey, looked: &mut Looked) -> bool {
        let Some(file) = self.files.get(&key).filter(|_| family_of(key.1) == LockFamily::Posix) else { return false };
        let waiting: Vec<Waiter> = file.waiting.iter().filter(|waiter| waiter.takes()).copied().collect();
        let mut is_any = false;
        for waiter in waiting {
            if !self.would_deadlock(waiter.holder, &waiter.request) {
                continue;
            }
            if let Some(file) = self.files.get_mut(&key) {
                file.waiting.retain(|other| other.asker != waiter.asker);
            }
            looked.deadlocked.push((waiter.asker, waiter.request));
            is_any = true;
        }
        is_any
    }

    /// Whether somebody waits for what a client has, and this is what he wants.
    pub(crate) fn is_wanted(&self, client: OriginId, wanted: &LockRequest) -> bool {
        let Some(file) = self.files.get(&(wanted.file, family_number(wanted.family))) else { return false };
        let is_this = |waiter: &&Waiter| {
            (range_of(&waiter.request), waiter.request.kind) == (range_of(wanted), wanted.kind)
                && file.held.iter().any(|held| held.holder.origin == client && waiter.is_kept_by(held))
        };
        file.waiting.iter().any(|waiter| is_this(&waiter))
    }

    /// Takes from a client what excludes a lock. Answers who is granted something thereby.
    pub(crate) fn take_from(&mut self, client: OriginId, wanted: &LockRequest) -> Vec<(Asker, LockRequest)> {
        let key = (wanted.file, family_number(wanted.family));
        if let Some(file) = self.files.get_mut(&key) {
            file.cut_all(client, wanted);
        }
        self.wake(key)
    }

    /// A client that left said what it has: no more and no less. Answers who is granted something thereby.
    pub(crate) fn set_left(&mut self, client: OriginId, has: &[LockRequest]) -> Vec<(Asker, LockRequest)> {
        let mut keys: BTreeSet<TableKey> = BTreeSet::new();
        for (key, file) in &mut self.files {
            let before = file.held.len();
            file.held.retain(|held| held.holder.origin != client);
            keys.extend((file.held.len() < before).then_some(*key));
        }
        for lock in has.iter().filter(|lock| lock.family != LockFamily::Claim) {
            self.mirror(Holder { origin: client, owner: lock.owner }, lock);
            keys.insert((lock.file, family_number(lock.family)));
        }
        self.count(client);
        keys.into_iter().flat_map(|key| self.wake(key)).collect()
    }

    /// Whether a lock of these families and ranges cannot be had beside another.
    pub(crate) fn conflict(one: &LockRequest, other: &LockRequest) -> bool {
        let is_same = (one.file, family_of(family_number(one.family))) == (other.file, other.family);
        is_same && overlaps(range_of(one), range_of(other)) && excludes(one.kind, other.kind)
    }
}
