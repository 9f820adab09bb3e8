//! Tables in memory, with crashes on request: for simulation and tests.

use crate::syncer::{SyncBackend, Syncer};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use wayfs_types::{Batch, MetaStore, Pairs, StorageError, Ticket};

/// Tables in memory that obey the contract of [`MetaStore`], its crashes included.
///
/// Deterministic and without input or output. It remembers how to undo the batches
/// that are not durable, so that [`MemoryMetaStore::crash`] can keep any prefix.
#[derive(Debug)]
pub struct MemoryMetaStore {
    state: Arc<Mutex<State>>,
}

/// Keys of a batch with what they held before, in order of the changes.
type Undo = Vec<(Vec<u8>, Option<Vec<u8>>)>;
/// Ends of a range of keys.
type Bounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

#[derive(Debug, Default)]
struct State {
    tables: BTreeMap<Vec<u8>, Vec<u8>>,
    committed: u64,
    durable: u64,
    /// For each batch after `durable`, what its keys held before.
    undo: VecDeque<Undo>,
    /// Bytes of keys and values that fit; none for no limit.
    room: Option<usize>,
    used: usize,
    poison: Option<String>,
}

impl Default for MemoryMetaStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryMetaStore {
    /// An empty store.
    pub fn new() -> Self {
        Self { state: Arc::default() }
    }

    /// The syncing half; in memory it is quick and never waits.
    pub fn syncer(&self) -> Syncer {
        Syncer::new(Arc::new(MemorySync(Arc::clone(&self.state))))
    }

    /// The last batch committed.
    pub fn committed(&self) -> Ticket {
        Ticket(lock(&self.state).committed)
    }

    /// The store after a crash that kept batches up to `kept`, durable ones at least.
    ///
    /// The old store's syncer stays with the old store.
    pub fn crash(self, kept: Ticket) -> Self {
        let mut state = std::mem::take(&mut *lock(&self.state));
        let kept = kept.0.clamp(state.durable, state.committed);
        while state.committed > kept {
            let undo = state.undo.pop_back().expect("a batch that is not durable can be undone");
            for (key, value) in undo.into_iter().rev() {
                restore(&mut state.tables, key, value);
            }
            state.committed -= 1;
        }
        state.poison = None;
        state.used = state.tables.iter().map(|(key, value)| key.len() + value.len()).sum();
        state.durable = kept;
        state.undo.clear();
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes every later call fail, as a failed disk would.
    #[cfg(test)]
    pub(crate) fn poison(&mut self, cause: &str) {
        lock(&self.state).poison = Some(cause.to_owned());
    }

    /// Limits the bytes of keys and values; commits past it are refused with `NoSpace`.
    pub fn set_room(&mut self, room: Option<usize>) {
        lock(&self.state).room = room;
    }

    /// All pairs, for comparisons in tests.
    pub fn pairs(&self) -> Pairs {
        lock(&self.state).tables.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// A poisoned lock means that another thread panicked between two whole steps; the state is whole.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn restore(tables: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: Vec<u8>, value: Option<Vec<u8>>) {
    match value {
        Some(value) => drop(tables.insert(key, value)),
        None => drop(tables.remove(&key)),
    }
}

impl State {
    fn check(&self) -> Result<(), StorageError> {
        self.poison.clone().map_or(Ok(()), |cause| Err(StorageError::Poisoned(cause)))
    }

    /// Bytes used after a batch.
    fn used_after(&self, batch: &Batch) -> usize {
        let mut last: BTreeMap<&[u8], Option<&Vec<u8>>> = BTreeMap::new();
        for (key, value) in &batch.changes {
            last.insert(key, value.as_ref());
        }
        let mut used = self.used;
        for (key, value) in last {
            used -= self.tables.get(key).map_or(0, |old| key.len() + old.len());
            used += value.map_or(0, |new| key.len() + new.len());
        }
        used
    }
}

fn bounds<'k>(from: &'k [u8], until: &'k [u8]) -> Option<Bounds<'k>> {
    if until.is_empty() {
        return Some((Bound::Included(from), Bound::Unbounded));
    }
    // The map panics on a range that ends before it begins.
    (from < until).then_some((Bound::Included(from), Bound::Excluded(until)))
}

impl MetaStore for MemoryMetaStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        let state = lock(&self.state);
        state.check()?;
        Ok(state.tables.get(key).cloned())
    }

    fn scan(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        let state = lock(&self.state);
        state.check()?;
        let Some(bounds) = bounds(from, until) else { return Ok(Pairs::new()) };
        let range = state.tables.range::<[u8], _>(bounds);
        Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn scan_back(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        let state = lock(&self.state);
        state.check()?;
        let Some(bounds) = bounds(from, until) else { return Ok(Pairs::new()) };
        let range = state.tables.range::<[u8], _>(bounds).rev();
        Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn commit(&mut self, batch: Batch) -> Result<Ticket, StorageError> {
        let mut state = lock(&self.state);
        state.check()?;
        let used = state.used_after(&batch);
        if state.room.is_some_and(|room| used > room) {
            return Err(StorageError::NoSpace);
        }
        let mut undo = Vec::with_capacity(batch.changes.len());
        for (key, value) in batch.changes {
            let before = match value {
                Some(value) => state.tables.insert(key.clone(), value),
                None => state.tables.remove(&key),
            };
            undo.push((key, before));
        }
        state.used = used;
        state.undo.push_back(undo);
        state.committed += 1;
        Ok(Ticket(state.committed))
    }
}

struct MemorySync(Arc<Mutex<State>>);

impl SyncBackend for MemorySync {
    fn freeze(&self) -> Result<Ticket, StorageError> {
        let state = lock(&self.0);
        state.check()?;
        // Each commit is a batch of its own.
        Ok(Ticket(state.committed))
    }

    fn sync_to(&self, ticket: Ticket) -> Result<Ticket, StorageError> {
        let mut state = lock(&self.0);
        state.check()?;
        let target = ticket.0.min(state.committed);
        while state.durable < target {
            state.durable += 1;
            state.undo.pop_front();
        }
        Ok(Ticket(state.durable))
    }

    fn write(&self) -> Result<(), StorageError> {
        lock(&self.0).check()
    }

    fn durable(&self) -> Ticket {
        Ticket(lock(&self.0).durable)
    }
}
