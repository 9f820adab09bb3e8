//! Files through which the processes of one machine share memory: one machine at a time.
//!
//! SQLite's write-ahead logging keeps its index in a mapped file, `NAME-shm`, that all processes are to see change at the same
//! moment. No network file system can do that, and a database that two machines used so would lose rows. So the first lock on such
//! a file takes the file for this machine, at the parent, as long as a handle stays open through which it was locked;
//! another machine's lock is refused meanwhile, and SQLite says "locking protocol" or "database is locked". Programs of one machine notice nothing.

use super::core::{Caller, Vfs, refuse};
use super::locks::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayfs_fuse::{FileHandle, Reply};
use wayfs_types::request as ask;
use wayfs_types::{FileId, FsError};

/// How names of such files end.
const SUFFIX: &[u8] = b"-shm";
/// Who holds the file for the machine. No handle has this number.
const MACHINE: ask::LockOwner = ask::LockOwner(u64::MAX);

/// Files that are taken for this machine, with the handles through which they are used.
#[derive(Default)]
pub(super) struct SharedMemory(Mutex<BTreeMap<FileId, BTreeSet<FileHandle>>>);

impl SharedMemory {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<FileId, BTreeSet<FileHandle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the machine has it already; then one more handle uses it.
    fn join(&self, place: Place) -> bool {
        self.taken().get_mut(&place.file).map(|handles| handles.insert(place.handle)).is_some()
    }

    fn take(&self, place: Place) {
        self.taken().entry(place.file).or_default().insert(place.handle);
    }

    /// A handle went; answers whether that was the last.
    pub(super) fn handle_gone(&self, file: FileId, handle: FileHandle) -> bool {
        let mut taken = self.taken();
        let Some(handles) = taken.get_mut(&file) else { return false };
        handles.remove(&handle);
        handles.is_empty() && taken.remove(&file).is_some()
    }
}

impl Vfs {
    fn is_shared_memory(&self, file: FileId) -> bool {
        let inode = self.engine.inode(file);
        inode.is_some_and(|inode| inode.places.iter().any(|place| place.name.as_bytes().ends_with(SUFFIX)))
    }

    /// Goes on if the file shares no memory, or shares it on this machine alone.
    pub(super) fn on_one_machine(
        self: &Arc<Self>,
        caller: &Caller,
        place: Place,
        reply: Reply,
        then: impl FnOnce(&Arc<Self>, Reply) + Send + 'static,
    ) {
        if !self.is_shared_memory(place.file) || self.shared_memory.join(place) {
            return then(self, reply);
        }
        let request = ask::LockRequest {
            file: place.file,
            family: ask::LockFamily::Flock,
            owner: MACHINE,
            pid: 0,
            range: ask::LockRange::WHOLE,
            kind: ask::LockKind::Write,
            wait: false,
        };
        self.ask(caller, ask::Request::Lock(request), reply, move |vfs, reply, outcome| {
            if outcome == Err(FsError::Locked) {
                tracing::warn!(
                    file = %place.file,
                    "a database with a write-ahead log is in use on another machine: close it there, or use another journal mode (SEMANTICS.md, S-wal)"
                );
            }
            match outcome {
                Ok(_) => {
                    vfs.shared_memory.take(place);
                    then(vfs, reply);
                }
                other => refuse(reply, other),
            }
        });
    }

    /// No handle is left through which this machine used the file.
    pub(super) fn leave_shared_memory(&self, file: FileId) {
        self.unlock_for(file, ask::LockFamily::Flock, MACHINE);
    }
}
