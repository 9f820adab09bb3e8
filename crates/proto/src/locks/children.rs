//! Locks of the children, in the table of their parent.
//!
//! A lock orders data: what a child did before it let go comes before the release in its session, so it is applied
//! when the release takes effect; and who is granted the lock thereafter is told all of it first (`Child::grants`).

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::table::{Asker, Holder, Recall, Verdict, Which};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::upstream::Uplink;
use wayfs_types::request::{LockFamily, LockOwner, LockRange, LockRequest};
use wayfs_types::{FileId, MetaStore, OriginId};
use wayfs_wire::{AskId, Down, LockVerdict, Up};

impl<S: MetaStore> Replica<S> {
    /// What a child says about locks.
    ///
    /// # Errors
    /// [`StepError::Storage`] if it cannot be written down that it may have some.
    pub(crate) fn handle_child_locks(&mut self, child: OriginId, up: Up) -> Result<(), StepError> {
        if let Up::Lock { ask, request } | Up::KeepLock { ask, request } = up
            && !Locks::is_relayed(&self.core, &request)
            && !self.note_may_hold(child, request.family)?
        {
            self.children.tell(child, Down::LockAnswer { ask, verdict: LockVerdict::Overload });
            return Ok(());
        }
        self.locks.take_child_locks(&mut self.core, &mut self.children, child, up);
        self.settle_requests();
        Ok(())
    }
}

