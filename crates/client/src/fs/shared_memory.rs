//! Files through which the processes of one machine share memory: one machine at a time.
//!
//! SQLite's write-ahead logging keeps its index in a mapped file, `NAME-shm`, that all processes are to see change at the same
//! moment. No network file system can do that, and a database that two machines used so would lose rows. So the first lock on such
//! a file takes the file for this machine, at the parent, as long as a handle stays open through which it was locked;
//! another machine's lock is refused meanwhile, and SQLite says "locking protocol" or "database is locked". Programs of one machine notice nothing.
//!
//! A machine that another took the file from while it was away has in memory what is no longer in the log. It may lock and write neither the
//! log nor the database until its programs have closed them: SQLite's last close copies what the memory says from the log into the database,
//! with no more than a lock on the database, and removes the log with all that the other machine wrote.

use super::ids::HandleId;
use super::lock_wishes::LockPlace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wayfs_types::request as ask;
use wayfs_types::{FileId, Name, Place};

/// How names of such files end; before it stands the name of the database.
const SUFFIX: &[u8] = b"-shm";
/// How the name of a database's log ends.
const LOG_SUFFIX: &[u8] = b"-wal";
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
    handles: BTreeSet<HandleId>,
    /// Where its database was when it was first used.
    database: Option<Place>,
}

/// The database whose file for shared memory is called so.
pub(super) fn database(memory: &Place) -> Option<Place> {
    let name = memory.name.as_bytes().strip_suffix(SUFFIX)?;
    Some(Place { parent: memory.parent, name: Name::new(name).ok()? })
}

/// Whether a file that is called so is that database, or its log.
pub(super) fn belongs_to(place: &Place, database: &Place) -> bool {
    let name = place.name.as_bytes();
    place.parent == database.parent && name.strip_suffix(LOG_SUFFIX).unwrap_or(name) == database.name.as_bytes()
}

impl SharedMemory {
    fn uses(&self) -> MutexGuard<'_, BTreeMap<FileId, Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the machine has it already; then one more handle uses it. Else it is about to be asked for.
    pub(super) fn join(&self, place: LockPlace, database: Option<Place>) -> bool {
        let mut uses = self.uses();
        let used = uses.entry(place.file).or_default();
        used.database = database.or(used.database.take());
        if used.is_ours {
            used.handles.insert(place.handle);
        } else {
            used.asking += 1;
        }
        used.is_ours
    }

    /// What was asked for is the machine's.
    pub(super) fn granted(&self, place: LockPlace) {
        if let Some(used) = self.uses().get_mut(&place.file) {
            used.asking = used.asking.saturating_sub(1);
            used.is_ours = true;
            used.handles.insert(place.handle);
        }
    }

    /// What was asked for did not become the machine's.
    pub(super) fn refused(&self, file: FileId) {
        if let Some(used) = self.uses().get_mut(&file) {
            used.asking = used.asking.saturating_sub(1);
        }
    }

    /// What is used, and of which databases.
    pub(super) fn used(&self) -> Vec<(FileId, Option<Place>)> {
        self.uses().iter().map(|(file, used)| (*file, used.database.clone())).collect()
    }

    /// Whether it is used through this handle.
    pub(super) fn is_used_through(&self, file: FileId, handle: HandleId) -> bool {
        self.uses().get(&file).is_some_and(|used| used.handles.contains(&handle))
    }

    /// A handle went; answers whether that was the last.
    pub(super) fn handle_gone(&self, file: FileId, handle: HandleId) -> bool {
        let mut uses = self.uses();
        let Some(used) = uses.get_mut(&file) else { return false };
        used.handles.remove(&handle) && used.handles.is_empty()
    }

    /// Lets go of what is used through no handle and asked for by nobody. Who asks for it from now on asks behind `let_go`, which is
    /// called with the table in hand: it must answer no question for such a file (an unlock by the machine answers none, since nobody
    /// asks for this file, and questions for others are not its business).
    pub(super) fn leave(&self, file: FileId, let_go: impl FnOnce()) {
        let mut uses = self.uses();
        if uses.get(&file).is_some_and(|used| used.handles.is_empty() && used.asking == 0)
            && uses.remove(&file).is_some_and(|used| used.is_ours)
        {
            let_go();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> LockPlace {
        LockPlace { file: FileId::ROOT, handle: HandleId::new(number) }
    }

    fn lets_go(memory: &SharedMemory) -> bool {
        let mut lets_go = false;
        memory.leave(FileId::ROOT, || lets_go = true);
        lets_go
    }

    #[test]
    fn who_opens_it_before_it_is_let_go_keeps_it() {
        let memory = SharedMemory::default();
        assert!(!memory.join(place(1), None));
        memory.granted(place(1));
        assert!(memory.handle_gone(FileId::ROOT, place(1).handle));
        // What the last one wrote is committed first.
        assert!(memory.join(place(2), None), "nobody else was let in yet");
        assert!(!lets_go(&memory));
        assert!(memory.handle_gone(FileId::ROOT, place(2).handle));
        assert!(lets_go(&memory));
        assert!(!memory.join(place(3), None));
    }

    #[test]
    fn what_is_asked_for_is_not_let_go_behind_the_question() {
        let memory = SharedMemory::default();
        assert!(!memory.join(place(1), None) && !memory.join(place(2), None));
        memory.granted(place(1));
        assert!(memory.handle_gone(FileId::ROOT, place(1).handle));
        assert!(!lets_go(&memory), "the other question would be answered before it");
        memory.granted(place(2));
        assert!(memory.handle_gone(FileId::ROOT, place(2).handle));
        assert!(lets_go(&memory));
    }

    #[test]
    fn what_was_refused_is_nobodys() {
        let memory = SharedMemory::default();
        assert!(!memory.join(place(1), None));
        memory.refused(place(1).file);
        assert!(!memory.handle_gone(FileId::ROOT, place(1).handle));
        assert!(!lets_go(&memory));
        assert!(!memory.join(place(1), None), "it is asked for anew");
    }

    #[test]
    fn a_database_and_its_log_belong_to_the_memory() {
        let at = |name: &str| Place { parent: FileId::ROOT, name: Name::new(name).unwrap() };
        let database = database(&at("notes.db-shm")).unwrap();
        assert!(belongs_to(&at("notes.db"), &database) && belongs_to(&at("notes.db-wal"), &database));
        assert!(!belongs_to(&at("other.db"), &database) && !belongs_to(&at("notes.db-journal"), &database));
    }
}
