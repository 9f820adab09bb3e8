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
pub(super) const MACHINE: ask::LockOwner = ask::LockOwner(u64::MAX);

/// Files that are taken for this machine, or are about to be.
#[derive(Default)]
pub(super) struct SharedMemory(Mutex<BTreeMap<FileId, Use>>);

/// How this machine uses one of them.
#[derive(Debug, Default)]
struct Use {
    is_ours: bool,
    /// Questions for it on their way.
    asking: usize,
    /// Handles through which it is used.
    handles: BTreeSet<FileHandle>,
}

impl SharedMemory {
    fn uses(&self) -> MutexGuard<'_, BTreeMap<FileId, Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the machine has it already; then one more handle uses it. Else it is about to be asked for.
    fn join(&self, place: Place) -> bool {
        let mut uses = self.uses();
        let used = uses.entry(place.file).or_default();
        if used.is_ours {
            used.handles.insert(place.handle);
        } else {
            used.asking += 1;
        }
        used.is_ours
    }

    /// What was asked for is the machine's, or not.
    fn asked(&self, place: Place, is_ours: bool) {
        if let Some(used) = self.uses().get_mut(&place.file) {
            used.asking = used.asking.saturating_sub(1);
            if is_ours {
                used.is_ours = true;
                used.handles.insert(place.handle);
            }
        }
    }

    /// Whether it is used through this handle.
    pub(super) fn is_used_through(&self, file: FileId, handle: FileHandle) -> bool {
        self.uses().get(&file).is_some_and(|used| used.handles.contains(&handle))
    }

    /// A handle went; answers whether that was the last.
    pub(super) fn handle_gone(&self, file: FileId, handle: FileHandle) -> bool {
        let mut uses = self.uses();
        let Some(used) = uses.get_mut(&file) else { return false };
        used.handles.remove(&handle) && used.handles.is_empty()
    }

    /// Lets go of what is used through no handle and asked for by nobody. Who asks for it from now on asks behind `let_go`, which is
    /// called with the table in hand: it must answer no question for such a file (an unlock by the machine answers none, since nobody
    /// asks for this file, and questions for others are not its business).
    fn leave(&self, file: FileId, let_go: impl FnOnce()) {
        let mut uses = self.uses();
        if uses.get(&file).is_some_and(|used| used.handles.is_empty() && used.asking == 0)
            && uses.remove(&file).is_some_and(|used| used.is_ours)
        {
            let_go();
        }
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
        if !self.is_shared_memory(place.file) {
            return then(self, reply);
        }
        if self.has_lost_memory(place.file) {
            return refuse(reply, Err(FsError::Io));
        }
        if self.shared_memory.join(place) {
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
            vfs.shared_memory.asked(place, outcome.is_ok());
            match outcome {
                Ok(_) => then(vfs, reply),
                other => {
                    vfs.leave_shared_memory(place.file);
                    refuse(reply, other);
                }
            }
        });
    }

    /// Another machine may have had the file since this one took it: what programs here have in memory is not what is there.
    fn has_lost_memory(&self, file: FileId) -> bool {
        self.engine.lost_locks(file).contains(&(ask::LockFamily::Flock, MACHINE))
    }

    /// If no handle is left through which this machine uses the file, another may have it.
    pub(super) fn leave_shared_memory(&self, file: FileId) {
        self.shared_memory.leave(file, || self.unlock_for(file, ask::LockFamily::Flock, MACHINE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> Place {
        Place { file: FileId::ROOT, handle: FileHandle::new(number) }
    }

    fn lets_go(memory: &SharedMemory) -> bool {
        let mut lets_go = false;
        memory.leave(FileId::ROOT, || lets_go = true);
        lets_go
    }

    #[test]
    fn who_opens_it_before_it_is_let_go_keeps_it() {
        let memory = SharedMemory::default();
        assert!(!memory.join(place(1)));
        memory.asked(place(1), true);
        assert!(memory.handle_gone(FileId::ROOT, place(1).handle));
        // What the last one wrote is committed first.
        assert!(memory.join(place(2)), "nobody else was let in yet");
        assert!(!lets_go(&memory));
        assert!(memory.handle_gone(FileId::ROOT, place(2).handle));
        assert!(lets_go(&memory));
        assert!(!memory.join(place(3)));
    }

    #[test]
    fn what_is_asked_for_is_not_let_go_behind_the_question() {
        let memory = SharedMemory::default();
        assert!(!memory.join(place(1)) && !memory.join(place(2)));
        memory.asked(place(1), true);
        assert!(memory.handle_gone(FileId::ROOT, place(1).handle));
        assert!(!lets_go(&memory), "the other question would be answered before it");
        memory.asked(place(2), true);
        assert!(memory.handle_gone(FileId::ROOT, place(2).handle));
        assert!(lets_go(&memory));
    }

    #[test]
    fn what_was_refused_is_nobodys() {
        let memory = SharedMemory::default();
        assert!(!memory.join(place(1)));
        memory.asked(place(1), false);
        assert!(!memory.handle_gone(FileId::ROOT, place(1).handle));
        assert!(!lets_go(&memory));
        assert!(!memory.join(place(1)), "it is asked for anew");
    }
}
