//! Tables on disk: a [`crate::log`] of our own under an [`crate::index`], a log-structured merge tree that has none.
//!
//! ```text
//!   commit ──▶ gathering ──▶ log ──▶ index, in memory ──checkpoint──▶ tables; the log is shortened
//!                            └─sync─▶ durable
//! ```
//!
//! Each value has a checksum, and each batch a place in the [`crate::chain`], which shows where the store ends. Room is
//! kept free so that no write fails in the middle, and a sync does not hold up commits.

use crate::chain::END_PREFIX;
use crate::checked_value;
use crate::checkpoints::{Checkpointer, Checkpoints};
use crate::directory::DataDir;
use crate::disk_opening::{OnLoss, Opened};
use crate::disk_writing::{Pressure, Shared};
use crate::error::OpenError;
use crate::gathering::{Direction, Gathering};
use crate::meta_config::{MetaConfig, MetaReport};
use crate::snapshot::MetaSnapshot;
use crate::stored::{pair, read_error, stored_key};
use crate::syncer::{SyncBackend, Syncer};
use std::sync::Arc;
use wayfs_types::{Batch, MetaStore, Pairs, StorageError, Ticket};

/// Longest key, in bytes.
const KEY_MAX: usize = 4096;
/// Longest value, in bytes.
const VALUE_MAX: usize = 64 << 20;

/// Tables on disk.
pub struct DiskMetaStore {
    shared: Arc<Shared>,
    report: MetaReport,
}

impl DiskMetaStore {
    /// Opens the metadata of a data directory, making it if it is not there.
    ///
    /// # Errors
    /// [`OpenError::LostBatches`] and [`OpenError::Damaged`] when what was durable is not all
    /// there; [`OpenError::Engine`] and [`OpenError::Io`].
    pub fn open(directory: &DataDir, config: MetaConfig) -> Result<Self, OpenError> {
        Self::open_with(directory, config, OnLoss::Refuse)
    }

    /// As [`DiskMetaStore::open`], but goes on with what is left after a loss.
    ///
    /// The report says what was accepted. Only a person should decide this.
    ///
    /// # Errors
    /// [`OpenError::Engine`] and [`OpenError::Io`].
    pub fn open_accepting_loss(directory: &DataDir, config: MetaConfig) -> Result<Self, OpenError> {
        Self::open_with(directory, config, OnLoss::Accept)
    }

    fn open_with(directory: &DataDir, config: MetaConfig, on_loss: OnLoss) -> Result<Self, OpenError> {
        let opened = Opened::open(directory, config, on_loss)?;
        let report = opened.report.clone();
        Ok(Self { shared: Arc::new(Shared::start(opened, config, directory)?), report })
    }

    /// As [`DiskMetaStore::open`], but without a thread for the checkpoints: the caller does them step by step. For the
    /// simulator and for tests.
    ///
    /// # Errors
    /// As for [`DiskMetaStore::open`].
    pub fn open_by_hand(directory: &DataDir, config: MetaConfig) -> Result<(Self, Checkpoints), OpenError> {
        let Opened { tables, marker, report } = Opened::open(directory, config, OnLoss::Refuse)?;
        let tables = Arc::new(tables);
        let checkpoints = Checkpoints::new(Arc::clone(&tables));
        let shared = Shared::with(tables, marker, Checkpointer::by_hand(), (config, directory));
        Ok((Self { shared: Arc::new(shared), report }, checkpoints))
    }

    /// What the open found.
    pub fn report(&self) -> &MetaReport {
        &self.report
    }

    /// The tables as the last synced batch, or a later one, left them.
    #[must_use]
    pub fn snapshot(&self) -> MetaSnapshot {
        MetaSnapshot::new(&self.shared.tables.index)
    }

    /// The syncing half.
    pub fn syncer(&self) -> Syncer {
        Syncer::new(Arc::clone(&self.shared) as Arc<dyn SyncBackend>)
    }

    /// How far the disk is behind.
    pub fn pressure(&self) -> Pressure {
        self.shared.gathered.clone()
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
        let tables = &self.shared.tables;
        Ok(tables.index.disk_bytes() + tables.tail().log.disk_bytes())
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
        let stored = self.shared.tables.index.range(start..end);
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

impl std::fmt::Debug for DiskMetaStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskMetaStore(batch {})", self.committed())
    }
}

impl MetaStore for DiskMetaStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.shared.check()?;
        if let Some(gathered) = self.shared.gathering().get(key) {
            return Ok(gathered);
        }
        let key = stored_key(key);
        let sealed = self.shared.tables.index.get(&key).map_err(read_error)?;
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
        let bytes = batch.changes.iter().map(cost).sum();
        shared.accept(batch, bytes)
    }
}

/// Refuses what the log could not take.
fn check_lengths(batch: &Batch) -> Result<(), StorageError> {
    for (key, value) in &batch.changes {
        let len = value.as_ref().map_or(0, Vec::len);
        if key.len() > KEY_MAX || len > VALUE_MAX {
            return Err(StorageError::Io(format!("a key of {} and a value of {len} bytes are too long", key.len())));
        }
    }
    Ok(())
}
