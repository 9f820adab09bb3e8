//! A store in memory that can crash: for tests and the simulator.

use crate::sealer::Sealer;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use wayfs_types::{Batch, Digest, MetaStore, NodeId, Pairs, Seal, StorageError, Ticket};

/// A key that signs by a hash, so that it costs little and gives the same each time. Whoever knows a machine's number can sign for
/// it: liars of tests and of the simulator do not.
#[derive(Debug, Clone, Copy)]
pub struct ToyKey(pub NodeId);

impl Sealer for ToyKey {
    fn seal(&self, message: &[u8]) -> Seal {
        let digest = Digest::of(&[self.0.as_bytes(), message].concat());
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(digest.as_bytes());
        Seal::from_bytes(bytes)
    }

    fn is_sealed_by(&self, node: NodeId, message: &[u8], seal: &Seal) -> bool {
        ToyKey(node).seal(message) == *seal
    }
}

/// Ordered tables in memory, with the batches that are not yet durable kept apart.
///
/// What is committed is visible at once. [`MemoryStore::sync`] makes a prefix of the
/// batches durable; [`MemoryStore::crash`] forgets all others.
#[derive(Debug, Default, Clone)]
pub struct MemoryStore {
    durable: BTreeMap<Vec<u8>, Vec<u8>>,
    visible: BTreeMap<Vec<u8>, Vec<u8>>,
    unsynced: VecDeque<(Ticket, Batch)>,
    next: u64,
    room: Option<usize>,
    is_unreadable: bool,
    commits: u64,
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every batch up to this one durable.
    pub fn sync(&mut self, through: Ticket) {
        while self.unsynced.front().is_some_and(|(ticket, _)| *ticket <= through) {
            let (_, batch) = self.unsynced.pop_front().expect("just seen");
            apply(&mut self.durable, batch);
        }
    }

    /// The newest batch; zero before the first.
    pub fn newest(&self) -> Ticket {
        Ticket(self.next)
    }

    /// What a machine finds after losing power: durable batches, and the first `kept` of the others,
    /// since a disk may have written more than it was asked to.
    #[must_use]
    pub fn crash(mut self, kept: usize) -> Self {
        for _ in 0..kept {
            if let Some((_, batch)) = self.unsynced.pop_front() {
                apply(&mut self.durable, batch);
            }
        }
        Self { visible: self.durable.clone(), durable: self.durable, ..Self::default() }
    }

    /// Refuses batches once this many bytes are stored; `None`: never.
    pub fn set_room(&mut self, bytes: Option<usize>) {
        self.room = bytes;
    }

    /// Whether its disk fails to read from here on.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn set_unreadable(&mut self, is_unreadable: bool) {
        self.is_unreadable = is_unreadable;
    }

    fn check_readable(&self) -> Result<(), StorageError> {
        if self.is_unreadable { Err(StorageError::Io("cannot be read".into())) } else { Ok(()) }
    }

    /// Bytes of keys and values.
    pub(crate) fn len_bytes(&self) -> usize {
        self.visible.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// Keys whose first byte is `table`.
    pub fn count(&self, table: u8) -> usize {
        self.visible.range(vec![table]..vec![table + 1]).count()
    }

    /// Batches committed in this life.
    pub fn commits(&self) -> u64 {
        self.commits
    }
}

fn apply(map: &mut BTreeMap<Vec<u8>, Vec<u8>>, batch: Batch) {
    for (key, value) in batch.changes {
        match value {
            Some(value) => map.insert(key, value),
            None => map.remove(&key),
        };
    }
}

type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range that is empty rather than a panic when the bounds cross.
fn bounds<'a>(from: &'a [u8], until: &'a [u8]) -> Option<Bounds<'a>> {
    match until {
        [] => Some((Bound::Included(from), Bound::Unbounded)),
        _ if from < until => Some((Bound::Included(from), Bound::Excluded(until))),
        _ => None,
    }
}

impl MetaStore for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.check_readable()?;
        Ok(self.visible.get(key).cloned())
    }

    fn scan(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        self.check_readable()?;
        let Some(range) = bounds(from, until) else { return Ok(Vec::new()) };
        Ok(self.visible.range::<[u8], _>(range).take(limit).map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    fn scan_back(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        self.check_readable()?;
        let Some(range) = bounds(from, until) else { return Ok(Vec::new()) };
        Ok(self.visible.range::<[u8], _>(range).rev().take(limit).map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    fn commit(&mut self, batch: Batch) -> Result<Ticket, StorageError> {
        if let Some(room) = self.room {
            let more: usize = batch.changes.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len)).sum();
            if self.len_bytes() + more > room {
                return Err(StorageError::NoSpace);
            }
        }
        self.next += 1;
        self.commits += 1;
        let ticket = Ticket(self.next);
        apply(&mut self.visible, batch.clone());
        self.unsynced.push_back((ticket, batch));
        Ok(ticket)
    }
}
