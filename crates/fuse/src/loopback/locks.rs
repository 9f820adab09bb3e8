//! Locks, granted by a table of our own; requests that must wait are answered later.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Loopback;
use crate::lock_table::{LockOutcome, LockSubject, LockTable};
use crate::{Errno, FileLock, Inode, LockKind, LockOwner, LockScope, LockWait, Operation, Reply, Request, Unique};

/// The table behind its lock. Answers are sent outside the lock.
#[derive(Debug, Default)]
pub(super) struct Locks {
    table: Mutex<LockTable<Reply>>,
}

impl Locks {
    fn table(&self) -> MutexGuard<'_, LockTable<Reply>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn release(&self, inode: Inode, scope: LockScope, owner: LockOwner) {
        let woken = self.table().release(LockSubject { inode, scope, owner });
        grant(woken);
    }

    pub(super) fn interrupted(&self, unique: Unique) {
        let waiter = self.table().cancel(unique);
        if let Some(reply) = waiter {
            reply.error(Errno::INTR);
        }
    }
}

impl Loopback {
    pub(super) fn handle_lock(&self, request: &Request, reply: Reply) {
        let inode = request.inode();
        match request.operation() {
            Operation::GetLock { owner, lock, .. } => {
                let subject = LockSubject { inode, scope: LockScope::Record, owner };
                let found = self.locks.table().conflict(subject, &lock);
                reply.lock(&found.unwrap_or(FileLock { kind: LockKind::Unlock, ..lock }));
            }
            Operation::SetLock { owner, lock, wait, scope, .. } => {
                let subject = LockSubject { inode, scope, owner };
                let unique = request.unique();
                let (outcome, woken) = match wait {
                    LockWait::Try => self.locks.table().try_set(subject, lock, reply),
                    LockWait::Block => self.locks.table().set(unique, subject, lock, reply),
                };
                answer(outcome);
                grant(woken);
                // The interrupt may have come before the request stood in the queue.
                if request.is_interrupted() {
                    self.locks.interrupted(unique);
                }
            }
            _ => {
                reply.error(Errno::NOSYS);
            }
        }
    }
}

fn answer(outcome: LockOutcome<Reply>) {
    match outcome {
        LockOutcome::Granted(reply) => reply.ok(),
        LockOutcome::Held(reply) => reply.error(Errno::AGAIN),
        LockOutcome::Deadlock(reply) => reply.error(Errno::DEADLK),
        LockOutcome::TooMany(reply) => reply.error(Errno::NOLCK),
        LockOutcome::Waiting => return,
    };
}

fn grant(woken: Vec<Reply>) {
    for reply in woken {
        reply.ok();
    }
}
