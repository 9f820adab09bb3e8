//! A simulated disk: what was written, and what would survive a crash.
//!
//! Records (batches of table rows) and chunks are written apart, as by the live
//! stores: each has a queue of what is not durable yet, a sync takes the queues
//! up to where they stood when it began, and a crash keeps any prefix of each.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;
use wayfs_types::{Batch, Digest, MetaStore, Pairs, StorageError, Ticket};

/// Longest sync of a disk at rest.
pub(crate) const SYNC_MAX: Duration = Duration::from_millis(8);

/// Where a host has pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// On its disk or on the way there.
    Here,
    /// Where a power cut takes nothing.
    Durably,
}

/// What a read of a chunk would find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// The bytes that its name says.
    Sound,
    /// Other bytes: its check fails.
    Damaged,
}

/// A write to the chunk store: put, or (`None`) removed.
type ChunkWrite = (Digest, Option<Chunk>);

/// How far the writes of a disk had come when a sync began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyncPoint {
    /// Newest batch.
    pub(crate) ticket: Ticket,
    /// Chunk writes since the disk was made.
    pub(crate) chunk_writes: u64,
}

/// What a crash leaves of the writes that were not durable: so many of the oldest of each kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Survivors {
    pub(crate) batches: usize,
    pub(crate) chunk_writes: usize,
}

/// Tables and chunks of one machine, live and durable.
#[derive(Default, Clone)]
pub(crate) struct Disk {
    live: BTreeMap<Vec<u8>, Vec<u8>>,
    durable: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Batches that are not durable, each with the number of chunk writes before it.
    unsynced: VecDeque<(Ticket, Batch, u64)>,
    newest: Ticket,
    chunks: BTreeMap<Digest, Chunk>,
    chunks_durable: BTreeMap<Digest, Chunk>,
    chunks_unsynced: VecDeque<ChunkWrite>,
    /// Chunk writes since the disk was made, durable or not.
    chunk_writes: u64,
    /// Nothing more fits.
    pub(crate) is_full: bool,
}

impl Disk {
    /// Where a sync that begins at this moment will have come.
    pub(crate) const fn sync_point(&self) -> SyncPoint {
        SyncPoint { ticket: self.newest, chunk_writes: self.chunk_writes }
    }

    /// Makes batches durable up to a ticket.
    pub(crate) fn sync_records(&mut self, ticket: Ticket) {
        while self.unsynced.front().is_some_and(|(batch, ..)| *batch <= ticket) {
            self.write_batch();
        }
    }

    /// Makes chunk writes durable up to where a sync began.
    pub(crate) fn sync_chunks(&mut self, through: u64) {
        while !self.chunks_unsynced.is_empty() && self.chunk_writes_durable() < through {
            self.write_chunk();
        }
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self) {
        self.sync_chunks(u64::MAX);
        self.sync_records(Ticket(u64::MAX));
    }

    fn chunk_writes_durable(&self) -> u64 {
        self.chunk_writes - self.chunks_unsynced.len() as u64
    }

    fn write_batch(&mut self) {
        if let Some((_, batch, _)) = self.unsynced.pop_front() {
            apply(&mut self.durable, &batch);
        }
    }

    fn write_chunk(&mut self) {
        match self.chunks_unsynced.pop_front() {
            Some((digest, Some(chunk))) => self.chunks_durable.insert(digest, chunk),
            Some((digest, None)) => self.chunks_durable.remove(&digest),
            None => None,
        };
    }

    /// Loses what was not durable but for the survivors.
    pub(crate) fn crash(&mut self, survivors: Survivors) {
        for _ in 0..survivors.batches {
            self.write_batch();
        }
        for _ in 0..survivors.chunk_writes {
            self.write_chunk();
        }
        self.chunk_writes = self.chunk_writes_durable();
        self.chunks_unsynced.clear();
        self.unsynced.clear();
        self.live = self.durable.clone();
        self.chunks = self.chunks_durable.clone();
    }

