//! Locks of the children, in the table of their parent.
//!
//! A lock orders data: what a child did before it let go comes before the release in its session, so it is applied
//! when the release takes effect; and who is granted the lock thereafter is told all of it first (`Child::grants`).

use crate::locks::{Asker, Holder, Verdict};
use crate::replica::Replica;
use wayfs_types::request::LockRequest;
use wayfs_types::{MetaStore, OriginId};
use wayfs_wire::{AskId, Down, LockVerdict, Up};

impl<S: MetaStore> Replica<S> {
    /// What a child says about locks.
    pub(crate) fn handle_child_locks(&mut self, child: OriginId, up: Up) {
        match up {
            Up::Lock { ask, request } => self.handle_child_lock(child, ask, request),
            Up::TestLock { ask, request } => self.handle_child_test(child, ask, request),
            Up::Unlock { file, family, owner, range } => {
                let granted = self.locks.unlock(Holder { origin: child, owner }, file, family, range);
                self.tell_granted(granted);
            }
            Up::LockCancel { ask } => self.handle_child_lock_cancel(child, ask),
            Up::Hello { .. }
            | Up::Chains { .. }
            | Up::Renew { .. }
            | Up::Watch { .. }
            | Up::Unwatch { .. }
            | Up::Refresh { .. }
            | Up::Start
            | Up::Records { .. }
            | Up::Received { .. }
            | Up::Ask { .. }
            | Up::Have { .. }
            | Up::Want { .. }
            | Up::Cancelled { .. }
            | Up::Holds { .. }
            | Up::Lent { .. }
            | Up::Facts { .. }
            | Up::Catch { .. }
            | Up::TakesRights { .. }
            | Up::Claim { .. }
            | Up::GivenBack { .. }
            | Up::Gone { .. }
            | Up::Ping { .. } => {}
        }
    }

    fn handle_child_lock(&mut self, child: OriginId, ask: AskId, request: LockRequest) {
        let holder = Holder { origin: child, owner: request.owner };
        let verdict = match self.locks.lock(Asker::Child(child, ask), holder, request) {
            Verdict::Granted => {
                self.children.grant(child, ask);
                let granted = self.locks.wake_beside(&request);
                return self.tell_granted(granted);
            }
            Verdict::Refused => LockVerdict::Refused,
            Verdict::Deadlock => LockVerdict::Deadlock,
            Verdict::Overload => LockVerdict::Overload,
            Verdict::Waiting => return,
        };
        self.children.tell(child, Down::LockAnswer { ask, verdict });
    }

    fn handle_child_test(&mut self, child: OriginId, ask: AskId, request: LockRequest) {
        let holder = Holder { origin: child, owner: request.owner };
        let verdict = self.locks.test(holder, &request).map_or(LockVerdict::Free, LockVerdict::Held);
        self.children.tell(child, Down::LockAnswer { ask, verdict });
    }

    fn handle_child_lock_cancel(&mut self, child: OriginId, ask: AskId) {
        let granted = self.locks.give_up(Asker::Child(child, ask));
        self.tell_granted(granted);
        // If it was granted in the meantime, that answer is on its way and comes first.
        self.children.tell(child, Down::LockAnswer { ask, verdict: LockVerdict::Refused });
    }

    /// A child's new session: its locks stay for it to reclaim.
    pub(crate) fn locks_child_returns(&mut self, child: OriginId) {
        self.locks.mark_stale(child);
    }

    /// A child has reclaimed what it wants.
    pub(crate) fn locks_child_started(&mut self, child: OriginId) {
        let granted = self.locks.release_stale(child);
        self.tell_granted(granted);
    }

    /// A child's lease is over.
    pub(crate) fn locks_release_child(&mut self, child: OriginId) {
        if !self.locks.is_empty() {
            let granted = self.locks.release_all(child);
            self.tell_granted(granted);
        }
    }
}
