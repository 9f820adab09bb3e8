//! Locks of programs: asked of the replica, which asks the station.

use super::core::{Caller, Vfs, answered, refuse};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_fuse::{FileLock, LockKind, LockOwner, LockRange, LockScope, LockWait, Reply};
use wayfs_types::request as ask;
use wayfs_types::{FileId, FsError};

/// A wait for a lock has no bound but a signal; this one only keeps the engine's arithmetic sane.
const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a lock request asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) owner: LockOwner,
    pub(super) lock: FileLock,
    pub(super) wait: LockWait,
    pub(super) scope: LockScope,
}

/// Who took record locks, so that a close without any asks nobody. An entry may be too many, never too few.
#[derive(Default)]
pub struct HeldLocks(Mutex<BTreeSet<(FileId, LockOwner)>>);

impl HeldLocks {
    fn held(&self) -> MutexGuard<'_, BTreeSet<(FileId, LockOwner)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn family(scope: LockScope) -> ask::LockFamily {
    match scope {
        LockScope::Record => ask::LockFamily::Posix,
        LockScope::Flock => ask::LockFamily::Flock,
    }
}

/// The kernel's end of everything is `i64::MAX`, the replica's `u64::MAX`.
fn range(range: LockRange) -> ask::LockRange {
    let end = if range.end >= LockRange::WHOLE.end { u64::MAX } else { range.end };
    ask::LockRange { start: range.start, end }
}

fn request(caller: &Caller, file: FileId, wish: &Wish) -> Option<ask::LockRequest> {
    let kind = match wish.lock.kind {
        LockKind::Read => ask::LockKind::Read,
        LockKind::Write => ask::LockKind::Write,
        LockKind::Unlock => return None,
    };
    Some(ask::LockRequest {
        file,
        family: family(wish.scope),
        owner: ask::LockOwner(wish.owner.number()),
        pid: if wish.lock.pid == 0 { caller.pid } else { wish.lock.pid },
        range: range(wish.lock.range),
        kind,
        wait: wish.wait == LockWait::Block,
    })
}

impl Vfs {
    pub(super) fn test_lock(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        owner: LockOwner,
        lock: FileLock,
        reply: Reply,
    ) {
        let free = FileLock { kind: LockKind::Unlock, ..lock };
        let wish = Wish { owner, lock, wait: LockWait::Try, scope: LockScope::Record };
        let Some(request) = request(caller, file, &wish) else { return answered(reply.lock(&free)) };
        self.ask(caller, ask::Request::TestLock(request), reply, move |_, reply, outcome| match outcome {
            Ok(ask::Answer::Lock(None)) => answered(reply.lock(&free)),
            Ok(ask::Answer::Lock(Some(held))) => {
                let end = held.range.end.min(LockRange::WHOLE.end);
                let kind = match held.kind {
                    ask::LockKind::Read => LockKind::Read,
                    ask::LockKind::Write => LockKind::Write,
                };
                let range = LockRange { start: held.range.start, end };
                let _ = reply.lock(&FileLock { range, kind, pid: held.pid });
            }
            other => refuse(reply, other),
        });
    }

    pub(super) fn set_lock(self: &Arc<Self>, caller: &Caller, file: FileId, wish: Wish, reply: Reply) {
        let Some(request) = request(caller, file, &wish) else {
            let unlock = unlock(file, wish.scope, wish.owner, range(wish.lock.range));
            self.ask(caller, unlock, reply, |_, reply, outcome| match outcome {
                // There is nothing to release where nobody is asked: what was lost with the station is free.
                Ok(_) | Err(FsError::NotFound | FsError::Unreachable) => answered(reply.ok()),
                other => refuse(reply, other),
            });
            return;
        };
        if wish.scope == LockScope::Record {
            self.locks.held().insert((file, wish.owner));
        }
        let timeout = if request.wait { WAIT_MAX } else { self.settings.metadata_timeout };
        self.ask_within(caller, ask::Request::Lock(request), timeout, reply, |_, reply, outcome| match outcome {
            Ok(_) => answered(reply.ok()),
            other => refuse(reply, other),
        });
    }

    /// A descriptor was closed: the owner's record locks on the file end, as POSIX has it.
    pub(super) fn unlock_records(&self, file: FileId, owner: LockOwner) {
        if self.locks.held().remove(&(file, owner)) {
            self.unlock_quietly(file, LockScope::Record, owner);
        }
    }

    /// A handle that is never flushed went: record locks on the file that nobody else may hold end.
    pub(super) fn unlock_all_records(&self, file: FileId) {
        if self.files.find(file).is_some() {
            return;
        }
        let owners: Vec<LockOwner> = {
            let mut held = self.locks.held();
            let first = (file, LockOwner::new(0));
            let last = (file, LockOwner::new(u64::MAX));
            let owners: Vec<LockOwner> = held.range(first..=last).map(|(_, owner)| *owner).collect();
            held.retain(|(locked, _)| *locked != file);
            owners
        };
        for owner in owners {
            self.unlock_quietly(file, LockScope::Record, owner);
        }
    }

    /// The last reference to an open file went: its flock ends.
    pub(super) fn unlock_flock(&self, file: FileId, owner: LockOwner) {
        self.unlock_quietly(file, LockScope::Flock, owner);
    }

    fn unlock_quietly(&self, file: FileId, scope: LockScope, owner: LockOwner) {
        let request = unlock(file, scope, owner, ask::LockRange::WHOLE);
        let log = Box::new(move |outcome| {
            if let Err(error) = outcome {
                tracing::debug!(%file, %error, "unlock at close");
            }
        });
        self.engine.submit(request, self.settings.metadata_timeout, log);
    }
}

fn unlock(file: FileId, scope: LockScope, owner: LockOwner, range: ask::LockRange) -> ask::Request {
    ask::Request::Unlock { file, family: family(scope), owner: ask::LockOwner(owner.number()), range }
}
