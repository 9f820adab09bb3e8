//! The writing and syncing half of the tables on disk.
//!
//! A commit only gathers. Batches go to the engine when somebody syncs or writes, and those calls may wait for the disk:
//! a commit never does, since whoever commits holds the volume.
//!
//! ```text
//!   commit ──▶ open ──freeze──▶ closed ──sync_to, write──▶ journal ──fdatasync──▶ durable
//! ```
//!
//! What a sync writes is what was frozen before: whoever has other things to make durable first (chunks that the records
//! name) freezes, sees to those, and then syncs. A commit that comes meanwhile gets a later ticket.

use crate::chain::{BatchSum, CHAIN_KEY, Chain};
use crate::checked_value;
use crate::descriptors::{SpareDescriptor, is_exhausted};
use crate::directory::DataDir;
use crate::disk_meta::stored_key;
use crate::disk_opening::{journal_path, newest_journal};
use crate::durable_marker::DurableMarker;
use crate::gathering::{Changes, Gathering};
use crate::group_sync::GroupSync;
use crate::journal_room::JournalRoom;
use crate::poison::Poison;
use crate::space::Space;
use crate::syncer::SyncBackend;
use fjall::{Database, Keyspace, PersistMode};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};
use wayfs_types::{Batch, StorageError, Ticket};

/// Sealed tables in memory that a write waits behind; one below where the engine itself
/// would wait, because the engine's wait does not end when its writer died.
const SEALED_MAX: usize = 3;
/// Unmerged tables on disk that a write waits behind, for the same reason (the engine: 30).
const UNMERGED_MAX: usize = 24;
/// What the journal takes for a change beside key and value, and a share of what it takes for a batch.
const ITEM_LEN_MAX: usize = 64;
/// Room that a write leaves on the disk: what the file system itself may need for it.
const DISK_MARGIN: u64 = 1 << 20;
/// Longest wait of one write for the engine to catch up; the next try waits anew.
const BEHIND_MAX: Duration = Duration::from_secs(5);
/// Gathered bytes from which on writers should be slowed down: what a slow disk (20 MB/s) writes within a second.
const PRESSED_MIN: usize = 16 << 20;
/// Most bytes gathered; a commit beyond is refused. As much as writers that were slowed down can bring together while the
/// engine merges its tables.
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
    pub(crate) database: Database,
    pub(crate) tables: Keyspace,
    pub(crate) engine_path: PathBuf,
    /// Commits that the engine does not have yet. Taken after `chain`, and briefly.
    pub(crate) gathering: Mutex<Gathering>,
    /// Its bytes, for whoever must not wait for that lock.
    pub(crate) gathered: Pressure,
    pub(crate) gather_bytes: usize,
    /// The chain with all batches that the engine has. Whoever writes a batch holds it.
    pub(crate) chain: Mutex<Chain>,
    pub(crate) group: GroupSync,
    /// Belongs to the leader of the group. Taken before `chain`.
    pub(crate) sync: Mutex<SyncState>,
    pub(crate) space: Space,
    /// Bytes committed since the room was looked at.
    pub(crate) unchecked: AtomicU64,
    /// Bytes given to the engine's journals since the open, or a little more.
    pub(crate) journalled: AtomicU64,
    pub(crate) poison: Poison,
    /// Keeps the directory locked while the store lives.
    pub(crate) _directory: DataDir,
}

pub(crate) struct SyncState {
    pub(crate) journal_id: u64,
    pub(crate) journal: File,
    pub(crate) marker: DurableMarker,
    pub(crate) room: JournalRoom,
    /// Given up when the next journal cannot be opened otherwise.
    pub(crate) spare: SpareDescriptor,
}

impl Shared {
    fn chain(&self) -> MutexGuard<'_, Chain> {
        // The chain is one value, written whole: a panic elsewhere leaves it right.
        self.chain.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn gathering(&self) -> MutexGuard<'_, Gathering> {
        // Each step of it leaves it whole.
        self.gathering.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn check(&self) -> Result<(), StorageError> {
        self.poison.cause().map_or(Ok(()), |cause| Err(StorageError::Poisoned(cause.to_owned())))
    }

