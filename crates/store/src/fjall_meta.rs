//! Tables on disk, in the log-structured engine fjall.
//!
//! What the engine does not promise by itself is added here: a checksum in each value,
//! the [`crate::chain`] that shows where the store ends, a look at the journals before
//! each open, room kept free so that no write fails in the middle, and a sync that does
//! not hold up commits and has little to write down.

use crate::chain::{BatchSum, CHAIN_KEY, Chain, END_PREFIX, TABLE_PREFIX};
use crate::checked_value;
use crate::directory::DataDir;
use crate::durable_marker::DurableMarker;
use crate::error::{OpenError, is_no_space};
use crate::gathering::{Changes, Direction, Gathering};
use crate::group_sync::GroupSync;
use crate::journal_inspection::{Inspection, VALUE_MAX, cut, inspect};
use crate::journal_room::JournalRoom;
use crate::poison::Poison;
use crate::snapshot::MetaSnapshot;
use crate::space::Space;
use crate::syncer::{SyncBackend, Syncer};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wayfs_types::{Batch, MetaStore, Pairs, StorageError, Ticket};

/// Longest key, in bytes.
const KEY_MAX: usize = 4096;
/// Sealed tables in memory that a commit waits behind; one below where the engine itself
/// would wait, because the engine's wait does not end when its writer died.
const SEALED_MAX: usize = 3;
/// Unmerged tables on disk that a commit waits behind, for the same reason (the engine: 30).
const UNMERGED_MAX: usize = 24;
/// What the journal takes for a change beside key and value, and a share of what it takes for a batch.
const ITEM_LEN_MAX: usize = 64;
/// Longest wait for the engine to catch up. A disk that takes longer for one memory table is broken.
const BEHIND_MAX: Duration = Duration::from_secs(30);

/// How a metadata store uses memory and disk.
#[derive(Debug, Clone, Copy)]
pub struct MetaConfig {
    /// Bytes of blocks kept in memory. Default 64 MiB; less costs disk reads for cold keys.
    pub cache_bytes: u64,
    /// Bytes of recent writes kept in memory before they go to a table. Default 32 MiB;
    /// more makes fewer tables (most rows of the log die young and never reach one) and a longer open.
    pub memtable_bytes: u64,
    /// Bytes of commits gathered in memory, under one ticket, before they are written as one batch, unless they
    /// are synced or written ([`Syncer::write`]) before. Default 1 MiB. Zero: each commit is a batch of its own,
    /// and nothing that was committed is lost with the process.
    pub gather_bytes: usize,
    /// Bytes left free on the file system, so that no write fails in the middle. Default 64 MiB.
    pub min_free: u64,
}

impl Default for MetaConfig {
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, memtable_bytes: 32 << 20, gather_bytes: 1 << 20, min_free: 64 << 20 }
    }
}

/// What an open found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetaReport {
    /// The last batch in the store.
    pub committed: Ticket,
    /// Bytes of a batch that a crash left half written and that were cut off.
    pub torn_bytes: u64,
    /// Damage that was accepted, in words.
    pub accepted: Option<String>,
}

/// Tables on disk.
pub struct FjallMetaStore {
    shared: Arc<Shared>,
    report: MetaReport,
}

struct Shared {
    database: Database,
    tables: Keyspace,
    engine_path: PathBuf,
    /// Commits that the engine does not have yet. Taken after `chain`, and briefly.
    gathering: Mutex<Gathering>,
    gather_bytes: usize,
    /// The chain with all batches that the engine has. Whoever writes a batch holds it.
    chain: Mutex<Chain>,
    group: GroupSync,
    /// Belongs to the leader of the group. Taken before `chain`.
    sync: Mutex<SyncState>,
    space: Space,
    /// Bytes committed since the room was looked at.
    unchecked: AtomicU64,
    /// Bytes given to the engine's journals since the open, or a little more.
    journalled: AtomicU64,
    poison: Poison,
    /// Keeps the directory locked while the store lives.
    _directory: DataDir,
}

struct SyncState {
    journal_id: u64,
    journal: File,
    marker: DurableMarker,
    room: JournalRoom,
}

/// Whether an open may go on after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnLoss {
    Refuse,
    Accept,
}

