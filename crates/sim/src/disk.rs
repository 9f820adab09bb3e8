//! A simulated disk: what was written, and what would survive a crash.
//!
//! Records (batches of table rows) and chunks are written apart, as by the live
//! stores: each has a queue of what is not durable yet, a sync takes the queues
//! up to where they stood when it began, and a crash keeps any prefix of each.
//! In a part of the seeds the stores that ship run beside it, and say what is left ([`crate::stores`]).

use crate::stores::{End, Put, Stores, Synced};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;
use wayfs_disk::faulty::Room;
use wayfs_store::DiskMetaStore;
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
    is_full: bool,
    /// The stores that ship, given the same.
    stores: Option<Box<Stores>>,
}

/// What a crash left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    /// Batches that were not durable, and are there.
    pub(crate) batches: usize,
    /// Some of these name chunks that were put before, and are not there.
    pub(crate) is_torn: bool,
}

impl Disk {
    /// Puts the stores that ship under an empty disk.
    pub(crate) fn put_stores_under(&mut self, stores: Stores) {
        self.stores = Some(Box::new(stores));
    }

    pub(crate) fn stores(&mut self) -> Option<&mut Stores> {
        self.stores.as_deref_mut()
    }

    /// Whether its power failed, so that nothing more can become durable.
    pub(crate) fn is_off(&self) -> bool {
        self.stores.as_ref().is_some_and(|stores| stores.is_off())
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Nothing goes wrong with it from here on.
    pub(crate) fn heal(&mut self) {
        self.set_room(Room::Plenty);
        if let Some(stores) = &self.stores {
            stores.disarm();
        }
    }

    pub(crate) fn set_room(&mut self, room: Room) {
        self.is_full = room == Room::None;
        if let Some(stores) = &mut self.stores {
            stores.set_room(room);
        }
    }

    /// A sync of records begins, and says where it will have come.
    pub(crate) fn begin_sync(&mut self) -> SyncPoint {
        if let Some(stores) = &mut self.stores {
            stores.begin_sync();
        }
        self.sync_point()
    }

    /// Where a sync that begins at this moment will have come.
    pub(crate) const fn sync_point(&self) -> SyncPoint {
        SyncPoint { ticket: self.newest, chunk_writes: self.chunk_writes }
    }

    /// Makes batches durable up to a ticket at least.
    pub(crate) fn sync_records(&mut self, ticket: Ticket) -> Synced {
        let synced = match &mut self.stores {
            Some(stores) => stores.sync_records(ticket),
            None => Synced::Through(ticket),
        };
        if let Synced::Through(last) = synced {
            self.write_batches(last);
        }
        synced
    }

    fn write_batches(&mut self, ticket: Ticket) {
        while self.unsynced.front().is_some_and(|(batch, ..)| *batch <= ticket) {
            self.write_batch();
        }
    }

    /// Makes chunk writes durable up to where a sync began, at least. Whether they are.
    pub(crate) fn sync_chunks(&mut self, through: u64) -> bool {
        match self.stores.as_mut().map(|stores| stores.sync_chunks()) {
            Some(false) => return false,
            Some(true) => self.write_chunks(u64::MAX),
            None => self.write_chunks(through),
        }
        true
    }

    fn write_chunks(&mut self, through: u64) {
        while !self.chunks_unsynced.is_empty() && self.chunk_writes_durable() < through {
            self.write_chunk();
        }
    }

    /// Makes everything durable. Whether it is.
    pub(crate) fn sync_all(&mut self) -> bool {
        self.sync_chunks(u64::MAX) && matches!(self.sync_records(self.newest), Synced::Through(_))
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
        self.forget_unsynced();
        self.chunks = self.chunks_durable.clone();
    }

    /// Ends the process above the stores that ship, and goes on with what these have. `None`: there are none.
    pub(crate) fn crash_stores(&mut self, end: End) -> Option<Left> {
        self.stores.as_mut()?.crash(end);
        self.adopt()
    }

    /// Takes what the stores have, after they were opened, for what there is.
    fn adopt(&mut self) -> Option<Left> {
        let stores = self.stores.as_mut()?;
        let batches = self.unsynced.iter().take_while(|(ticket, ..)| stores.survived(*ticket)).count();
        let before = self.chunk_writes_before(batches);
        let removals = self.chunks_unsynced.iter().filter(|(_, write)| write.is_none());
        let removed: BTreeSet<Digest> = removals.map(|(digest, _)| *digest).collect();
        let is_durable =
            |digest: &Digest| self.chunks_durable.get(digest) == Some(&Chunk::Sound) && !removed.contains(digest);
        let stores = self.stores.as_mut()?;
        let chunks = stores.chunks(|digest| is_durable(&digest));
        let missing = self.chunks_durable.keys().find(|digest| is_durable(digest) && !chunks.contains_key(digest));
        if let Some(missing) = missing {
            stores.fail(format!("chunk {missing} was durable, and is not there after a crash"));
        }
        if let Some(stranger) = stores.strangers().first() {
            stores.fail(format!("chunk {stranger} is there, and nobody put it"));
        }
        let named: BTreeMap<Digest, Option<Chunk>> = self.chunks_unsynced.iter().take(before).copied().collect();
        let is_torn = named.iter().any(|(digest, write)| write.is_some() && !chunks.contains_key(digest));
        (0..batches).for_each(|_| self.write_batch());
        self.forget_unsynced();
        self.chunks.clone_from(&chunks);
        self.chunks_durable = chunks;
        self.compare_rows();
        Some(Left { batches, is_torn })
    }

    fn forget_unsynced(&mut self) {
        self.chunk_writes = self.chunk_writes_durable();
        self.chunks_unsynced.clear();
        self.unsynced.clear();
        self.live = self.durable.clone();
    }

    fn compare_rows(&mut self) {
        let Some(stores) = self.stores.as_mut() else { return };
        stores.forget_tickets();
        let rows = match stores.rows() {
            Some(Ok(rows)) => rows,
            Some(Err(error)) => return stores.fail(format!("rows do not read after a crash: {error}")),
            None => return,
        };
        let differing = self.live.iter().zip(&rows).find(|(ours, theirs)| **ours.0 != theirs.0 || *ours.1 != theirs.1);
        if rows.len() != self.live.len() || differing.is_some() {
            let first = differing.map(|(ours, _)| ours.0.clone());
            let line = format!("{} rows after a crash, and {} were durable; {first:?}", rows.len(), self.live.len());
            stores.fail(line);
        }
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
        match self.stores.as_mut().map_or(Put::Written, |stores| stores.put(digest)) {
            Put::Written => self.write(digest, Some(Chunk::Sound)),
            // It is damaged, and nobody has noticed yet.
            Put::Present if self.has_chunk(digest) => {}
            Put::Present => self.fail(format!("chunk {digest} is there, and was removed")),
            Put::Refused => return false,
        }
        true
    }

    fn fail(&mut self, fault: String) {
        if let Some(stores) = &mut self.stores {
            stores.fail(fault);
        }
    }

    /// Takes a chunk away, not yet durably.
    pub(crate) fn remove_chunk(&mut self, digest: Digest) {
        if self.chunks.contains_key(&digest) {
            if let Some(stores) = &mut self.stores {
                stores.remove(digest);
            }
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
        // Of one that was removed, or put again, what is on the disk need not be what is read.
        let is_settled = self.stores.is_none() || !self.chunks_unsynced.iter().any(|(written, _)| *written == digest);
        if let Some(chunk) = self.chunks_durable.get_mut(&digest).filter(|_| is_settled) {
            let was_sound = std::mem::replace(chunk, Chunk::Damaged) == Chunk::Sound;
            let stores = self.stores.as_mut().filter(|_| was_sound);
            if stores.is_some_and(|stores| !stores.damage(digest)) {
                self.fail(format!("chunk {digest} is said to be durable, and is not on the disk"));
            }
            self.chunks.entry(digest).and_modify(|chunk| *chunk = Chunk::Damaged);
        }
    }

    /// Whether the index names a chunk, sound or not.
    pub(crate) fn has_chunk(&self, digest: Digest) -> bool {
        self.chunks.contains_key(&digest)
    }

    /// Reads a chunk.
    pub(crate) fn read_chunk(&mut self, digest: Digest) -> Option<Chunk> {
        let chunk = self.chunks.get(&digest).copied();
        let read = self.stores.as_mut().and_then(|stores| stores.read(digest));
        // One that was found damaged before is not there any more.
        let is_same = |read: Option<Chunk>| read == chunk || chunk == Some(Chunk::Damaged) && read.is_none();
        if let Some(read) = read.filter(|read| !is_same(*read)) {
            self.fail(format!("chunk {digest} is {read:?}, and should be {chunk:?}"));
        }
        chunk
    }

    /// Whether a chunk would be read well after a crash at this moment.
    pub(crate) fn is_chunk_durable(&self, digest: Digest) -> bool {
        self.chunks_durable.get(&digest) == Some(&Chunk::Sound)
    }

    /// A chunk is gone, from the disk and from what is read of it.
    pub(crate) fn lose(&mut self, digest: Digest) {
        if let Some(stores) = &mut self.stores {
            stores.remove(digest);
        }
        self.chunks_durable.remove(&digest);
        self.chunks.remove(&digest);
    }

    /// The disk as it would be found after a power cut at this moment that loses all it can.
    pub(crate) fn durable_copy(&self) -> Self {
        let mut copy = self.clone();
        if copy.adopt().is_none() {
            copy.crash(Survivors { batches: 0, chunk_writes: 0 });
        }
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

impl DiskHandle {
    /// What is read of the stores that ship is the same.
    fn compare<T: PartialEq + fmt::Debug>(
        &self,
        ours: &T,
        read: impl FnOnce(&DiskMetaStore) -> Result<T, StorageError>,
    ) {
        let theirs = self.0.borrow().stores.as_ref().and_then(|stores| Some(read(stores.tables()?)));
        if let Some(theirs) = theirs.filter(|theirs| theirs.as_ref() != Ok(ours)) {
            self.0.borrow_mut().fail(format!("read {theirs:?}, and should be {ours:?}"));
        }
    }
}

fn range<'a>(from: &'a [u8], until: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let upper = if until.is_empty() { Bound::Unbounded } else { Bound::Excluded(until) };
    (Bound::Included(from), upper)
}

fn owned((key, value): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), value.clone())
}

impl MetaStore for DiskHandle {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        let value = self.0.borrow().live.get(key).cloned();
        self.compare(&value, |tables| tables.get(key));
        Ok(value)
    }

    fn scan(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        if !until.is_empty() && from >= until {
            return Ok(Pairs::new());
        }
        let pairs = self.0.borrow().live.range::<[u8], _>(range(from, until)).take(limit).map(owned).collect();
        self.compare(&pairs, |tables| tables.scan(from, until, limit));
        Ok(pairs)
    }

    fn scan_back(&self, from: &[u8], until: &[u8], limit: usize) -> Result<Pairs, StorageError> {
        if !until.is_empty() && from >= until {
            return Ok(Pairs::new());
        }
        let pairs = self.0.borrow().live.range::<[u8], _>(range(from, until)).rev().take(limit).map(owned).collect();
        self.compare(&pairs, |tables| tables.scan_back(from, until, limit));
        Ok(pairs)
    }

    fn commit(&mut self, batch: Batch) -> Result<Ticket, StorageError> {
        let mut disk = self.0.borrow_mut();
        if disk.is_full {
            return Err(StorageError::NoSpace);
        }
        disk.newest = Ticket(disk.newest.0 + 1);
        let ticket = disk.newest;
        if let Some(stores) = &mut disk.stores {
            stores.commit(ticket, &batch)?;
        }
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
