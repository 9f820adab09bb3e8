//! Locks of programs: asked of the replica, which asks the station.
//!
//! A lock orders data. Who lets go of one that excluded others has everything committed first that it wrote; the
//! replica sends the release behind the records. Who is granted one is told so when the kernel has forgotten what was
//! changed before.

use super::asking::refusal;
use super::caller::Caller;
use super::core::FileSystem;
use super::ids::{HandleId, LockOwner};
use super::lock_wishes::{ConflictingLock, LockPlace, LockScope, LockTest, LockWait, LockWish, Unlock};
use super::pending::ReplySlot;
use super::reply::{Reply, RespondWith};
use super::shared_memory::MACHINE;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request as ask;
use wayfs_types::{FileId, FsError};

/// A wait for a lock has no bound but a signal; this one only keeps the engine's arithmetic sane.
const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Whose a `flock` is: the handle's, of which there is one for each open file. The kernel's number for the owner is made
/// of an address that the next open file may have, and the end of the one before may be told after the lock of the next.
fn flock_owner(handle: HandleId) -> LockOwner {
    LockOwner::new(handle.number())
}

/// Whose a lock is here: a record lock is the owner's that the front end names.
fn own_owner(scope: LockScope, owner: LockOwner, handle: HandleId) -> LockOwner {
    match scope {
        LockScope::Record => owner,
        LockScope::Flock => flock_owner(handle),
    }
}

fn conflicting(held: ask::LockRequest) -> ConflictingLock {
    ConflictingLock { range: held.range, kind: held.kind, pid: held.pid }
}

fn family(scope: LockScope) -> ask::LockFamily {
    match scope {
        LockScope::Record => ask::LockFamily::Posix,
        LockScope::Flock => ask::LockFamily::Flock,
    }
}

/// What is asked of the engine.
fn request(caller: &Caller, file: FileId, owner: ask::LockOwner, wish: &LockWish) -> ask::LockRequest {
    ask::LockRequest {
        file,
        family: family(wish.scope),
        owner,
        pid: if wish.pid == 0 { caller.pid } else { wish.pid },
        range: wish.range,
        kind: wish.kind,
        wait: wish.wait == LockWait::Block,
    }
}