    fn poisoned(&self, what: &str, error: &dyn std::fmt::Display) -> StorageError {
        StorageError::Poisoned(self.poison.set(format!("{what}: {error}")).to_owned())
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

    /// Hands what is gathered to the engine, if that can be done without waiting and nobody else is about to.
    fn relieve(&self, gathered: usize) -> Result<(), StorageError> {
        let is_beside_sync = self.gathering().is_closed() && gathered < self.gather_bytes.saturating_mul(BESIDE_SYNC);
        if is_beside_sync || self.is_behind() {
            return Ok(());
        }
        match self.chain.try_lock() {
            Ok(mut chain) => self.write_open(&mut chain),
            Err(TryLockError::Poisoned(chain)) => self.write_open(&mut chain.into_inner()),
            // Somebody writes at this moment; the next commit looks again.
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    /// Refuses a batch while there is still room to refuse in peace.
    fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        let unchecked = self.unchecked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if unchecked < 1 << 18 {
            return Ok(());
        }
        // A batch is written to the journal, then to a table, then merged with its neighbours.
        let verdict = self.space.check(bytes.saturating_mul(3));
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

    /// Hands everything gathered to the engine. May wait for the engine.
    fn write_all(&self) -> Result<(), StorageError> {
        self.wait_for_engine()?;
        self.write_open(&mut self.chain())
    }

    /// The same up to a ticket, and no more than what was frozen if that is enough.
    fn write_until(&self, ticket: Ticket) -> Result<(), StorageError> {
        self.wait_for_engine()?;
        let mut chain = self.chain();
        self.write_closed(&mut chain)?;
        if chain.ticket < ticket { self.write_open(&mut chain) } else { Ok(()) }
    }

    /// Batches go to the engine in their order, one at a time: whoever holds the chain writes.
    fn write_open(&self, chain: &mut Chain) -> Result<(), StorageError> {
        self.write_closed(chain)?;
        self.close_open();
        self.write_closed(chain)
    }

    /// Ends the open batch, unless a closed one waits still. Says how far the closed ones go.
    fn close_open(&self) -> Ticket {
        let mut gathering = self.gathering();
        let ticket = gathering.freeze();
        self.gathered.set(gathering.len());
        ticket
    }

    fn write_closed(&self, chain: &mut Chain) -> Result<(), StorageError> {
        self.check()?;
        let Some(changes) = self.gathering().closed() else { return Ok(()) };
        self.check_disk(&changes)?;
        *chain = self.write_batch(&changes, *chain)?;
        self.gathering().written();
        Ok(())
    }

    /// Somebody else may have taken the room since a batch was accepted. It waits here then: a write that fails half-way would
    /// be the end of the store.
    fn check_disk(&self, changes: &Changes) -> Result<(), StorageError> {
        let item_len =
            |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| key.len() + value.as_ref().map_or(0, Vec::len) + ITEM_LEN_MAX;
        let len: usize = changes.iter().map(item_len).sum();
        let free = self.space.free();
        let free = free.map_err(|error| StorageError::Busy(format!("look at the free room: {error}")))?;
        if free < len as u64 + DISK_MARGIN { Err(StorageError::NoSpace) } else { Ok(()) }
    }

    fn write_batch(&self, changes: &Changes, last: Chain) -> Result<Chain, StorageError> {
        let mut sum = BatchSum::default();
        let mut write = self.database.batch().durability(Some(PersistMode::Buffer));
        for (key, value) in changes {
            let key = stored_key(key);
            let value = value.as_ref().map(|value| checked_value::seal(&key, value));
            sum.add(&key, value.as_deref());
            let len = key.len() + value.as_ref().map_or(0, Vec::len) + ITEM_LEN_MAX;
            self.journalled.fetch_add(len as u64, Ordering::Relaxed);
            match value {
                Some(value) => write.insert(&self.tables, key, value),
                None => write.remove(&self.tables, key),
            }
        }
        let next = last.next(sum.finish());
        write.insert(&self.tables, CHAIN_KEY, next.encode());
        write.commit().map_err(|error| self.poisoned("commit", &error))?;
        Ok(next)
    }

    fn is_behind(&self) -> bool {
        self.tables.sealed_memtable_count() >= SEALED_MAX || self.tables.l0_table_count() >= UNMERGED_MAX
    }

    /// Waits while the engine's own writers are behind, and sees them die meanwhile. Called with no lock held but that of the
    /// syncs: nobody else waits here.
    fn wait_for_engine(&self) -> Result<(), StorageError> {
        let begin = Instant::now();
        while self.is_behind() {
            self.check_engine()?;
            if begin.elapsed() > BEHIND_MAX {
                return Err(StorageError::Busy("the disk does not keep up with metadata".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Notices a failure of the engine's background writers.
    fn check_engine(&self) -> Result<(), StorageError> {
        self.database.persist(PersistMode::Buffer).map_err(|error| self.poisoned("write in the background", &error))
    }

    /// Makes what is committed durable up to a ticket at least, and returns the last batch that is.
    fn sync_until(&self, ticket: Ticket) -> Result<u64, StorageError> {
        self.check()?;
        let mut sync = self.sync_state();
        self.write_until(ticket)?;
        let reached = *self.chain();
        self.sync_journal(&mut sync)?;
        self.check_engine()?;
        if let Err(error) = sync.marker.write(reached) {
            // The batches are durable all the same; only the check at the next open is weaker.
            tracing::warn!(%error, "the durable marker was not written");
        }
        Ok(reached.ticket.0)
    }

    /// Fills the journal ahead, if it is time to. A failure costs speed only: the next sync writes down more.
    fn fill_ahead(&self) -> std::io::Result<()> {
        let mut sync = self.sync_state();
        let (journal_id, committed) = (sync.journal_id, self.journalled.load(Ordering::Relaxed));
        if !sync.room.is_wanted(journal_id, committed) {
            return Ok(());
        }
        let path = journal_path(&self.engine_path, journal_id);
        let journal = {
            // All that is written to a journal is written by whoever holds the chain.
            let _chain = self.chain();
            sync.room.fill(&path, journal_id, committed)?
        };
        journal.sync_data()
    }

    fn sync_state(&self) -> MutexGuard<'_, SyncState> {
        // What a panic could leave half done here is only which journal was looked at last.
        self.sync.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Syncs the journal through a descriptor of our own: the engine's way holds its
    /// writer for as long as the disk takes, and commits would wait.
    ///
    /// Batches in older journals were synced when the engine left those.
    fn sync_journal(&self, sync: &mut SyncState) -> Result<(), StorageError> {
        self.follow_journal(sync).map_err(|error| {
            // Nothing was written or lost by looking: the journal at hand stays, and the next sync looks again.
            if is_exhausted(&error) {
                StorageError::Busy(format!("open the next journal: {error}"))
            } else {
                self.poisoned("sync", &error)
            }
        })?;
        sync.journal.sync_data().map_err(|error| self.poisoned("sync", &error))
    }

    /// Goes to the newest journal.
    fn follow_journal(&self, sync: &mut SyncState) -> std::io::Result<()> {
        loop {
            let next = journal_path(&self.engine_path, sync.journal_id + 1);
            // Whether it is there takes no descriptor; nearly always it is not.
            if next.try_exists()? {
                sync.journal = sync.spare.open(&next)?;
                sync.journal_id += 1;
                continue;
            }
            // The engine removes journals oldest first. If ours is gone, the next may be gone too,
            // and its absence says nothing about the ones after it.
            if journal_path(&self.engine_path, sync.journal_id).try_exists()? {
                return Ok(());
            }
            let newest = sync.spare.lend(|| newest_journal(&self.engine_path))?;
            (sync.journal_id, sync.journal) = newest;
        }
    }
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
        let _chain = self.chain();
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
        if let Err(error) = self.fill_ahead() {
            tracing::debug!(%error, "the journal was not filled ahead");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let last = self.gathering().accepted();
        let closed = self.sync_to(last).is_ok();
        let sync = self.sync_state();
        if let (true, Err(error)) = (closed, sync.marker.sync()) {
            tracing::warn!(%error, "the durable marker was not synced");
        }
    }
}
