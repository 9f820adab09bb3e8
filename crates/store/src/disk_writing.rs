//! The writing and syncing half of the tables on disk.
//!
//! A commit only gathers. Batches go to the tables when somebody syncs or writes, and those calls may wait for the disk:
//! a commit never does, since whoever commits holds the volume.
//!
//! ```text
//!   commit ──▶ open ──freeze──▶ closed ──sync_to, write──▶ log ──fdatasync──▶ durable
//! ```
//!
//! What a sync writes is what was frozen before: whoever has other things to make durable first (chunks that the records
//! name) freezes, sees to those, and then syncs. A commit that comes meanwhile gets a later ticket.

use crate::checked_value;
use crate::checkpoints::Checkpointer;
use crate::directory::DataDir;
use crate::disk_opening::Opened;
use crate::durable_marker::DurableMarker;
use crate::error::OpenError;
use crate::gathering::{Changes, Gathering};
use crate::group_sync::GroupSync;
use crate::log::format::Item;
use crate::meta_config::MetaConfig;
use crate::stored::stored_key;
use crate::syncer::SyncBackend;
use crate::tables::{Tables, Tail};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wayfs_types::{Batch, StorageError, Ticket};

/// Longest wait of one write for checkpoints to catch up; the next try waits anew.
const BEHIND_MAX: Duration = Duration::from_secs(5);
/// Longest wait before the next look: the word that a checkpoint is done can come between a look and a wait.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Gathered bytes from which on writers should be slowed down: what a slow disk (20 MB/s) writes within a second.
const PRESSED_MIN: usize = 16 << 20;
/// Most bytes gathered; a commit beyond is refused. As much as writers that were slowed down can bring together while
/// tables are merged.
const GATHERED_MAX: usize = 64 << 20;
/// So many times [`crate::MetaConfig::gather_bytes`] may come together while a sync is on its way, which writes it in the right
/// order: after the chunks that it names.
const BESIDE_SYNC: usize = 8;

/// How much a store has gathered and not written. Clones look at the same store, and keep nothing open.
#[derive(Debug, Clone, Default)]
pub struct Pressure(Arc<AtomicUsize>);

impl Pressure {
    /// Whether commits come so much faster than the disk takes them that writers should wait a moment before the next.
    pub fn is_high(&self) -> bool {
        self.bytes() >= PRESSED_MIN
    }

    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// What the store and its syncers share.
pub(crate) struct Shared {
    pub(crate) tables: Arc<Tables>,
    /// Commits that the tables do not have yet. Taken after the tail of the tables, and briefly.
    gathering: Mutex<Gathering>,
    /// Its bytes, for whoever must not wait for that lock.
    pub(crate) gathered: Pressure,
    gather_bytes: usize,
    group: GroupSync,
    /// Belongs to the leader of the group. Taken before the tail of the tables.
    marker: Mutex<DurableMarker>,
    /// Bytes committed since the room was looked at.
    unchecked: AtomicU64,
    checkpointer: Checkpointer,
    /// Keeps the directory locked while the store lives.
    _directory: DataDir,
}

impl Shared {
    /// Begins to work with what an open found.
    pub(crate) fn start(opened: Opened, config: MetaConfig, directory: &DataDir) -> Result<Self, OpenError> {
        let tables = Arc::new(opened.tables);
        let checkpointer = Checkpointer::start(Arc::clone(&tables));
        let checkpointer = checkpointer.map_err(OpenError::io("start a thread for", directory.path()))?;
        Ok(Self::with(tables, opened.marker, checkpointer, (config, directory)))
    }

    /// The same with whoever does the checkpoints.
    pub(crate) fn with(
        tables: Arc<Tables>,
        marker: DurableMarker,
        checkpointer: Checkpointer,
        (config, directory): (MetaConfig, &DataDir),
    ) -> Self {
        let found = tables.tail().chain.ticket;
        Self {
            tables,
            gathering: Mutex::new(Gathering::after(found)),
            gathered: Pressure::default(),
            gather_bytes: config.gather_bytes,
            group: GroupSync::from(found.0),
            marker: Mutex::new(marker),
            unchecked: AtomicU64::new(u64::MAX / 2),
            checkpointer,
            _directory: directory.clone(),
        }
    }

    pub(crate) fn gathering(&self) -> MutexGuard<'_, Gathering> {
        // Each step of it leaves it whole.
        self.gathering.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn check(&self) -> Result<(), StorageError> {
        self.tables.check()
    }

    /// Gathers a commit of about so many bytes. Never waits, unless each commit is to be a batch of its own.
    pub(crate) fn accept(&self, batch: Batch, bytes: usize) -> Result<Ticket, StorageError> {
        self.check_room(bytes as u64)?;
        if self.gathered.bytes().saturating_add(bytes) > GATHERED_MAX {
            return Err(StorageError::Busy("the disk does not keep up with metadata".to_owned()));
        }
        let (ticket, gathered) = {
            let mut gathering = self.gathering();
            let ticket = gathering.add(batch);
            self.gathered.set(gathering.len());
            (ticket, gathering.len())
        };
        if self.gather_bytes == 0 {
            accepted(self.write_all())?;
        } else if gathered >= self.gather_bytes {
            accepted(self.relieve(gathered))?;
        }
        Ok(ticket)
    }