impl Locks {
    fn take_child_locks<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children, child: OriginId, up: Up) {
        match up {
            Up::Lock { ask, request } if Self::is_relayed(core, &request) => {
                self.relay_lock(core, children, child, ask, request)
            }
            Up::Lock { ask, request } => {
                let holder = Holder { origin: child, owner: request.owner };
                self.suppose_left(core, children, holder, &request);
                if self.delegate_locks(core, children, child, ask, &request) {
                    return;
                }
                let verdict = self.table.lock(Asker::Child(child, ask), holder, request);
                self.tell_child_verdict(core, children, child, ask, &request, verdict);
            }
            Up::KeepLock { ask, request } => self.handle_child_keeps(core, children, child, ask, request),
            Up::TestLock { ask, request } => self.handle_child_test(core, children, child, ask, request),
            Up::Unlock { file, family, owner, range } => {
                self.handle_child_unlock(core, children, child, (file, family), owner, range)
            }
            Up::LockCancel { ask } if self.relay_cancel(core, child, ask) => {}
            Up::LockCancel { ask } => self.handle_child_lock_cancel(core, children, child, ask),
            Up::ReturnLocks { file, family, serial, held } => {
                self.handle_locks_returned(core, children, Recall { child, file, family, serial }, &held);
            }
            Up::Hello { .. }
            | Up::Chains { .. }
            | Up::Seals { .. }
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
            | Up::GiveLock { .. }
            | Up::LockGiven { .. }
            | Up::BringsLocks { .. }
            | Up::Gone { .. }
            | Up::Ping { .. } => {}
        }
    }

    /// A child wants to keep what it had in a former session.
    fn handle_child_keeps<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
        request: LockRequest,
    ) {
        let holder = Holder { origin: child, owner: request.owner };
        if Self::is_relayed(core, &request) {
            return self.keep_relayed(core, children, child, ask, request);
        }
        Self::note_brings_locks(core, children, child);
        if self.comes_too_late(core, holder, &request) || self.left.was_given(child, &request) {
            return children.tell(child, Down::LockAnswer { ask, verdict: LockVerdict::Refused });
        }
        self.suppose_left(core, children, holder, &request);
        let verdict = self.table.keep(Asker::Child(child, ask), holder, request);
        self.tell_child_verdict(core, children, child, ask, &request, verdict);
    }

    /// What became of a child's question; if it waits on, nothing is said.
    pub(crate) fn tell_child_verdict<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
        request: &LockRequest,
        verdict: Verdict,
    ) {
        let verdict = match verdict {
            Verdict::Granted => {
                children.grant(child, ask, core.state.change());
                let granted = self.table.wake_beside(request);
                return Self::tell_granted(core, children, granted);
            }
            Verdict::Refused => LockVerdict::Refused,
            Verdict::Deadlock => LockVerdict::Deadlock,
            Verdict::Overload => LockVerdict::Overload,
            Verdict::Waiting => return,
        };
        children.tell(child, Down::LockAnswer { ask, verdict });
    }

    fn handle_child_test<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
        request: LockRequest,
    ) {
        if Self::is_relayed(core, &request) {
            return self.relay_test(core, children, child, ask, request);
        }
        let holder = Holder { origin: child, owner: request.owner };
        if let Some(verdict) = self.table.defers_test(Asker::Child(child, ask), holder, request) {
            return self.tell_child_verdict(core, children, child, ask, &request, verdict);
        }
        let held = self.table.test(holder, &request);
        Self::tell_child_tested(children, child, ask, held);
    }

    /// What is in the way of a lock of a child.
    pub(crate) fn tell_child_tested(children: &mut Children, child: OriginId, ask: AskId, held: Option<LockRequest>) {
        let verdict = held.map_or(LockVerdict::Free, LockVerdict::Held);
        children.tell(child, Down::LockAnswer { ask, verdict });
    }

    fn handle_child_unlock<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        (file, family): (FileId, LockFamily),
        owner: LockOwner,
        range: LockRange,
    ) {
        let holder = Holder { origin: child, owner };
        let held = self.table.held_in(holder, file, family, range);
        // Granted later, it would be nobody's to let go of.
        for asker in self.table.stop_keeping(holder, file, family, range) {
            if let Asker::Child(child, ask) = asker {
                children.tell(child, Down::LockAnswer { ask, verdict: LockVerdict::Refused });
            }
        }
        let granted = self.table.unlock(holder, file, family, range);
        Self::tell_granted(core, children, granted);
        self.relay_unlock(core, children, (file, family), holder, range, &held);
    }

    fn handle_child_lock_cancel<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
    ) {
        let granted = self.table.give_up(Asker::Child(child, ask));
        Self::tell_granted(core, children, granted);
        // If it was granted in the meantime, that answer is on its way and comes first; or it waits until the child has seen what
        // was done before, and is the answer then.
        if children.is_granted(child, ask) {
            return;
        }
        children.tell(child, Down::LockAnswer { ask, verdict: LockVerdict::Refused });
    }

    /// A child's session is over: it keeps its locks for a lease, and waits for none.
    pub(crate) fn locks_child_away<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
    ) {
        self.end_lock_delegations(core, child);
        if !self.table.is_empty() {
            let granted = self.table.forget_waiting(child);
            Self::tell_granted(core, children, granted);
        }
    }

    /// A child's new session: its locks stay for it to reclaim.
    pub(crate) fn locks_child_returns<S: MetaStore>(&mut self, core: &mut Core<S>, child: OriginId) {
        self.table.note_returned(child);
        self.table.mark_stale(child);
        self.abandon_relays(core, child);
    }

    /// A station's lease is over.
    pub(crate) fn locks_release_child<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
    ) {
        if !self.table.is_empty() {
            let granted = self.table.release_all(child, Which::All);
            Self::tell_granted(core, children, granted);
        }
        self.abandon_relays(core, child);
        self.end_relays(core);
    }

    /// Whether others may have had in the meantime what a child wants to keep. A server that was opened a moment ago knows of no
    /// lock, and believes whom it waits for (`locks/grace.rs`). Claims, for which it does not wait, it believes all.
    fn comes_too_late<S: MetaStore>(&self, core: &Core<S>, holder: Holder, request: &LockRequest) -> bool {
        let is_claim = request.family == LockFamily::Claim;
        let is_decided_here = is_claim || Uplink::is_the_homes(core, request.file).unwrap_or(true);
        let is_believed =
            if is_claim { core.now < core.opened + core.config.lease } else { self.grace.waits_for(holder.origin) };
        is_decided_here && !is_believed && !self.table.has_kept(holder, request)
    }
}
