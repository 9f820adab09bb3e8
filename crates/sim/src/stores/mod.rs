//! The stores that ship, under a simulated disk: log, checkpoints, chunks, and their syncs, on a disk that loses power at any
//! write, tears, rots and fills.
//!
//! ```text
//!   engine ──▶ Disk, the model ──the same──▶ Stores ──▶ FaultyDisk
//!                 ▲                             │
//!                 └── after a crash: what is left ── opened again
//! ```
//!
//! [`crate::disk::Disk`] stays the reference: each read of the engine must say the same in both, and after a crash the stores
//! must have all that was durable, no part of a batch, no batch without those before it, and no chunk that nobody put.
//! Tables of the index are files of the system, in a directory of their own: no step of ours falls into their writes.

mod alone;
mod crashing;
mod harm;
mod opened;
mod plan;

pub use plan::StoresPlan;

use crate::disk::Chunk;
use opened::Opened;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use tempfile::TempDir;
use wayfs_disk::faulty::{Cut, FaultyDisk, Position, Room};
use wayfs_store::{ChunkError, DiskMetaStore, MetaSnapshot, Stored, Syncer};
use wayfs_types::{Batch, Digest, MetaStore, Pairs, StorageError, Ticket};

/// Most steps after which a power cut that was planned comes.
const STEPS_MAX: u64 = 20;
/// Chance that the power fails again while the stores are opened after a cut.
const FAILS_AGAIN: f64 = 0.2;
/// Most times that it does.
const FAILS_AGAIN_MAX: usize = 3;
/// Chance that it is looked what an open says of a log that was harmed.
const HARMED: f64 = 0.3;

/// A row that a snapshot shows.
type Row = Result<(Vec<u8>, Vec<u8>), StorageError>;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is killed: what it wrote is with the system.
    Killed,
    /// The machine loses power.
    PowerCut,
}

/// What came of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Synced {
    /// Commits up to this one are durable.
    Through(Ticket),
    /// Not now: there is no room.
    Later,
    /// The power failed.
    Failed,
}

/// What came of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Written,
    /// The store says that it has the chunk, sound or not.
    Present,
    Refused,
}

/// The stores of a machine.
pub(crate) struct Stores {
    plan: StoresPlan,
    disk: FaultyDisk,
    /// Where the tables of the index are.
    scratch: TempDir,
    random: ChaCha8Rng,
    /// None once something is wrong.
    opened: Option<Opened>,
    /// Of each commit that is not known to be durable, its ticket and the one that the store gave.
    tickets: VecDeque<(Ticket, Ticket)>,
    /// What the sync that is under way froze.
    frozen: Option<Ticket>,
    /// Chunks by the names that they have in the store.
    names: BTreeMap<Digest, Digest>,
    /// Chunks of which a bit was flipped on the disk, ever.
    rotten: BTreeSet<Digest>,
    /// Chunks that were read and found damaged: the store has put them aside.
    noticed: BTreeSet<Digest>,
    /// A snapshot that is read later, and what it showed when it was taken.
    held: Option<(MetaSnapshot, Vec<Row>)>,
    fault: Option<String>,
    room: Room,
}

impl Stores {
    pub(crate) fn new(plan: StoresPlan, seed: u64) -> Self {
        let scratch = scratch();
        let disk = FaultyDisk::new(scratch.path(), seed);
        let random = ChaCha8Rng::seed_from_u64(seed);
        let (tickets, names) = (VecDeque::new(), BTreeMap::new());
        Self::start((plan, disk, scratch, random), (tickets, names), End::Killed)
    }

    fn start(
        (plan, disk, scratch, random): (StoresPlan, FaultyDisk, TempDir, ChaCha8Rng),
        (tickets, names): (VecDeque<(Ticket, Ticket)>, BTreeMap<Digest, Digest>),
        end: End,
    ) -> Self {
        let mut stores = Self {
            plan,
            disk,
            scratch,
            random,
            opened: None,
            tickets,
            frozen: None,
            names,
            rotten: BTreeSet::new(),
            noticed: BTreeSet::new(),
            held: None,
            fault: None,
            room: Room::Plenty,
        };
        stores.open(end);
        stores
    }