    /// Hands what is gathered to the tables, if that can be done without waiting and nobody else is about to.
    fn relieve(&self, gathered: usize) -> Result<(), StorageError> {
        let is_beside_sync = self.gathering().is_closed() && gathered < self.gather_bytes.saturating_mul(BESIDE_SYNC);
        if is_beside_sync || self.tables.index.is_behind() {
            return Ok(());
        }
        // If somebody writes at this moment, the next commit looks again.
        self.tables.try_tail().map_or(Ok(()), |mut tail| self.write_open(&mut tail))
    }

    /// Refuses a batch while there is still room to refuse in peace.
    fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        let unchecked = self.unchecked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if unchecked < 1 << 18 {
            return Ok(());
        }
        // A batch is written to the log, then to a table, then merged with its neighbours.
        let verdict = self.tables.space.check(bytes.saturating_mul(3));
        match verdict.map_err(|error| StorageError::Busy(format!("look at the free room: {error}")))? {
            Ok(()) => {
                self.unchecked.store(0, Ordering::Relaxed);
                Ok(())
            }
            Err(_) => {
                self.unchecked.store(u64::MAX / 2, Ordering::Relaxed);
                Err(StorageError::NoSpace)
            }
        }
    }

    /// Hands everything gathered to the tables. May wait for checkpoints.
    fn write_all(&self) -> Result<(), StorageError> {
        self.wait_for_checkpoints()?;
        self.write_open(&mut self.tables.tail())
    }

    /// The same up to a ticket, and no more than what was frozen if that is enough.
    fn write_until(&self, ticket: Ticket) -> Result<(), StorageError> {
        self.wait_for_checkpoints()?;
        let mut tail = self.tables.tail();
        self.write_closed(&mut tail)?;
        if tail.chain.ticket < ticket { self.write_open(&mut tail) } else { Ok(()) }
    }

    /// Batches go to the tables in their order, one at a time: whoever holds the tail writes.
    fn write_open(&self, tail: &mut Tail) -> Result<(), StorageError> {
        self.write_closed(tail)?;
        self.close_open();
        self.write_closed(tail)
    }

    /// Ends the open batch, unless a closed one waits still. Says how far the closed ones go.
    fn close_open(&self) -> Ticket {
        let mut gathering = self.gathering();
        let ticket = gathering.freeze();
        self.gathered.set(gathering.len());
        ticket
    }

    fn write_closed(&self, tail: &mut Tail) -> Result<(), StorageError> {
        self.check()?;
        let Some(changes) = self.gathering().closed() else { return Ok(()) };
        self.tables.write(stored(&changes), tail)?;
        self.gathering().written();
        if self.tables.index.is_full() {
            self.checkpointer.wake();
        }
        Ok(())
    }

    /// Waits while checkpoints are behind. Called with no lock held but the marker's: nobody else waits here.
    fn wait_for_checkpoints(&self) -> Result<(), StorageError> {
        if self.tables.index.is_overdue() {
            accepted(self.tables.turn())?;
        }
        let begin = Instant::now();
        while self.tables.index.is_behind() {
            self.check()?;
            if begin.elapsed() > BEHIND_MAX || !self.checkpointer.wait_for_progress(LOOK_PAUSE) {
                return Err(StorageError::Busy("the disk does not keep up with metadata".to_owned()));
            }
        }
        Ok(())
    }

    /// Makes what is committed durable up to a ticket at least, and returns the last batch that is.
    fn sync_until(&self, ticket: Ticket) -> Result<u64, StorageError> {
        self.check()?;
        let mut marker = self.marker();
        self.write_until(ticket)?;
        let reached = self.tables.sync()?;
        if let Err(error) = marker.write(reached) {
            // The batches are durable all the same; only the check at the next open is weaker.
            tracing::warn!(%error, "the durable marker was not written");
        }
        Ok(reached.ticket.0)
    }

    fn marker(&self) -> MutexGuard<'_, DurableMarker> {
        // What a panic could leave half done here is only which slot is written next.
        self.marker.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Changes as the tables have them.
fn stored(changes: &Changes) -> Vec<Item> {
    let stored = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| {
        let key = stored_key(key);
        let value = value.as_ref().map(|value| checked_value::seal(&key, value));
        (key, value)
    };
    changes.iter().map(stored).collect()
}

/// A batch that was accepted is not refused any more because it could not be written at once: the next write takes it along.
fn accepted(written: Result<(), StorageError>) -> Result<(), StorageError> {
    match written {
        Ok(()) | Err(StorageError::Busy(_) | StorageError::NoSpace) => Ok(()),
        Err(error) => Err(error),
    }
}

impl SyncBackend for Shared {
    fn freeze(&self) -> Result<Ticket, StorageError> {
        self.check()?;
        // A write that is under way on another thread ends first, so that what follows it can be closed, too.
        let _tail = self.tables.tail();
        Ok(self.close_open())
    }

    fn sync_to(&self, ticket: Ticket) -> Result<Ticket, StorageError> {
        self.check()?;
        let target = ticket.min(self.gathering().accepted());
        self.group.wait(target.0, || self.sync_until(target)).map(Ticket)
    }

    fn write(&self) -> Result<(), StorageError> {
        self.write_all()
    }

    fn durable(&self) -> Ticket {
        Ticket(self.group.durable())
    }

    fn make_ready(&self) {
        self.tables.make_room();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let last = self.gathering().accepted();
        let closed = self.sync_to(last).is_ok();
        if let (true, Err(error)) = (closed, self.marker().sync()) {
            tracing::warn!(%error, "the durable marker was not synced");
        }
    }
}
