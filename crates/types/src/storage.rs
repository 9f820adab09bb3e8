//! The storage trait between a replica engine and what keeps its tables.

use std::fmt;

/// Why the store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// No room; nothing of the batch was kept.
    #[error("no space left for metadata: make room and try again")]
    NoSpace,
    /// Not at this moment, for want of descriptors or memory or because the disk is behind: nothing of the batch was kept,
    /// nothing is damaged, and the same may succeed a moment later.
    #[error("the store is busy ({0}): try again")]
    Busy(String),
    /// A stored record failed its check; it is not served.
    #[error("stored record is damaged: {0}")]
    Corrupt(String),
    /// An earlier write failed; nothing more is accepted until restart.
    #[error("the store stopped after a failed write ({0}): restart the daemon after mending the cause")]
    Poisoned(String),
    /// Anything else the system said.
    #[error("storage: {0}")]
    Io(String),
}

/// Names a committed batch in the store's order, from 1.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Changes that happen together or not at all.
///
/// One flat key space ordered by bytes: the first byte of a key names its table.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Keys with their new values; `None` deletes. The last change of a key wins.
    pub changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Batch {
    /// Sets a key.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.changes.push((key, Some(value)));
    }

    /// Removes a key.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.changes.push((key, None));
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Keys and values, in order of key.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Ordered byte tables with atomic batches.
///
/// A committed batch is visible at once to `get` and `scan`, and durable only when
/// the driver that owns the syncing half said so. Batches survive a crash as a
/// prefix of their order: never a later one without an earlier one. After an
/// error from `commit` the store refuses everything until it is opened again,
/// but for [`StorageError::NoSpace`] and [`StorageError::Busy`], which leave it as it was.
pub trait MetaStore {
    /// The value of a key.
    ///
    /// # Errors
    /// [`StorageError`] when it cannot be read or fails its check.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError>;

    /// Up to `limit` pairs with `from <= key < until`, in order; `until` empty means to the end.
    ///
    /// # Errors
    /// As for `get`.
    fn scan(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError>;

    /// Up to `limit` pairs with `from <= key < until`, the last key first.
    ///
    /// # Errors
    /// As for `get`.
    fn scan_back(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError>;

    /// Applies a batch atomically and names it.
    ///
    /// # Errors
    /// [`StorageError`]; see the trait for what holds afterwards.
    fn commit(&mut self, batch: Batch) -> Result<Ticket, StorageError>;
}
