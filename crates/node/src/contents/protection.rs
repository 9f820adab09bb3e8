//! What the sweep must leave alone, and what was read last.
//!
//! A chunk is put before the record that names it exists, and a tree is answered "complete" before the record
//! that relies on it arrives. Both are protected for a grace period. A removal and a new protection
//! exclude each other by this one lock: who protects first keeps the chunk, who removes first makes
//! the other find it missing.

use super::presence::Piece;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use wayfs_types::Digest;

/// Most chunks protected one by one; past it the oldest half of them goes. A million names are 64 MB.
const CHUNKS_MAX: usize = 1 << 20;
/// Most trees protected.
const TREES_MAX: usize = 1 << 16;
/// Most trees remembered as complete.
const COMPLETE_MAX: usize = 1 << 16;
/// Most chunks whose last reading is remembered.
const READS_MAX: usize = 1 << 21;

/// A tree that someone relies on.
pub(crate) type Tree = Piece;

#[derive(Debug)]
pub(crate) struct Protection {
    grace: Duration,
    chunks: HashMap<Digest, Instant>,
    trees: HashMap<Tree, Instant>,
    /// Trees protected since the sweep last asked.
    fresh: Vec<Tree>,
    complete: HashMap<Digest, ()>,
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
            chunks: HashMap::new(),
            trees: HashMap::new(),
            fresh: Vec::new(),
            complete: HashMap::new(),
            epoch: 0,
            holds: 0,
            reads: HashMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn protect_chunk(&mut self, digest: Digest) {
        if self.chunks.len() >= CHUNKS_MAX {
            let half = self.grace / 2;
            self.chunks.retain(|_, since| since.elapsed() < half);
        }
        if self.chunks.len() < CHUNKS_MAX {
            self.chunks.insert(digest, Instant::now());
        }
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

    pub(crate) fn is_protected(&self, digest: &Digest) -> bool {
        self.chunks.get(digest).is_some_and(|since| since.elapsed() < self.grace)
    }

    /// Forgets what is over, and gives the trees that a sweep has to mark.
    /// Trees whose root the engine was told of and whose record has not come yet stay protected.
    pub(crate) fn begin_sweep(&mut self, announced: &BTreeSet<Digest>) -> Vec<Tree> {
        let grace = self.grace;
        self.chunks.retain(|_, since| since.elapsed() < grace);
        self.trees.retain(|tree, since| since.elapsed() < grace || announced.contains(&tree.digest));
        self.fresh.clear();
        self.trees.keys().copied().collect()
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

    pub(crate) fn remember_complete(&mut self, digest: Digest, epoch: u64) {
        if epoch != self.epoch {
            return;
        }
        if self.complete.len() >= COMPLETE_MAX {
            self.complete.clear();
        }
        self.complete.insert(digest, ());
    }

    pub(crate) fn is_known_complete(&self, digest: &Digest) -> bool {
        self.complete.contains_key(digest)
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
