//! Log and index together: batches go to the log and then to the index, and checkpoints shorten the log.

use crate::chain::Chain;
use crate::descriptors::is_exhausted;
use crate::error::{OpenError, is_no_space};
use crate::index::Index;
use crate::log::format::{Item, encode_batch};
use crate::log::writer::LogWriter;
use crate::poison::Poison;
use crate::replaying::replay;
use crate::space::{MergeRoom, Space};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayfs_disk::DiskFile;
use wayfs_types::{StorageError, Ticket};

/// Room that a write leaves on the disk: what the file system itself may need for it.
const DISK_MARGIN: u64 = 1 << 20;
/// Most bytes that a merge is taken to write: the unmerged tables, and those of the level below that they meet.
const MERGE_MAX: u64 = 512 << 20;

/// The tables of a store, with the log that makes them durable.
///
/// Order of locks: `turning`, then `tail`, then `syncing` and those of the index.
pub(crate) struct Tables {
    pub(crate) index: Arc<Index>,
    pub(crate) space: Space,
    pub(crate) poison: Poison,
    /// Held through a turn, so that there is one at a time.
    turning: Mutex<()>,
    /// Whoever writes a batch holds it.
    tail: Mutex<Tail>,
    /// Held through a sync of the log.
    syncing: Mutex<()>,
    /// A flush or a merge failed in the middle: what it wrote takes room until the tables are opened anew.
    has_leftovers: AtomicBool,
}

/// Where the log is.
pub(crate) struct Tail {
    /// The chain with all batches that log and index have.
    pub(crate) chain: Chain,
    pub(crate) log: LogWriter,
    /// The last batch in a sealed table of the index.
    pub(crate) sealed_through: Ticket,
}

impl Tables {
    pub(crate) fn new(index: Arc<Index>, space: Space, tail: Tail) -> Self {
        space.promise(tail.log.older_bytes());
        let (poison, turning, syncing) = (Poison::default(), Mutex::default(), Mutex::default());
        let has_leftovers = AtomicBool::new(false);
        Self { index, space, poison, turning, tail: Mutex::new(tail), syncing, has_leftovers }
    }

    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail> {
        // Each step leaves it whole: a batch counts when its chain is set.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless somebody has it.
    pub(crate) fn try_tail(&self) -> Option<MutexGuard<'_, Tail>> {
        match self.tail.try_lock() {
            Ok(tail) => Some(tail),
            Err(std::sync::TryLockError::Poisoned(tail)) => Some(tail.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), StorageError> {
        self.poison.cause().map_or(Ok(()), |cause| Err(StorageError::Poisoned(cause.to_owned())))
    }

    pub(crate) fn poisoned(&self, what: &str, error: &dyn std::fmt::Display) -> StorageError {
        StorageError::Poisoned(self.poison.set(format!("{what}: {error}")).to_owned())
    }

    /// Writes a batch to the log, and then to the index. One that the disk has no room for changes nothing.
    pub(crate) fn write(&self, items: Vec<Item>, tail: &mut Tail) -> Result<(), StorageError> {
        let (batch, next) = encode_batch(&items, tail.chain);
        // Somebody else may have taken the room since the batch was accepted. It waits then.
        self.check_room(batch.len() as u64)?;
        match tail.log.append(&batch) {
            Err(error) if is_no_space(&error) => return Err(StorageError::NoSpace),
            Err(error) => return Err(self.poisoned("write log", &error)),
            Ok(()) => {}
        }
        self.index.apply(items);
        tail.chain = next;
        Ok(())
    }

    /// Checks that so many bytes fit on the disk.
    fn check_room(&self, len: u64) -> Result<(), StorageError> {
        let free = self.space.free();
        let free = free.map_err(|error| no_look(&error))?;
        if free < len.saturating_add(DISK_MARGIN) { Err(StorageError::NoSpace) } else { Ok(()) }
    }

    /// Makes all batches durable that are written; says how far they go.
    pub(crate) fn sync(&self) -> Result<Chain, StorageError> {
        let (file, reached) = {
            let tail = self.tail();
            (tail.log.file(), tail.chain)
        };
        self.sync_file(&*file)?;
        Ok(reached)
    }

    /// Writes room ahead, if it is time to. A failure to write costs speed only: the next sync writes down more.
    pub(crate) fn make_room(&self) {
        let file = {
            let mut tail = self.tail();
            if !tail.log.wants_room() || self.check().is_err() {
                return;
            }
            if let Err(error) = tail.log.add_room() {
                tracing::debug!(%error, "no room was written ahead of the log");
                return;
            }
            tail.log.file()
        };
        // A failure poisons the store, which the next one to ask hears.
        let _ = self.sync_file(&*file);
    }

    /// If the table in memory is full: seals it, and goes on in a next file of the log.
    ///
    /// Waits for the disk. The next file is begun when all batches are durable: what an open finds torn is in the newest
    /// file, or damaged.
    pub(crate) fn turn(&self) -> Result<(), StorageError> {
        let _turning = self.turning.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        if !self.index.is_full() {
            return Ok(());
        }
        let prepare = self.tail().log.prepare();
        let next = prepare.create().map_err(|error| self.failure("begin a log file", &error))?;
        let mut tail = self.synced_tail()?;
        let last = tail.chain;
        let left = tail.log.turn(next, last).map_err(|error| self.poisoned("begin a log file", &error))?;
        // Tables take as much before the file goes. Commits leave that free.
        self.space.promise(left);
        self.index.seal(last);
        tail.sealed_through = last.ticket;
        Ok(())
    }

    /// The tail when all batches are durable. Few come between the two syncs, so that it is not held for long.
    fn synced_tail(&self) -> Result<MutexGuard<'_, Tail>, StorageError> {
        self.sync()?;
        let tail = self.tail();
        self.sync_file(&*tail.log.file())?;
        Ok(tail)
    }

    /// The system tells a failure once: whoever syncs next must find the store poisoned.
    fn sync_file(&self, file: &dyn DiskFile) -> Result<(), StorageError> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        file.sync().map_err(|error| self.poisoned("sync", &error))
    }

