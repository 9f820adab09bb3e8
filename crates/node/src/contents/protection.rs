//! What the sweep must leave alone, and what was read last.
//!
//! A chunk is put before the record that names it exists, and a tree is answered "complete" before the record
//! that relies on it arrives. Both are protected for a grace period. A removal and a new protection
//! exclude each other by this one lock: who protects first keeps the chunk, who removes first makes
//! the other find it missing.
//!
//! Where room is short the grace is short ([`Shortage::Room`]): what a neighbour sent or gave goes at once, since the neighbour has
//! it and looks again before it relies on ours. What was made here stays until a record names it, as long as it is
//! in the making, and a minute beyond.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};
use wayfs_transfer::Piece;
use wayfs_types::{Digest, Top};

/// Most chunks protected one by one; past it those go that are older than half the grace, and where there are none, all chunks are
/// protected as if they had just been put. A million names are 64 MB.
const CHUNKS_MAX: usize = 1 << 20;
/// Where room is short, what was made here and no record names stays so long: far longer than there is between a content
/// that is made and its record.
const GRACE_SHORT: Duration = Duration::from_secs(60);
/// Most trees protected.
const TREES_MAX: usize = 1 << 16;
/// Most trees remembered as complete.
const COMPLETE_MAX: usize = 1 << 16;
/// Most chunks whose last reading is remembered.
const READS_MAX: usize = 1 << 21;

/// A tree that someone relies on.
pub(crate) type Tree = Piece;

/// Where a chunk came from. The later one is the stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whence {
    /// A neighbour sent it, or gave it when asked.
    Neighbour,
    /// It was made here.
    Here,
}

/// How the sweep is to treat what nobody refers to yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// There is room: the whole grace.
    None,
    /// Room is short.
    Room,
}

/// Whether a record names a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// One does, and others have it, too.
    Yes,
    /// None does, as far as is known.
    No,
}

#[derive(Debug, Clone, Copy)]
struct Protected {
    since: Instant,
    whence: Whence,
}

#[derive(Debug)]
pub(crate) struct Protection {
    grace: Duration,
    /// What the grace of trees is where room is short; below the whole grace.
    grace_short: Duration,
    chunks: HashMap<Digest, Protected>,
    /// When a chunk was put last that there was no room to protect by itself.
    overflowed: Option<Instant>,
    /// None of them that may go was protected before this.
    oldest: Instant,
    /// How often all of them were looked through for room.
    #[cfg(test)]
    looks: usize,
    /// Contents that are in the making here: when each began.
    making: BTreeMap<u64, Instant>,
    makings: u64,
    /// When the first of those began that ended since the sweep looked what is named.
    made: Option<Instant>,
    trees: HashMap<Tree, Instant>,
    /// Trees protected since the sweep last asked.
    fresh: Vec<Tree>,
    complete: HashSet<Tree>,
    epoch: u64,
    /// Readers that need every chunk to stay.
    holds: usize,
    reads: HashMap<Digest, u64>,
    clock: u64,
}

impl Protection {
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            grace,
            grace_short: GRACE_SHORT.min(grace),
            chunks: HashMap::new(),
            overflowed: None,
            oldest: Instant::now(),
            #[cfg(test)]
            looks: 0,
            making: BTreeMap::new(),
            makings: 0,
            made: None,
            trees: HashMap::new(),
            fresh: Vec::new(),
            complete: HashSet::new(),
            epoch: 0,
            holds: 0,
            reads: HashMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn protect_chunk(&mut self, digest: Digest, whence: Whence) {
        let now = Instant::now();
        if self.chunks.len() >= CHUNKS_MAX {
            self.forget_old(now);
        }
        if self.chunks.len() < CHUNKS_MAX {
            let whence = self.chunks.get(&digest).map_or(whence, |known| known.whence.max(whence));
            self.chunks.insert(digest, Protected { since: now, whence });
        } else if !self.chunks.contains_key(&digest) {
            self.overflowed = Some(now);
        }
    }