impl FileSystem {
    /// Which lock stands in the way of a record lock.
    pub(crate) fn test_lock<R: RespondWith<LockTest>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        wish: &LockWish,
        reply: Reply<R>,
    ) {
        let owner = self.locks.owner(file, wish.scope, wish.owner);
        let test = ask::Request::TestLock(request(caller, file, owner, wish));
        self.ask(caller, test, reply, move |_, reply, outcome| match outcome {
            Ok(ask::Answer::Lock(held)) => reply.give(LockTest(held.map(conflicting))),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Takes a lock, or changes one.
    pub(crate) fn lock<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        place: LockPlace,
        wish: LockWish,
        reply: Reply<R>,
    ) {
        let wish = LockWish { owner: own_owner(wish.scope, wish.owner, place.handle), ..wish };
        if self.is_of_lost_memory(place.file) {
            return reply.refuse(FsError::Io);
        }
        if wish.scope == LockScope::Flock {
            return self.begin_lock(caller, place, &wish, reply);
        }
        let asker = caller.clone();
        self.on_one_machine(caller, place, reply, move |fs, reply| fs.begin_lock(&asker, place, &wish, reply));
    }

    fn begin_lock<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        LockPlace { file, handle }: LockPlace,
        wish: &LockWish,
        reply: Reply<R>,
    ) {
        // Sharing what was held alone lets others in.
        let shares = wish.kind == ask::LockKind::Read && self.locks.is_exclusive(file, wish.scope, wish.owner);
        let request = request(caller, file, self.locks.note(file, handle, wish), wish);
        if shares {
            let asker = caller.clone();
            return self.when_committed(caller, file, reply, move |fs, reply| fs.ask_lock(&asker, request, reply));
        }
        self.ask_lock(caller, request, reply);
    }

    fn ask_lock<R: RespondWith<()>>(self: &Arc<Self>, caller: &Caller, request: ask::LockRequest, reply: Reply<R>) {
        let timeout = if request.wait { WAIT_MAX } else { self.settings.metadata_timeout };
        self.ask_within(caller, ask::Request::Lock(request), timeout, reply, move |fs, reply, outcome| match outcome {
            // That may have been found out while this one was asked for.
            Ok(_) if fs.is_of_lost_memory(request.file) => {
                fs.unlock_for(request.file, request.family, request.owner);
                reply.refuse(FsError::Io);
            }
            Ok(_) => fs.answer_granted(reply),
            other => reply.refuse(refusal(other)),
        });
    }

    /// A lock was granted. Its owner reads on when the kernel has forgotten what changed before; a signal cannot end
    /// that wait, since the lock is held.
    fn answer_granted<R: RespondWith<()>>(&self, reply: Reply<R>) {
        if self.notices.is_idle() {
            return reply.give(());
        }
        let slot = ReplySlot::new(reply);
        let (waiting, notices, bound) = (Arc::clone(&slot), Arc::clone(&self.notices), self.settings.metadata_timeout);
        let job = move || {
            notices.drain(bound);
            if let Some(reply) = waiting.take() {
                reply.give(());
            }
        };
        if self.granters.run(job).is_err()
            && let Some(reply) = slot.take()
        {
            reply.give(());
        }
    }

    /// Lets go of locks. Who excluded others has committed before what was written under them.
    pub(crate) fn unlock<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        place: LockPlace,
        unlock: Unlock,
        reply: Reply<R>,
    ) {
        let LockPlace { file, handle } = place;
        let unlock = Unlock { owner: own_owner(unlock.scope, unlock.owner, handle), ..unlock };
        if !self.locks.is_exclusive(file, unlock.scope, unlock.owner) {
            return self.ask_unlock(caller, file, unlock, reply);
        }
        let asker = caller.clone();
        self.when_committed(caller, file, reply, move |fs, reply| fs.ask_unlock(&asker, file, unlock, reply));
    }

    fn ask_unlock<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        Unlock { owner, scope, range }: Unlock,
        reply: Reply<R>,
    ) {
        let known = self.locks.owner(file, scope, owner);
        if scope == LockScope::Flock || range == ask::LockRange::WHOLE {
            self.locks.let_go(file, scope, owner);
        }
        let unlock = ask::Request::Unlock { file, family: family(scope), owner: known, range };
        self.ask(caller, unlock, reply, |_, reply, outcome| match outcome {
            // There is nothing to release where nobody is asked: what was lost with the station is free.
            Ok(_) | Err(FsError::NotFound | FsError::Unreachable) => reply.give(()),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Whether a lock that was taken through a handle is lost: what is written through it was not written under it, and its owner is
    /// to hear of that.
    pub(super) fn has_lost_lock(&self, file: FileId, handle: HandleId) -> bool {
        let is_of = |(family, owner): &(ask::LockFamily, ask::LockOwner)| match family {
            ask::LockFamily::Flock if *owner == MACHINE => self.shared_memory.is_used_through(file, handle),
            ask::LockFamily::Flock => flock_owner(handle).number() == owner.0,
            ask::LockFamily::Posix => self.locks.was_asked_through(file, handle, *owner),
            ask::LockFamily::Claim => false,
        };
        self.engine.lost_locks(file).iter().any(is_of)
    }

    /// A descriptor was closed: the owner's record locks on the file end, as POSIX has it.
    pub(super) fn unlock_records(&self, file: FileId, owner: LockOwner) {
        if let Some(owner) = self.locks.let_go(file, LockScope::Record, owner) {
            self.unlock_for(file, ask::LockFamily::Posix, owner);
        }
    }

    /// A handle went, and with it its `flock` and the locks of the open file.
    pub(super) fn locks_of_gone(&self, file: FileId, handle: HandleId, flock: Option<LockOwner>) -> GoneLocks {
        let flock = flock.map(|_| flock_owner(handle));
        let records = self.locks.handle_gone(file, handle);
        let excluded = |owner: &LockOwner| self.locks.is_exclusive(file, LockScope::Flock, *owner);
        let is_exclusive = records.iter().any(|(_, is_exclusive)| *is_exclusive) || flock.iter().any(excluded);
        let leaves_memory = self.shared_memory.handle_gone(file, handle);
        let records = records.into_iter().map(|(owner, _)| owner).collect();
        GoneLocks { file, records, flock, leaves_memory, is_exclusive: is_exclusive || leaves_memory }
    }

    /// Lets go of them.
    pub(super) fn unlock_gone(&self, gone: &GoneLocks) {
        for owner in &gone.records {
            self.unlock_for(gone.file, ask::LockFamily::Posix, *owner);
        }
        if let Some(owner) = gone.flock {
            self.locks.let_go(gone.file, LockScope::Flock, owner);
            self.unlock_for(gone.file, ask::LockFamily::Flock, ask::LockOwner(owner.number()));
        }
        if gone.leaves_memory {
            self.leave_shared_memory(gone.file);
        }
    }

    /// Lets go of all that an owner holds on a file; nobody waits for it.
    pub(super) fn unlock_for(&self, file: FileId, family: ask::LockFamily, owner: ask::LockOwner) {
        let request = ask::Request::Unlock { file, family, owner, range: ask::LockRange::WHOLE };
        let log = Box::new(move |outcome| {
            if let Err(error) = outcome {
                tracing::debug!(%file, %error, "unlock at close");
            }
        });
        self.engine.submit(request, self.settings.metadata_timeout, log);
    }
}

/// Locks that went with a handle.
#[derive(Debug)]
pub(super) struct GoneLocks {
    file: FileId,
    records: Vec<ask::LockOwner>,
    flock: Option<LockOwner>,
    /// It was the last through which this machine shared memory by the file.
    leaves_memory: bool,
    is_exclusive: bool,
}

impl GoneLocks {
    /// Whether others wait for what was written under them.
    pub(super) fn are_exclusive(&self) -> bool {
        self.is_exclusive
    }
}