    /// Batches and chunk writes that a crash may lose.
    pub(crate) fn at_risk(&self) -> Survivors {
        Survivors { batches: self.unsynced.len(), chunk_writes: self.chunks_unsynced.len() }
    }

    /// What a crash leaves that keeps so many batches: the chunk writes before them, too.
    pub(crate) fn survivors(&self, kept: usize) -> Survivors {
        let risk = self.at_risk();
        let batches = kept.min(risk.batches);
        Survivors { batches, chunk_writes: self.chunk_writes_before(batches).min(risk.chunk_writes) }
    }

    /// Chunk writes not durable that came before the first so many batches not durable.
    pub(crate) fn chunk_writes_before(&self, batches: usize) -> usize {
        let last = batches.checked_sub(1).and_then(|last| self.unsynced.get(last));
        let through = last.map_or(0, |(_, _, chunk_writes)| *chunk_writes);
        usize::try_from(through.saturating_sub(self.chunk_writes_durable())).unwrap_or(usize::MAX)
    }

    /// Keeps a chunk, not yet durably. Whether there was room.
    pub(crate) fn put_chunk(&mut self, digest: Digest) -> bool {
        if self.chunks.get(&digest) == Some(&Chunk::Sound) {
            return true;
        }
        if self.is_full {
            return false;
        }
        self.write(digest, Some(Chunk::Sound));
        true
    }

    /// Takes a chunk away, not yet durably.
    pub(crate) fn remove_chunk(&mut self, digest: Digest) {
        if self.chunks.contains_key(&digest) {
            self.write(digest, None);
        }
    }

    fn write(&mut self, digest: Digest, chunk: Option<Chunk>) {
        self.chunk_writes += 1;
        self.chunks_unsynced.push_back((digest, chunk));
        match chunk {
            Some(chunk) => self.chunks.insert(digest, chunk),
            None => self.chunks.remove(&digest),
        };
    }

    /// Flips a bit of a chunk, on the disk and in what is read of it. A chunk that is not durable is in memory still.
    pub(crate) fn damage(&mut self, digest: Digest) {
        if let Some(chunk) = self.chunks_durable.get_mut(&digest) {
            *chunk = Chunk::Damaged;
            self.chunks.entry(digest).and_modify(|chunk| *chunk = Chunk::Damaged);
        }
    }

    /// Whether the index names a chunk, sound or not.
    pub(crate) fn has_chunk(&self, digest: Digest) -> bool {
        self.chunks.contains_key(&digest)
    }

    /// Reads a chunk.
    pub(crate) fn read_chunk(&self, digest: Digest) -> Option<Chunk> {
        self.chunks.get(&digest).copied()
    }

    /// Whether a chunk would be read well after a crash at this moment.
    pub(crate) fn is_chunk_durable(&self, digest: Digest) -> bool {
        self.chunks_durable.get(&digest) == Some(&Chunk::Sound)
    }

    /// A chunk is gone, from the disk and from what is read of it.
    pub(crate) fn lose(&mut self, digest: Digest) {
        self.chunks_durable.remove(&digest);
        self.chunks.remove(&digest);
    }

    /// The disk as it would be found after a power cut at this moment that loses all it can.
    pub(crate) fn durable_copy(&self) -> Self {
        let mut copy = self.clone();
        copy.crash(Survivors { batches: 0, chunk_writes: 0 });
        copy.is_full = false;
        copy
    }

    /// The records of it alone.
    pub(crate) fn durable_records(&self) -> Self {
        Self { live: self.durable.clone(), durable: self.durable.clone(), ..Self::default() }
    }

    /// Names of the chunks that would be read well.
    pub(crate) fn sound_chunk_names(&self) -> BTreeSet<Digest> {
        self.chunks.iter().filter(|(_, chunk)| **chunk == Chunk::Sound).map(|(digest, _)| *digest).collect()
    }