    /// Makes room of those that were protected for half the grace. While the oldest is younger there is nothing to find, and each
    /// chunk that is put would look through a million for it.
    fn forget_old(&mut self, now: Instant) {
        let half = self.grace / 2;
        if now.duration_since(self.oldest) < half {
            return;
        }
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let kept_from = self.made_since();
        let mut oldest = now;
        self.chunks.retain(|_, chunk| {
            let is_young = now.duration_since(chunk.since) < half;
            // What stays for contents in the making may go after the next sweep has begun.
            if is_young {
                oldest = oldest.min(chunk.since);
            }
            is_young || kept_from.is_some_and(|at| chunk.since >= at)
        });
        self.oldest = oldest;
    }

    /// Contents begin to be made here: what is put from now on stays until that has ended.
    pub(crate) fn begin_making(&mut self) -> u64 {
        self.makings += 1;
        self.making.insert(self.makings, Instant::now());
        self.makings
    }

    /// They are made, and their record, if there is to be one, is there.
    pub(crate) fn end_making(&mut self, number: u64) {
        if let Some(began) = self.making.remove(&number) {
            self.made = Some(self.made.map_or(began, |made| made.min(began)));
        }
    }

    /// What was put here since then may belong to contents whose record the sweep has not seen.
    fn made_since(&self) -> Option<Instant> {
        self.making.values().copied().chain(self.made).min()
    }

    pub(crate) fn protect_tree(&mut self, tree: Tree) {
        if self.trees.len() >= TREES_MAX {
            let half = self.grace / 2;
            self.trees.retain(|_, since| since.elapsed() < half);
        }
        if self.trees.insert(tree, Instant::now()).is_none() {
            self.fresh.push(tree);
        }
    }

    pub(crate) fn is_protected(&self, digest: &Digest, shortage: Shortage, named: Named) -> bool {
        let Some(chunk) = self.chunks.get(digest) else { return self.is_perhaps_fresh(shortage, named) };
        if chunk.whence == Whence::Here && self.made_since().is_some_and(|began| chunk.since >= began) {
            return true;
        }
        let age = chunk.since.elapsed();
        match (shortage, chunk.whence, named) {
            (Shortage::None, _, _) => age < self.grace,
            (Shortage::Room, Whence::Here, Named::No) => age < self.grace_short,
            (Shortage::Room, Whence::Here, Named::Yes) | (Shortage::Room, Whence::Neighbour, _) => false,
        }
    }

    /// Whether a chunk that is not protected by itself may be one for which there was no room.
    fn is_perhaps_fresh(&self, shortage: Shortage, named: Named) -> bool {
        let grace = match shortage {
            Shortage::None => self.grace,
            Shortage::Room => self.grace_short,
        };
        named == Named::No && self.overflowed.is_some_and(|at| at.elapsed() < grace)
    }

    /// Forgets what is over, and gives the trees that a sweep has to mark. To be called before it looks what is named.
    /// Trees whose root the engine was told of and whose record has not come yet stay protected.
    pub(crate) fn begin_sweep(&mut self, announced: &BTreeSet<Top>, shortage: Shortage) -> Vec<Tree> {
        let grace = self.grace;
        self.made = None;
        let kept_from = self.made_since();
        self.chunks.retain(|_, chunk| chunk.since.elapsed() < grace || kept_from.is_some_and(|at| chunk.since >= at));
        self.oldest = self.chunks.values().map(|chunk| chunk.since).min().unwrap_or_else(Instant::now);
        let of_trees = match shortage {
            Shortage::None => grace,
            Shortage::Room => self.grace_short,
        };
        self.trees.retain(|tree, since| {
            since.elapsed() < of_trees || announced.contains(&Top { root: tree.digest, depth: tree.level })
        });
        self.fresh.clear();
        self.trees.keys().copied().collect()
    }

