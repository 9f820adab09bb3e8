//! A simulated disk: what was written, and what would survive a crash.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::rc::Rc;
use wayfs_types::{Batch, Digest, MetaStore, Pairs, StorageError, Ticket};

/// Tables and chunks of one machine, live and durable.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    live: BTreeMap<Vec<u8>, Vec<u8>>,
    durable: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Batches not yet synced, each with the chunks that were put before it.
    unsynced: VecDeque<(Ticket, Batch, Vec<Digest>)>,
    /// Chunks put since the newest batch.
    loose: Vec<Digest>,
    newest: Ticket,
    chunks: BTreeSet<Digest>,
    chunks_durable: BTreeSet<Digest>,
}

impl Disk {
    /// Makes everything up to a batch durable, and all chunks put so far.
    pub(crate) fn sync(&mut self, ticket: Ticket) {
        while self.unsynced.front().is_some_and(|(batch, ..)| *batch <= ticket) {
            let (_, batch, _) = self.unsynced.pop_front().expect("looked at just before");
            apply(&mut self.durable, &batch);
        }
        self.chunks_durable = self.chunks.clone();
    }

    /// The newest batch.
    pub(crate) const fn newest(&self) -> Ticket {
        self.newest
    }

    /// Loses what was not synced, but for the first `kept` batches. The driver writes contents before
    /// the records that name them, so a batch that survives has its chunks.
    pub(crate) fn crash(&mut self, kept: usize) {
        for (_, batch, chunks) in self.unsynced.drain(..).take(kept) {
            apply(&mut self.durable, &batch);
            self.chunks_durable.extend(chunks);
        }
        self.loose.clear();
        self.live = self.durable.clone();
        self.chunks = self.chunks_durable.clone();
    }

    /// Batches that a crash may lose.
    pub(crate) fn at_risk(&self) -> usize {
        self.unsynced.len()
    }

    /// Keeps a chunk, not yet durably.
    pub(crate) fn put_chunk(&mut self, root: Digest) {
        self.chunks.insert(root);
        self.loose.push(root);
    }

    /// Whether a chunk is here.
    pub(crate) fn has_chunk(&self, root: Digest) -> bool {
        self.chunks.contains(&root)
    }
}

fn apply(table: &mut BTreeMap<Vec<u8>, Vec<u8>>, batch: &Batch) {
    for (key, value) in &batch.changes {
        match value {
            Some(value) => table.insert(key.clone(), value.clone()),
            None => table.remove(key),
        };
    }
}

/// A disk that outlives the engine that uses it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiskHandle(pub(crate) Rc<RefCell<Disk>>);

fn range<'a>(from: &'a [u8], until: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let upper = if until.is_empty() { Bound::Unbounded } else { Bound::Excluded(until) };
    (Bound::Included(from), upper)
}

fn owned((key, value): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), value.clone())
}

impl MetaStore for DiskHandle {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.0.borrow().live.get(key).cloned())
    }

    fn scan(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        if !until.is_empty() && from >= until {
            return Ok(Pairs::new());
        }
        Ok(self.0.borrow().live.range::<[u8], _>(range(from, until)).take(limit).map(owned).collect())
    }

    fn scan_back(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        if !until.is_empty() && from >= until {
            return Ok(Pairs::new());
        }
        Ok(self.0.borrow().live.range::<[u8], _>(range(from, until)).rev().take(limit).map(owned).collect())
    }

    fn commit(&mut self, batch: Batch) -> Result<Ticket, StorageError> {
        let mut disk = self.0.borrow_mut();
        disk.newest = Ticket(disk.newest.0 + 1);
        let ticket = disk.newest;
        apply(&mut disk.live, &batch);
        let chunks = std::mem::take(&mut disk.loose);
        disk.unsynced.push_back((ticket, batch, chunks));
        Ok(ticket)
    }
}