    /// Whether a chunk is here and would be read well.
    pub(crate) fn has_sound(&self, digest: Digest) -> bool {
        self.chunks.get(&digest) == Some(&Chunk::Sound)
    }

    /// Whether a piece is sound where it is asked for.
    pub(crate) fn keeps(&self, digest: Digest, kept: Kept) -> bool {
        match kept {
            Kept::Here => self.has_sound(digest),
            Kept::Durably => self.is_chunk_durable(digest),
        }
    }

    /// The last batch that a crash does not take.
    pub(crate) fn records_durable(&self) -> Ticket {
        self.unsynced.front().map_or(self.newest, |(first, ..)| Ticket(first.0.saturating_sub(1)))
    }

    /// Whether these bytes stand in a row that a power cut would leave.
    pub(crate) fn has_bytes(&self, bytes: &[u8]) -> bool {
        let Some(first) = bytes.first() else { return true };
        self.durable.values().any(|value| {
            let starts = value.iter().enumerate().filter(|(_, byte)| *byte == first);
            starts.map(|(at, _)| &value[at..]).any(|rest| rest.starts_with(bytes))
        })
    }

    /// Names of all chunks.
    pub(crate) fn chunk_names(&self) -> Vec<Digest> {
        self.chunks.keys().copied().collect()
    }

    /// Names of all durable chunks.
    pub(crate) fn durable_chunk_names(&self) -> Vec<Digest> {
        self.chunks_durable.keys().copied().collect()
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk of {} rows and {} chunks", self.live.len(), self.chunks.len())
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
        if disk.is_full {
            return Err(StorageError::NoSpace);
        }
        disk.newest = Ticket(disk.newest.0 + 1);
        let ticket = disk.newest;
        apply(&mut disk.live, &batch);
        let chunk_writes = disk.chunk_writes;
        disk.unsynced.push_back((ticket, batch, chunk_writes));
        Ok(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: u8) -> Digest {
        Digest::from_bytes([number; 32])
    }

    fn commit(disk: &mut DiskHandle, key: u8) -> Ticket {
        let mut batch = Batch::default();
        batch.put(vec![key], vec![key]);
        disk.commit(batch).unwrap()
    }

    #[test]
    fn a_sync_covers_what_was_there_when_it_began() {
        let mut handle = DiskHandle::default();
        handle.0.borrow_mut().put_chunk(chunk(1));
        commit(&mut handle, 1);
        let began = handle.0.borrow().sync_point();
        handle.0.borrow_mut().put_chunk(chunk(2));
        commit(&mut handle, 2);
        let mut disk = handle.0.borrow_mut();
        disk.sync_chunks(began.chunk_writes);
        disk.sync_records(began.ticket);
        disk.crash(Survivors { batches: 0, chunk_writes: 0 });
        assert!(disk.has_chunk(chunk(1)) && !disk.has_chunk(chunk(2)));
        assert!(disk.live.contains_key([1].as_slice()) && !disk.live.contains_key([2].as_slice()));
    }

    #[test]
    fn a_crash_keeps_any_prefix_of_each_kind_of_write() {
        let mut handle = DiskHandle::default();
        for number in 1..=3 {
            handle.0.borrow_mut().put_chunk(chunk(number));
            commit(&mut handle, number);
        }
        let mut disk = handle.0.borrow_mut();
        assert_eq!(disk.chunk_writes_before(2), 2);
        disk.crash(Survivors { batches: 3, chunk_writes: 1 });
        assert_eq!(disk.live.len(), 3);
        assert_eq!(disk.chunk_names(), [chunk(1)]);
    }

    #[test]
    fn a_removed_chunk_comes_back_in_a_crash_before_the_sync() {
        let mut disk = Disk::default();
        disk.put_chunk(chunk(1));
        disk.sync_all();
        disk.remove_chunk(chunk(1));
        assert!(!disk.has_chunk(chunk(1)));
        disk.crash(Survivors { batches: 0, chunk_writes: 0 });
        assert!(disk.has_chunk(chunk(1)));
    }
}