impl FjallMetaStore {
    /// Opens the metadata of a data directory, making it if it is not there.
    ///
    /// # Errors
    /// [`OpenError::LostBatches`] and [`OpenError::Damaged`] when what was durable is not all
    /// there; [`OpenError::Engine`] and [`OpenError::Io`].
    pub fn open(directory: &DataDir, config: MetaConfig) -> Result<Self, OpenError> {
        Self::open_with(directory, config, OnLoss::Refuse)
    }

    /// As [`FjallMetaStore::open`], but goes on with what is left after a loss.
    ///
    /// The report says what was accepted. Only a person should decide this.
    ///
    /// # Errors
    /// [`OpenError::Engine`] and [`OpenError::Io`].
    pub fn open_accepting_loss(directory: &DataDir, config: MetaConfig) -> Result<Self, OpenError> {
        Self::open_with(directory, config, OnLoss::Accept)
    }

    fn open_with(directory: &DataDir, config: MetaConfig, on_loss: OnLoss) -> Result<Self, OpenError> {
        let engine_path = directory.join("meta");
        let marker_path = directory.join("meta.durable");
        let accepted_path = directory.join("meta.accepted");
        let opened = DurableMarker::open(&marker_path).map_err(OpenError::io("open", &marker_path));
        let (mut marker, promised) = opened?;
        discard_half_made(&engine_path, promised)?;
        let inspection = inspect(&engine_path, &directory.join("damaged"), accepted_before(&accepted_path))?;
        let (database, tables) = open_engine(&engine_path, config, &inspection, promised)?;
        let found = read_chain(&tables)?;
        let loss = loss(&inspection, promised, found);
        let accepted = match (loss, on_loss) {
            (None, _) => None,
            (Some(error), OnLoss::Refuse) => return Err(error),
            (Some(error), OnLoss::Accept) => {
                tracing::error!(%error, "metadata loss accepted");
                marker.clear().map_err(OpenError::io("clear", &marker_path))?;
                let note = found.ticket.to_string();
                std::fs::write(&accepted_path, note).map_err(OpenError::io("write", &accepted_path))?;
                Some(error.to_string())
            }
        };
        let report = MetaReport { committed: found.ticket, torn_bytes: inspection.torn_bytes, accepted };
        // The engine synced its journals while it opened: all that was found is durable.
        marker.write(found).map_err(OpenError::io("write", &marker_path))?;
        let newest = newest_journal(&engine_path);
        let (journal_id, journal) = newest.map_err(OpenError::io("open journal in", &engine_path))?;
        let shared = Shared {
            database,
            tables,
            gathering: Mutex::new(Gathering::after(found.ticket)),
            gather_bytes: config.gather_bytes,
            chain: Mutex::new(found),
            group: GroupSync::from(found.ticket.0),
            sync: Mutex::new(SyncState { journal_id, journal, marker, room: JournalRoom::default() }),
            space: Space::watch(&engine_path, config.min_free).map_err(OpenError::io("watch", &engine_path))?,
            unchecked: AtomicU64::new(u64::MAX / 2),
            journalled: AtomicU64::new(0),
            poison: Poison::default(),
            engine_path,
            _directory: directory.clone(),
        };
        Ok(Self { shared: Arc::new(shared), report })
    }

    /// What the open found.
    pub fn report(&self) -> &MetaReport {
        &self.report
    }

    /// The tables as the last synced batch, or a later one, left them.
    #[must_use]
    pub fn snapshot(&self) -> MetaSnapshot {
        let shared = &self.shared;
        MetaSnapshot { snapshot: shared.database.snapshot(), tables: shared.tables.clone() }
    }

    /// The syncing half.
    pub fn syncer(&self) -> Syncer {
        Syncer::new(Arc::clone(&self.shared) as Arc<dyn SyncBackend>)
    }

    /// The last batch committed.
    pub fn committed(&self) -> Ticket {
        self.shared.gathering().accepted()
    }

    /// How many commits there were since the store was opened; several may share a ticket.
    pub fn commits(&self) -> u64 {
        self.shared.gathering().commits()
    }