    /// Writes what is sealed to tables, and shortens the log by that.
    pub(crate) fn flush(&self) -> Result<(), StorageError> {
        let (through, len) = {
            let tail = self.tail();
            (tail.sealed_through, tail.log.older_bytes())
        };
        // A table half written stays on the disk until the next open: it is not begun if it may not fit.
        self.check_room(len)?;
        self.index.flush().map_err(|error| self.engine_failure("write tables", &error))?;
        let mut tail = self.tail();
        let before = tail.log.older_bytes();
        if let Err(error) = tail.log.release(through) {
            tracing::warn!(%error, "a file of the log was not removed");
        }
        self.space.release(before - tail.log.older_bytes());
        drop(tail);
        self.forget_replaced();
        Ok(())
    }

    /// Gives back what a flush or a merge replaced. A failure costs room until the next one.
    fn forget_replaced(&self) {
        {
            let _no_batch = self.tail();
            self.index.advance();
        }
        if let Err(error) = self.index.forget_replaced() {
            tracing::debug!(%error, "tables that were replaced stay for now");
        }
    }

    /// Merges some tables.
    pub(crate) fn merge(&self) -> Result<(), StorageError> {
        let merged = self.begin_merge().and_then(|()| {
            let merged = self.index.merge().map_err(|error| self.engine_failure("merge tables", &error));
            self.space.end_merge();
            merged
        });
        match merged {
            Ok(()) => {
                self.index.note_roomy();
                self.forget_replaced();
            }
            Err(StorageError::NoSpace) => self.index.note_cramped(),
            Err(_) => {}
        }
        merged
    }

    fn begin_merge(&self) -> Result<(), StorageError> {
        let room = MergeRoom { needed: self.index.disk_bytes().min(MERGE_MAX), margin: DISK_MARGIN };
        self.space.begin_merge(room).map_err(|error| no_look(&error))?.map_err(|_| StorageError::NoSpace)
    }

    /// Whether something takes room on the disk that [`Tables::reopen`] gives back.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.has_leftovers.load(Ordering::Relaxed)
    }

    /// Opens the tables anew, as after a crash, but with the log as it is. Batches are gathered meanwhile, and readers wait.
    pub(crate) fn reopen(&self) -> Result<(), StorageError> {
        let _turning = self.turning.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tail = self.tail();
        self.check()?;
        let replayed = self.index.reopen(|fresh| replay((tail.log.disk(), tail.log.directory()), fresh));
        let replayed = replayed.map_err(|error| self.reopen_failure(&error))?;
        let (found, sealed_through) = replayed.ok_or_else(|| StorageError::Busy("snapshots are open".to_owned()))?;
        if found.last != tail.chain {
            let found = found.last.ticket;
            return Err(self.poisoned("open tables again", &format_args!("the log ends at batch {found}")));
        }
        // What became needless of the log goes with the next flush.
        tail.sealed_through = sealed_through;
        self.has_leftovers.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Tables that are on disk and the log hold everything, so that what failed for want of descriptors is tried again.
    fn reopen_failure(&self, error: &OpenError) -> StorageError {
        match error {
            OpenError::Io { source, .. } | OpenError::Engine(lsm_tree::Error::Io(source)) => {
                self.failure("open tables again", source)
            }
            other => self.poisoned("open tables again", other),
        }
    }

    fn engine_failure(&self, what: &str, error: &lsm_tree::Error) -> StorageError {
        match error {
            lsm_tree::Error::Io(error) => {
                self.has_leftovers.store(true, Ordering::Relaxed);
                self.failure(what, error)
            }
            other => self.poisoned(what, other),
        }
    }

    /// What failed for want of room or descriptors wrote nothing that counts, and is tried again.
    fn failure(&self, what: &str, error: &std::io::Error) -> StorageError {
        if is_no_space(error) {
            StorageError::NoSpace
        } else if is_exhausted(error) {
            StorageError::Busy(format!("{what}: {error}"))
        } else {
            self.poisoned(what, error)
        }
    }
}

/// The room on the disk is not known.
fn no_look(error: &std::io::Error) -> StorageError {
    StorageError::Busy(format!("look at the free room: {error}"))
}
