//! A store that counts what is asked of it.

use std::cell::Cell;
use std::ops::Sub;
use std::rc::Rc;
use wayfs_store::{MemoryMetaStore, Syncer};
use wayfs_types::{Batch, MetaStore, Pairs, StorageError, Ticket};

/// Work of one engine that does not depend on the machine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// Single keys looked up.
    pub(crate) gets: u64,
    /// Ranges looked through.
    pub(crate) scans: u64,
    /// Rows that lookups and ranges gave.
    pub(crate) rows_read: u64,
    /// Rows put or deleted.
    pub(crate) rows_written: u64,
    /// Bytes of keys and values put or deleted.
    pub(crate) bytes_written: u64,
    /// Messages sent.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) message_bytes: u64,
    /// Inputs worked off.
    pub(crate) inputs: u64,
    /// Nanoseconds of a processor: the one figure that does depend on the machine.
    pub(crate) cpu_ns: u64,
}

/// How figures of [`Work`] are named, in the order of [`Work::figures`].
pub(crate) const NAMES: [&str; 9] =
    ["gets", "scans", "rows read", "rows written", "bytes written", "messages", "message bytes", "inputs", "cpu us"];
/// Place of the processor's time among them: no test looks at it.
pub(crate) const CPU: usize = 8;

impl Work {
    /// All figures for one operation, in the order of [`NAMES`].
    pub(crate) fn figures(&self, operations: u64) -> [f64; 9] {
        let each = |count: u64| count as f64 / operations as f64;
        [
            each(self.gets),
            each(self.scans),
            each(self.rows_read),
            each(self.rows_written),
            each(self.bytes_written),
            each(self.messages),
            each(self.message_bytes),
            each(self.inputs),
            each(self.cpu_ns) / 1000.0,
        ]
    }
}

impl Sub for Work {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            gets: self.gets - before.gets,
            scans: self.scans - before.scans,
            rows_read: self.rows_read - before.rows_read,
            rows_written: self.rows_written - before.rows_written,
            bytes_written: self.bytes_written - before.bytes_written,
            messages: self.messages - before.messages,
            message_bytes: self.message_bytes - before.message_bytes,
            inputs: self.inputs - before.inputs,
            cpu_ns: self.cpu_ns - before.cpu_ns,
        }
    }
}

/// Tables in memory, with a count of their use.
pub(crate) struct CountingStore {
    inner: MemoryMetaStore,
    work: Rc<Cell<Work>>,
}

impl CountingStore {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self { inner: MemoryMetaStore::new(), work: Rc::default() }
    }

    /// The count, for whoever adds the messages to it.
    pub(crate) fn work(&self) -> Rc<Cell<Work>> {
        Rc::clone(&self.work)
    }

    /// Makes batches durable.
    pub(crate) fn syncer(&self) -> Syncer {
        self.inner.syncer()
    }

    fn count(&self, change: impl FnOnce(&mut Work)) {
        let mut work = self.work.get();
        change(&mut work);
        self.work.set(work);
    }

    fn count_scan(&self, pairs: &Pairs) {
        self.count(|work| {
            work.scans += 1;
            work.rows_read += pairs.len() as u64;
        });
    }
}

impl MetaStore for CountingStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        let value = self.inner.get(key)?;
        self.count(|work| {
            work.gets += 1;
            work.rows_read += u64::from(value.is_some());
        });
        Ok(value)
    }

    fn scan(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        let pairs = self.inner.scan(from, until, limit)?;
        self.count_scan(&pairs);
        Ok(pairs)
    }

    fn scan_back(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        let pairs = self.inner.scan_back(from, until, limit)?;
        self.count_scan(&pairs);
        Ok(pairs)
    }

    fn commit(&mut self, batch: Batch) -> Result<Ticket, StorageError> {
        self.count(|work| {
            work.rows_written += batch.changes.len() as u64;
            let len = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| key.len() + value.as_ref().map_or(0, Vec::len);
            work.bytes_written += batch.changes.iter().map(len).sum::<usize>() as u64;
        });
        self.inner.commit(batch)
    }
}
