//! What clients have that left, in the table: they may have taken it along, and are asked before it is given to others (`left_locks.rs`).
//!
//! It is in the way as anything held, and who wants it waits, also who does not wait for locks: nobody knows yet whether it is free.

use super::{
    Asker, File, Held, Holder, LockTable, Waiter, Wish, excludes, family_number, family_of, overlaps, range_of,
};
use std::collections::BTreeSet;
use wayfs_types::request::{LockFamily, LockOwner, LockRequest};
use wayfs_types::{FileId, OriginId};

/// Who supposedly has what a client may have: its owners are not known.
const ANY_OWNER: LockOwner = LockOwner(u64::MAX);

/// Clients that left.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) clients: BTreeSet<OriginId>,
    /// Where somebody may wait for what they have since it was looked at last.
    touched: BTreeSet<(FileId, u8)>,
}

/// Who waits for what clients have that left.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// What is wanted of whom.
    pub(crate) wanted: Vec<(OriginId, LockRequest)>,
    /// Who does not wait for locks, and somebody else has what they want.
    pub(crate) refused: Vec<(Asker, LockRequest)>,
    /// Who is granted what he wants since they wait no more.
    pub(crate) granted: Vec<(Asker, LockRequest)>,
}

impl Held {
    fn is_in_the_way(&self, of: &Waiter) -> bool {
        let range = range_of(&of.request);
        let is_left_over = self.stale && self.holder.origin == of.holder.origin;
        let is_others = self.holder != of.holder && !is_left_over;
        is_others && overlaps(self.range, range) && excludes(self.kind, of.request.kind)
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
    /// Whether what stands in a lock's way is only what clients have that left.
    pub(super) fn only_left_ones_exclude(&self, holder: Holder, request: &LockRequest) -> bool {
        let Some(file) = self.files.get(&(request.file, family_number(request.family))) else { return false };
        let mut obstacles = file.obstacles(holder, range_of(request), request.kind);
        !self.left.clients.is_empty() && obstacles.all(|held| self.left.clients.contains(&held.holder.origin))
    }

    /// Somebody may wait on.
    pub(super) fn touch(&mut self, key: (FileId, u8)) {
        if !self.left.clients.is_empty() {
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
        waiting.filter(|waiter| waiter.wish == Wish::Take).map(|waiter| waiter.request).collect()
    }

    /// Who waits for what clients have that left, of those that nobody looked at yet.
    pub(crate) fn look_at_left(&mut self) -> Looked {
        let mut looked = Looked::default();
        if self.is_paused {
            return looked;
        }
        for key in std::mem::take(&mut self.left.touched) {
            let Some(file) = self.files.get_mut(&key) else { continue };
            let (clients, before) = (&self.left.clients, looked.refused.len());
            let (held, mut on) = (&file.held, std::collections::VecDeque::new());
            for waiter in std::mem::take(&mut file.waiting) {
                let others = held.iter().any(|h| h.is_in_the_way(&waiter) && !clients.contains(&h.holder.origin));
                if others && !waiter.request.wait && waiter.wish == Wish::Take {
                    looked.refused.push((waiter.asker, waiter.request));
                    continue;
                }
                let of = held.iter().filter(|h| h.is_in_the_way(&waiter)).map(|h| h.holder.origin);
                let of: BTreeSet<OriginId> = of.filter(|origin| clients.contains(origin)).collect();
                looked.wanted.extend(of.into_iter().map(|client| (client, waiter.request)));
                on.push_back(waiter);
            }
            file.waiting = on;
            if looked.refused.len() > before {
                looked.granted.extend(self.wake(key));
            }
        }
        looked
    }

    /// Whether somebody waits for what a client has, and this is what he wants.
    pub(crate) fn is_wanted(&self, client: OriginId, wanted: &LockRequest) -> bool {
        let Some(file) = self.files.get(&(wanted.file, family_number(wanted.family))) else { return false };
        let is_this = |waiter: &&Waiter| {
            (range_of(&waiter.request), waiter.request.kind) == (range_of(wanted), wanted.kind)
                && file.held.iter().any(|held| held.holder.origin == client && held.is_in_the_way(waiter))
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
        let mut keys: BTreeSet<(FileId, u8)> = BTreeSet::new();
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
