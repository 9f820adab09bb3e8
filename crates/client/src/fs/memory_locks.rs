//! Locks on files through which processes share memory, and what follows when another machine took such a file.

use super::asking::refusal;
use super::caller::Caller;
use super::core::FileSystem;
use super::lock_wishes::LockPlace;
use super::reply::{Reply, Respond};
use super::shared_memory::{MACHINE, belongs_to, database};
use std::sync::Arc;
use wayfs_types::request as ask;
use wayfs_types::{FileId, FsError, Place};

impl FileSystem {
    /// The database whose processes share memory by a file, if it is such a one.
    fn shares_memory_of(&self, file: FileId) -> Option<Place> {
        self.engine.inode(file)?.places.iter().find_map(database)
    }

    /// Goes on if the file shares no memory, or shares it on this machine alone.
    pub(super) fn on_one_machine<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        place: LockPlace,
        reply: Reply<R>,
        then: impl FnOnce(&Arc<Self>, Reply<R>) + Send + 'static,
    ) {
        let database = self.shares_memory_of(place.file);
        if database.is_none() {
            return then(self, reply);
        }
        if self.has_lost_memory(place.file) {
            return reply.refuse(FsError::Io);
        }
        if self.shared_memory.join(place, database) {
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
        self.ask(caller, ask::Request::Lock(request), reply, move |fs, reply, outcome| {
            if outcome == Err(FsError::Locked) {
                tracing::warn!(
                    file = %place.file,
                    "a database with a write-ahead log is in use on another machine: close it there, or use another journal mode (SEMANTICS.md, S-wal)"
                );
            }
            match outcome {
                Ok(_) => {
                    fs.shared_memory.granted(place);
                    then(fs, reply);
                }
                other => {
                    fs.shared_memory.refused(place.file);
                    fs.leave_shared_memory(place.file);
                    reply.refuse(refusal(other));
                }
            }
        });
    }

    /// Another machine may have had the file since this one took it: what programs here have in memory is not what is there.
    fn has_lost_memory(&self, file: FileId) -> bool {
        self.engine.lost_locks(file).contains(&(ask::LockFamily::Flock, MACHINE))
    }

    /// The same, of a file by which memory is shared, of the database, or of its log. Costs next to nothing where no memory is shared, and
    /// one look at the file where some is.
    pub(super) fn is_of_lost_memory(&self, file: FileId) -> bool {
        let used = self.shared_memory.used();
        if used.is_empty() {
            return false;
        }
        let places = self.engine.inode(file).map(|inode| inode.places.clone()).unwrap_or_default();
        let is_of = |database: &Place| places.iter().any(|place| belongs_to(place, database));
        let mut of_it =
            used.iter().filter(|(memory, database)| *memory == file || database.as_ref().is_some_and(is_of));
        of_it.any(|(memory, _)| self.has_lost_memory(*memory))
    }

    /// If no handle is left through which this machine uses the file, another may have it.
    pub(super) fn leave_shared_memory(&self, file: FileId) {
        self.shared_memory.leave(file, || self.unlock_for(file, ask::LockFamily::Flock, MACHINE));
    }
}