    /// Bytes on disk.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn disk_bytes(&self) -> Result<u64, StorageError> {
        self.shared.database.disk_space().map_err(|error| StorageError::Io(error.to_string()))
    }

    fn scan_in(&self, range: (&[u8], &[u8]), limit: usize, direction: Direction) -> Result<Pairs, StorageError> {
        self.shared.check()?;
        let (from, until) = range;
        let end = if until.is_empty() { vec![END_PREFIX] } else { stored_key(until) };
        let start = stored_key(from);
        if start >= end {
            return Ok(Pairs::new());
        }
        // Held to the end: what leaves the gathering meanwhile may be missing in a range begun before.
        let gathering = self.shared.gathering();
        let stored = self.shared.tables.range(start..end);
        match (gathering.is_empty(), direction) {
            (true, Direction::Forth) => stored.take(limit).map(pair).collect(),
            (true, Direction::Back) => stored.rev().take(limit).map(pair).collect(),
            (false, Direction::Forth) => overlay(stored.map(pair), &gathering, range, (limit, direction)),
            (false, Direction::Back) => overlay(stored.rev().map(pair), &gathering, range, (limit, direction)),
        }
    }
}

/// Up to so many pairs of a range, as the gathered changes leave them.
fn overlay(
    stored: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>>,
    gathering: &Gathering,
    (from, until): (&[u8], &[u8]),
    (limit, direction): (usize, Direction),
) -> Result<Pairs, StorageError> {
    let mut stored = stored.peekable();
    let mut changes = gathering.range(from, until, direction).peekable();
    let mut pairs = Pairs::new();
    while pairs.len() < limit {
        let is_changed = match (stored.peek(), changes.peek()) {
            (Some(Err(_)), _) | (Some(_), None) => false,
            (None, _) => true,
            (Some(Ok((key, _))), Some((changed, _))) if key == *changed => {
                stored.next();
                true
            }
            (Some(Ok((key, _))), Some((changed, _))) => direction.is_before(changed, key),
        };
        if !is_changed {
            pairs.extend(stored.next().transpose()?);
            continue;
        }
        let Some((key, value)) = changes.next() else { break };
        pairs.extend(value.as_ref().map(|value| (key.clone(), value.clone())));
    }
    Ok(pairs)
}

impl std::fmt::Debug for FjallMetaStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FjallMetaStore(batch {})", self.committed())
    }
}

impl MetaStore for FjallMetaStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.shared.check()?;
        if let Some(gathered) = self.shared.gathering().get(key) {
            return Ok(gathered);
        }
        let key = stored_key(key);
        let sealed = self.shared.tables.get(&key).map_err(read_error)?;
        sealed.map(|sealed| checked_value::open(&key, &sealed).map(<[u8]>::to_vec)).transpose()
    }

    fn scan(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        self.scan_in((from, until), limit, Direction::Forth)
    }

    fn scan_back(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        self.scan_in((from, until), limit, Direction::Back)
    }

    fn commit(&mut self, batch: Batch) -> Result<Ticket, StorageError> {
        let shared = &self.shared;
        shared.check()?;
        check_lengths(&batch)?;
        let cost = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| key.len() + value.as_ref().map_or(0, Vec::len) + 64;
        let bytes: usize = batch.changes.iter().map(cost).sum();
        shared.check_room(bytes as u64)?;
        let (ticket, gathered) = {
            let mut gathering = shared.gathering();
            (gathering.add(batch), gathering.len())
        };
        if gathered >= shared.gather_bytes {
            shared.write_gathered()?;
        }
        Ok(ticket)
    }
}

impl Shared {
    fn chain(&self) -> MutexGuard<'_, Chain> {
        // The chain is one value, written whole: a panic elsewhere leaves it right.
        self.chain.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn gathering(&self) -> MutexGuard<'_, Gathering> {
        // Each step of it leaves it whole.
        self.gathering.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Hands what was committed so far to the engine as one batch.
    fn write_gathered(&self) -> Result<(), StorageError> {
        // Whoever holds the chain writes; so batches go to the engine in their order.
        let mut chain = self.chain();
        self.check()?;
        let Some(changes) = self.gathering().freeze() else { return Ok(()) };
        *chain = self.write_batch(&changes, *chain)?;
        self.gathering().written();
        Ok(())
    }

