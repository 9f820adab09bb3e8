//! The syncing half of a store, for a thread that may wait.

use std::sync::Arc;
use wayfs_types::{StorageError, Ticket};

/// What a store offers to those who wait for durability.
pub(crate) trait SyncBackend: Send + Sync {
    fn freeze(&self) -> Result<Ticket, StorageError>;
    fn sync_to(&self, ticket: Ticket) -> Result<Ticket, StorageError>;
    fn write(&self) -> Result<(), StorageError>;
    fn durable(&self) -> Ticket;
    /// Prepares for the next sync.
    fn make_ready(&self) {}
}

/// Makes committed batches durable, off the engine's thread.
///
/// Clones share one state: however many wait, one sync of the disk serves all whose
/// batches were committed before it began. A clone keeps the store and its directory open.
#[derive(Clone)]
pub struct Syncer(Arc<dyn SyncBackend>);

impl Syncer {
    pub(crate) fn new(backend: Arc<dyn SyncBackend>) -> Self {
        Self(backend)
    }

    /// Closes what was committed so far and names it: whatever is committed from here on has a later ticket.
    ///
    /// Does not touch the disk. For a caller who must make other things durable before what names them: freeze, see to
    /// those, and [`Syncer::sync_to`] the ticket of the freeze.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`] when an earlier write failed.
    pub fn freeze(&self) -> Result<Ticket, StorageError> {
        self.0.freeze()
    }

    /// Returns when batches up to `ticket` are durable, with the last batch that is. Writes what was frozen, and what
    /// was committed later only if the ticket is of it.
    ///
    /// Waits for the disk; returns at once for what is durable already. A ticket that was
    /// not committed yet is taken for the last one that was.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`] when this or an earlier write failed: nothing that was not
    /// reported durable before may be taken for durable. [`StorageError::Busy`]: not now; try again.
    pub fn sync_to(&self, ticket: Ticket) -> Result<Ticket, StorageError> {
        self.0.sync_to(ticket)
    }

    /// Hands what is committed to the system, so that it survives the end of the process; not yet that of the machine.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`] when this or an earlier write failed; [`StorageError::Busy`]: not now; try again.
    pub fn write(&self) -> Result<(), StorageError> {
        self.0.write()
    }

    /// Does what makes the next sync quicker and can be done before it: for moments when nobody waits for one. May take
    /// a few milliseconds, once in some hundred calls.
    pub fn make_ready(&self) {
        self.0.make_ready();
    }

    /// The last batch known to be durable; never waits.
    pub fn durable(&self) -> Ticket {
        self.0.durable()
    }
}

impl std::fmt::Debug for Syncer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Syncer(durable to {})", self.durable())
    }
}