    /// Whether nothing is protected: nothing was put or promised since the last sweep began, nor in the grace before it.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_overflow_over = self.overflowed.is_none_or(|at| at.elapsed() >= self.grace);
        self.chunks.is_empty() && self.trees.is_empty() && self.making.is_empty() && is_overflow_over
    }

    /// Trees protected since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<Tree> {
        std::mem::take(&mut self.fresh)
    }

    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Until it is released as often, no chunk is removed.
    pub(crate) fn hold(&mut self) {
        self.holds += 1;
    }

    pub(crate) fn release(&mut self) {
        self.holds = self.holds.saturating_sub(1);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holds > 0
    }

    /// Called with the lock held by whoever removes.
    pub(crate) fn removing(&mut self) {
        self.epoch += 1;
        self.complete.clear();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn remember_complete(&mut self, tree: Tree, epoch: u64) {
        if epoch != self.epoch {
            return;
        }
        if self.complete.len() >= COMPLETE_MAX {
            self.complete.clear();
        }
        self.complete.insert(tree);
    }

    pub(crate) fn is_known_complete(&self, tree: &Tree) -> bool {
        self.complete.contains(tree)
    }

    pub(crate) fn read(&mut self, digest: Digest) {
        self.clock += 1;
        if self.reads.len() >= READS_MAX {
            let oldest = self.clock.saturating_sub(READS_MAX as u64 / 2);
            self.reads.retain(|_, at| *at > oldest);
        }
        self.reads.insert(digest, self.clock);
    }

    /// When a chunk was last read, as a number that grows; 0 if not since the start.
    pub(crate) fn last_read(&self, digest: &Digest) -> u64 {
        self.reads.get(digest).copied().unwrap_or(0)
    }

    pub(crate) fn forget_read(&mut self, digest: &Digest) {
        self.reads.remove(digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    /// With a million names each look takes milliseconds, under the lock that every chunk that is put waits for.
    #[test]
    fn where_all_are_young_nobody_looks_for_old_ones() {
        let mut protection = Protection::new(Duration::from_secs(600));
        (0..CHUNKS_MAX + 10).for_each(|number| protection.protect_chunk(digest(number), Whence::Neighbour));
        assert_eq!((protection.chunks.len(), protection.looks), (CHUNKS_MAX, 0));
    }

    /// A sweep that has just marked what is named would take those that were put since.
    #[test]
    fn what_there_is_no_room_to_protect_by_itself_is_protected_with_all() {
        let mut protection = Protection::new(Duration::from_secs(600));
        (0..CHUNKS_MAX).for_each(|number| protection.protect_chunk(digest(number), Whence::Here));
        let late = digest(CHUNKS_MAX);
        assert!(!protection.is_protected(&late, Shortage::None, Named::No), "nobody has put it");
        protection.protect_chunk(late, Whence::Here);
        for shortage in [Shortage::None, Shortage::Room] {
            assert!(protection.is_protected(&late, shortage, Named::No), "{shortage:?}");
            assert!(!protection.is_protected(&late, shortage, Named::Yes), "{shortage:?}: others have it");
        }
        protection.overflowed = Instant::now().checked_sub(Duration::from_secs(601));
        assert!(!protection.is_protected(&late, Shortage::None, Named::No));
    }

    #[test]
    fn what_is_old_makes_room_and_what_is_young_or_in_the_making_stays() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        let mut protection = Protection::new(Duration::from_secs(600));
        for (number, seconds) in [(0, 400), (1, 310), (2, 10)] {
            protection.chunks.insert(digest(number), Protected { since: ago(seconds), whence: Whence::Here });
        }
        protection.oldest = ago(400);
        protection.making.insert(1, ago(350));
        protection.forget_old(Instant::now());
        let held = |protection: &Protection| [0, 1, 2].map(|number| protection.chunks.contains_key(&digest(number)));
        assert_eq!(held(&protection), [false, true, true]);
        // What stays for the making is not looked for again until a sweep has begun.
        protection.forget_old(Instant::now());
        protection.end_making(1);
        assert_eq!((held(&protection), protection.looks), ([false, true, true], 1));
        protection.begin_sweep(&BTreeSet::new(), Shortage::None);
        protection.forget_old(Instant::now());
        assert_eq!((held(&protection), protection.looks), ([false, false, true], 2));
    }
}