    fn write_batch(&self, changes: &Changes, last: Chain) -> Result<Chain, StorageError> {
        if let Err(error) = self.wait_for_engine() {
            // What was frozen has its ticket and cannot be taken back.
            return Err(self.poisoned("hand commits to the engine", &error));
        }
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

    fn check(&self) -> Result<(), StorageError> {
        self.poison.cause().map_or(Ok(()), |cause| Err(StorageError::Poisoned(cause.to_owned())))
    }

    fn poisoned(&self, what: &str, error: &dyn std::fmt::Display) -> StorageError {
        StorageError::Poisoned(self.poison.set(format!("{what}: {error}")).to_owned())
    }

    /// Refuses a batch while there is still room to refuse in peace.
    fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        let unchecked = self.unchecked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if unchecked < 1 << 18 {
            return Ok(());
        }
        // A batch is written to the journal, then to a table, then merged with its neighbours.
        let verdict = self.space.check(bytes.saturating_mul(3));
        match verdict.map_err(|error| StorageError::Io(error.to_string()))? {
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

    /// Waits while the engine's own writers are behind, and sees them die meanwhile.
    fn wait_for_engine(&self) -> Result<(), StorageError> {
        let is_behind =
            || self.tables.sealed_memtable_count() >= SEALED_MAX || self.tables.l0_table_count() >= UNMERGED_MAX;
        if !is_behind() {
            return Ok(());
        }
        let begin = Instant::now();
        while is_behind() {
            self.check_engine()?;
            if begin.elapsed() > BEHIND_MAX {
                return Err(StorageError::Io("the disk does not keep up with metadata".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Notices a failure of the engine's background writers.
    fn check_engine(&self) -> Result<(), StorageError> {
        self.database.persist(PersistMode::Buffer).map_err(|error| self.poisoned("write in the background", &error))
    }

    /// Makes all that is committed durable and returns the last batch of it.
    fn sync_all(&self) -> Result<u64, StorageError> {
        self.check()?;
        let mut sync = self.sync_state();
        self.write_gathered()?;
        let reached = *self.chain();
        self.sync_journal(&mut sync).map_err(|error| self.poisoned("sync", &error))?;
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
    fn sync_journal(&self, sync: &mut SyncState) -> std::io::Result<()> {
        loop {
            match File::open(journal_path(&self.engine_path, sync.journal_id + 1)) {
                Ok(file) => {
                    sync.journal = file;
                    sync.journal_id += 1;
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            // The engine removes journals oldest first. If ours is gone, the next may be gone too,
            // and its absence says nothing about the ones after it.
            if journal_path(&self.engine_path, sync.journal_id).exists() {
                return sync.journal.sync_data();
            }
            let newest = newest_journal(&self.engine_path)?;
            (sync.journal_id, sync.journal) = newest;
        }
    }
}

impl SyncBackend for Shared {
    fn sync_to(&self, ticket: Ticket) -> Result<Ticket, StorageError> {
        self.check()?;
        let target = ticket.min(self.gathering().accepted());
        self.group.wait(target.0, || self.sync_all()).map(Ticket)
    }

    fn write(&self) -> Result<(), StorageError> {
        self.write_gathered()
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

fn stored_key(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(1 + key.len());
    stored.push(TABLE_PREFIX);
    stored.extend_from_slice(key);
    stored
}

/// Refuses what the engine's journal could not take.
fn check_lengths(batch: &Batch) -> Result<(), StorageError> {
    for (key, value) in &batch.changes {
        let len = value.as_ref().map_or(0, Vec::len);
        if key.len() > KEY_MAX || len > VALUE_MAX {
            return Err(StorageError::Io(format!("a key of {} and a value of {len} bytes are too long", key.len())));
        }
    }
    Ok(())
}

fn pair(guard: fjall::Guard) -> Result<(Vec<u8>, Vec<u8>), StorageError> {
    let (key, sealed) = guard.into_inner().map_err(read_error)?;
    let value = checked_value::open(&key, &sealed)?;
    Ok((key.get(1..).unwrap_or_default().to_vec(), value.to_vec()))
}

/// A read that fails in the engine met damage or a failing disk; the store itself goes on.
pub(crate) fn read_error(error: fjall::Error) -> StorageError {
    match error {
        fjall::Error::Io(error) if is_no_space(&error) => StorageError::NoSpace,
        fjall::Error::Io(error) => StorageError::Io(error.to_string()),
        other => StorageError::Corrupt(other.to_string()),
    }
}

fn journal_path(engine: &Path, id: u64) -> PathBuf {
    engine.join(format!("{id}.jnl"))
}

fn newest_journal(engine: &Path) -> std::io::Result<(u64, File)> {
    let mut newest = None;
    for entry in std::fs::read_dir(engine)? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".jnl")).and_then(|id| id.parse().ok());
        newest = newest.max(id);
    }
    let id = newest.ok_or_else(|| std::io::Error::other("there is no journal"))?;
    Ok((id, File::open(journal_path(engine, id))?))
}

/// Removes an engine directory whose making was cut short: the engine cannot take it up again.
fn discard_half_made(engine: &Path, promised: Option<Chain>) -> Result<(), OpenError> {
    let exists = engine.exists();
    let is_made = engine.join("version").metadata().is_ok_and(|version| version.len() > 0);
    if !exists || is_made {
        return Ok(());
    }
    if let Some(chain) = promised.filter(|chain| chain.ticket > Ticket(0)) {
        return Err(OpenError::LostBatches { durable: chain.ticket, found: Ticket(0) });
    }
    std::fs::remove_dir_all(engine).map_err(OpenError::io("remove half-made", engine))
}

fn accepted_before(path: &Path) -> Ticket {
    let note = std::fs::read_to_string(path).unwrap_or_default();
    Ticket(note.trim().parse().unwrap_or(0))
}

fn open_engine(
    path: &Path,
    config: MetaConfig,
    inspection: &Inspection,
    promised: Option<Chain>,
) -> Result<(Database, Keyspace), OpenError> {
    let build = || {
        Database::builder(path)
            .cache_size(config.cache_bytes)
            .journal_compression(fjall::CompressionType::None)
            // With a second worker the engine's first one spins for as long as the second merges tables.
            .worker_threads(1)
            .open()
    };
    let database = match build() {
        // The last batch can be torn in the one field that only the engine can check. If nobody was
        // told that the batch is durable, it goes the way of every half-written batch.
        Err(fjall::Error::JournalRecovery(error)) => {
            let promised = promised.unwrap_or_default().ticket;
            match (&inspection.last_begins, inspection.last) {
                (Some((journal, begins)), Some(last)) if last.ticket > promised => {
                    cut(journal, *begins)?;
                    build()?
                }
                _ => return Err(fjall::Error::JournalRecovery(error).into()),
            }
        }
        other => other?,
    };
    let options = || KeyspaceCreateOptions::default().max_memtable_size(config.memtable_bytes);
    let tables = database.keyspace("tables", options)?;
    Ok((database, tables))
}

fn read_chain(tables: &Keyspace) -> Result<Chain, OpenError> {
    match tables.get(CHAIN_KEY)? {
        None => Ok(Chain::default()),
        Some(bytes) => {
            Chain::decode(&bytes).ok_or_else(|| OpenError::Damaged("its chain record does not decode".to_owned()))
        }
    }
}

/// What is missing of what was promised.
fn loss(inspection: &Inspection, promised: Option<Chain>, found: Chain) -> Option<OpenError> {
    if let Some(promised) = promised {
        if promised.ticket > found.ticket {
            return Some(OpenError::LostBatches { durable: promised.ticket, found: found.ticket });
        }
        if promised.ticket == found.ticket && promised != found {
            return Some(OpenError::Damaged(format!("batch {} is not the one that was written", found.ticket)));
        }
    }
    if let Some(damage) = &inspection.damage {
        return Some(OpenError::Damaged(damage.clone()));
    }
    // A torn engine checksum may have cost the one batch that `open_engine` cut.
    let seen = inspection.last.unwrap_or_default().ticket.0;
    let is_short = seen > found.ticket.0.saturating_add(1);
    is_short.then(|| OpenError::Damaged(format!("journals reach batch {seen}, tables batch {}", found.ticket)))
}