    /// What is wrong with them, once.
    pub(crate) fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    pub(crate) fn fail(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    /// Whether the power failed.
    pub(crate) fn is_off(&self) -> bool {
        self.disk.is_off()
    }

    /// Has the power fail within the next steps.
    pub(crate) fn plan_power_cut(&mut self) {
        let steps = self.random.random_range(1..=STEPS_MAX);
        self.disk.fail_after(steps);
    }

    /// No power cut that was planned comes.
    pub(crate) fn disarm(&self) {
        self.disk.disarm();
    }

    pub(crate) fn set_room(&mut self, room: Room) {
        self.room = room;
        self.disk.set_room(room);
    }

    /// A copy of what a power cut at this moment would leave that takes all it can.
    fn copy(&self) -> Self {
        let scratch = scratch();
        let mut random = self.random.clone();
        let seed = random.random();
        let disk = self.disk.cut_copy(scratch.path(), Cut::Nothing, seed);
        copy_tables(self.scratch.path(), scratch.path());
        let (plan, tickets, names) = (self.plan, self.tickets.clone(), self.names.clone());
        let mut copy = Self::start((plan, disk, scratch, random), (tickets, names), End::PowerCut);
        copy.rotten.clone_from(&self.rotten);
        copy
    }

    fn open(&mut self, end: End) {
        for tried in 0.. {
            if end == End::PowerCut && tried < FAILS_AGAIN_MAX && self.random.random_bool(FAILS_AGAIN) {
                self.plan_power_cut();
            }
            // A machine whose disk is full starts when there is room again.
            self.disk.set_room(Room::Plenty);
            let opened = Opened::open(&self.disk, self.scratch.path(), self.plan);
            self.disk.set_room(self.room);
            if !self.disk.is_off() {
                self.disk.disarm();
                match opened {
                    Ok(opened) => self.opened = Some(opened),
                    Err(error) => self.fail(format!("they do not open: {error}")),
                }
                return;
            }
            drop(opened);
            self.cut_power();
        }
    }

    fn cut_power(&mut self) {
        let cut = [Cut::Nothing, Cut::Ordered, Cut::Ordered, Cut::Scattered, Cut::Scattered];
        self.disk.cut(cut[self.random.random_range(0..cut.len())]);
    }

    /// Ends the process and opens what is left. What of the commits is there is found by [`Stores::survived`].
    pub(crate) fn crash(&mut self, end: End) {
        if !self.disk.is_off() && self.random.random_bool(HARMED) {
            self.check_harm();
        }
        // What still runs writes no more.
        self.disk.turn_off();
        (self.held, self.opened, self.frozen) = (None, None, None);
        self.noticed.clear();
        match end {
            End::Killed => self.disk.kill(),
            End::PowerCut => self.cut_power(),
        }
        self.open(end);
    }

    /// What is durable is there after harm to the log, or the open refuses. Tried on a copy.
    fn check_harm(&mut self) {
        let Some(opened) = &self.opened else { return };
        let durable = opened.syncer.durable();
        let harmed = scratch();
        let disk = self.disk.cut_copy(harmed.path(), Cut::Everything, self.random.random());
        copy_tables(self.scratch.path(), harmed.path());
        let Some(what) = harm::harm_log(&disk, &mut self.random) else { return };
        let Ok(opened) = Opened::open(&disk, harmed.path(), self.plan) else { return };
        let found = opened.meta.committed();
        if found < durable {
            self.fail(format!("{what}, and no open says that batches {} to {} are gone", found.0 + 1, durable.0));
        }
        if let Err(error) = opened.meta.scan(b"", b"", usize::MAX) {
            self.fail(format!("{what}, and no open says so: {error}"));
        }
    }

    /// Whether a commit is there that was not known to be durable.
    pub(crate) fn survived(&self, ticket: Ticket) -> bool {
        let found = self.opened.as_ref().map(|opened| opened.meta.committed());
        let own = self.tickets.iter().find(|(of, _)| *of == ticket).map(|(_, own)| *own);
        found.zip(own).is_some_and(|(found, own)| own <= found)
    }

    /// What is not there is forgotten, and what is there is durable.
    pub(crate) fn forget_tickets(&mut self) {
        self.tickets.clear();
    }

    /// All rows.
    pub(crate) fn rows(&self) -> Option<Result<Pairs, StorageError>> {
        Some(self.opened.as_ref()?.meta.scan(b"", b"", usize::MAX))
    }

    /// All chunks that are there and sound. Those that are not known to be are read.
    pub(crate) fn chunks(&mut self, is_known: impl Fn(Digest) -> bool) -> BTreeMap<Digest, Chunk> {
        let Some(opened) = &self.opened else { return BTreeMap::new() };
        let (mut chunks, mut torn) = (BTreeMap::new(), None);
        for (own, _) in opened.chunks.list(None, usize::MAX) {
            let Some(digest) = self.names.get(&own).copied() else { continue };
            if is_known(digest) || matches!(opened.chunks.get(&own), Ok(Some(_))) {
                chunks.insert(digest, Chunk::Sound);
            } else if !self.rotten.contains(&digest) {
                torn = Some(digest);
            }
        }
        if let Some(torn) = torn {
            self.fail(format!("an open takes chunk {torn} for whole, and it is not"));
        }
        chunks
    }

    /// Names in the store that nobody put there.
    pub(crate) fn strangers(&self) -> BTreeSet<Digest> {
        let all = self.opened.iter().flat_map(|opened| opened.chunks.list(None, usize::MAX));
        all.map(|(own, _)| own).filter(|own| !self.names.contains_key(own)).collect()
    }

    // What the engine and the world do.

    pub(crate) fn commit(&mut self, ticket: Ticket, batch: &Batch) -> Result<(), StorageError> {
        let Some(opened) = &mut self.opened else { return Ok(()) };
        let before = opened.meta.commits();
        match opened.meta.commit(batch.clone()) {
            Ok(own) => self.tickets.push_back((ticket, own)),
            Err(error @ (StorageError::NoSpace | StorageError::Busy(_))) => return Err(error),
            // The machine is gone; its engine does not know it yet. The commit may be on the disk all the same.
            Err(_) if self.disk.is_off() => {
                let is_accepted = opened.meta.commits() > before;
                let own = if is_accepted { opened.meta.committed() } else { Ticket(u64::MAX) };
                self.tickets.push_back((ticket, own));
            }
            Err(error) => self.fail(format!("a commit failed: {error}")),
        }
        self.tend();
        Ok(())
    }

    /// What the node and the store's own thread do between commits.
    fn tend(&mut self) {
        let Some(opened) = &mut self.opened else { return };
        let done = match self.random.random_range(0..16) {
            0..2 => match opened.syncer.write() {
                Ok(()) | Err(StorageError::NoSpace | StorageError::Busy(_)) => Ok(()),
                Err(error) => Err(format!("a write failed: {error}")),
            },
            2 => {
                opened.syncer.make_ready();
                Ok(())
            }
            3..9 => {
                opened.checkpoint_once();
                Ok(())
            }
            9 => match opened.chunks.compact() {
                Ok(_) | Err(ChunkError::NoSpace { .. }) => Ok(()),
                Err(error) => Err(format!("a compaction failed: {error}")),
            },
            10 => {
                self.look_at_snapshot();
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = done {
            self.fail_if_on(error);
        }
    }

    /// A snapshot shows for ever what it showed at first.
    fn look_at_snapshot(&mut self) {
        if self.disk.is_off() {
            return;
        }
        if let Some((snapshot, rows)) = self.held.take() {
            if snapshot.rows().collect::<Vec<Row>>() != rows {
                self.fail("a snapshot shows other rows than before".to_owned());
            }
        } else if let Some(opened) = &self.opened {
            let snapshot = opened.meta.snapshot();
            let rows = snapshot.rows().collect();
            self.held = Some((snapshot, rows));
        }
    }

    /// What fails without power is no fault.
    fn fail_if_on(&mut self, fault: String) {
        if !self.disk.is_off() {
            self.fail(fault);
        }
    }

    /// What ships while it runs and the power is on.
    fn running(&self) -> Option<&Opened> {
        self.opened.as_ref().filter(|_| !self.disk.is_off())
    }

    /// The tables, to be read; `None` when the power is off.
    pub(crate) fn tables(&self) -> Option<&DiskMetaStore> {
        self.running().map(|opened| &opened.meta)
    }

    /// A sync begins: it is about what was committed so far. One that is under way already is not about more than before.
    pub(crate) fn begin_sync(&mut self) {
        let syncer = self.opened.as_ref().map(|opened| &opened.syncer);
        if self.frozen.is_none() {
            self.frozen = syncer.and_then(|syncer| syncer.freeze().ok());
        }
    }

    /// Makes all chunks durable that were put, and all removals. Whether they are: else the power failed.
    pub(crate) fn sync_chunks(&mut self) -> bool {
        let synced = self.opened.as_ref().map(|opened| opened.chunks.sync());
        if let Some(Err(error)) = &synced {
            self.unsynced(&error.to_string());
        }
        matches!(synced, Some(Ok(())))
    }

    fn unsynced(&mut self, error: &str) -> Synced {
        self.fail_if_on(format!("a sync failed: {error}"));
        Synced::Failed
    }

    /// Makes commits durable up to a ticket at least: what was frozen, and after another sync of the chunks what is later.
    pub(crate) fn sync_records(&mut self, ticket: Ticket) -> Synced {
        let Some(opened) = &self.opened else { return Synced::Failed };
        let syncer = opened.syncer.clone();
        if let Some(frozen) = self.frozen.take()
            && let Some(unsynced) = self.sync_to(&syncer, frozen)
        {
            return unsynced;
        }
        let wanted = self.tickets.iter().rev().find(|(of, _)| *of <= ticket).map(|(_, own)| *own);
        if let Some(wanted) = wanted.filter(|wanted| *wanted > syncer.durable()) {
            if !self.sync_chunks() {
                return Synced::Failed;
            }
            if let Some(unsynced) = self.sync_to(&syncer, wanted) {
                return unsynced;
            }
        }
        let (durable, mut last) = (syncer.durable(), ticket);
        while let Some((of, _)) = self.tickets.pop_front_if(|(_, own)| *own <= durable) {
            last = last.max(of);
        }
        Synced::Through(last)
    }

    /// What kept a sync from being done; `None`: nothing did.
    fn sync_to(&mut self, syncer: &Syncer, own: Ticket) -> Option<Synced> {
        let mut synced = syncer.sync_to(own);
        if matches!(synced, Err(StorageError::Busy(_)))
            && let Some(opened) = &mut self.opened
        {
            opened.checkpoint_all();
            synced = syncer.sync_to(own);
        }
        match synced {
            Ok(_) => None,
            Err(StorageError::NoSpace | StorageError::Busy(_)) if !self.disk.is_off() => Some(Synced::Later),
            Err(error) => Some(self.unsynced(&error.to_string())),
        }
    }

    pub(crate) fn put(&mut self, digest: Digest) -> Put {
        let bytes = bytes_of(digest);
        let own = Digest::of(&bytes);
        self.names.insert(own, digest);
        let Some(opened) = &self.opened else { return Put::Written };
        match opened.chunks.put(&own, &bytes) {
            Ok(Stored::New) => {
                self.noticed.remove(&digest);
                Put::Written
            }
            Ok(Stored::Present) if self.noticed.contains(&digest) => {
                self.fail(format!("chunk {digest} was found damaged, and a good copy is not taken"));
                Put::Present
            }
            Ok(Stored::Present) => Put::Present,
            Err(ChunkError::NoSpace { .. }) => Put::Refused,
            Err(_) if self.disk.is_off() => Put::Written,
            Err(error) => {
                self.fail(format!("a put failed: {error}"));
                Put::Written
            }
        }
    }

    pub(crate) fn remove(&mut self, digest: Digest) {
        let removed = self.opened.as_ref().map(|opened| opened.chunks.remove(&own_name(digest)));
        if let Some(Err(error)) = removed {
            self.fail_if_on(format!("a removal failed: {error}"));
        }
    }

    /// Reads a chunk; `None` when the power is off.
    pub(crate) fn read(&mut self, digest: Digest) -> Option<Option<Chunk>> {
        let read = self.running()?.chunks.get(&own_name(digest));
        Some(match read {
            Ok(Some(bytes)) if bytes == bytes_of(digest) => Some(Chunk::Sound),
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => {
                self.noticed.insert(digest);
                Some(Chunk::Damaged)
            }
        })
    }

    /// Flips a bit of a chunk on the disk, wherever it stands there. Whether it does.
    pub(crate) fn damage(&mut self, digest: Digest) -> bool {
        let bytes = bytes_of(digest);
        let is_segment = |place: &Position| place.path.extension().is_some_and(|extension| extension == "seg");
        let places: Vec<Position> = self.disk.find(&bytes).into_iter().filter(is_segment).collect();
        for place in &places {
            let at = place.at + self.random.random_range(0..bytes.len() as u64);
            self.disk.rot(&Position { at, path: place.path.clone() });
        }
        self.rotten.insert(digest);
        !places.is_empty() || self.disk.is_off()
    }
}

/// Where a disk is copied, the copy is of what a power cut leaves that takes all it can.
impl Clone for Stores {
    fn clone(&self) -> Self {
        self.copy()
    }
}

/// The bytes that stand for a chunk: its name, and some more.
fn bytes_of(digest: Digest) -> Vec<u8> {
    let name = digest.as_bytes();
    name.repeat(1 + usize::from(name[0] % 16))
}

/// Its name in the store.
fn own_name(digest: Digest) -> Digest {
    Digest::of(&bytes_of(digest))
}

/// A directory in memory, if the system has one.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("makes a directory for the tables of the index")
}

fn copy_tables(from: &Path, to: &Path) {
    let Ok(entries) = std::fs::read_dir(from) else { return };
    for entry in entries.flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).expect("makes a directory");
            copy_tables(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copies a table");
        }
    }
}

#[cfg(test)]
mod tests;
