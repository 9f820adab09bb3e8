//! Locks that stay with the client whose programs alone use them.
//!
//! ```text
//!   client                                parent
//!     Lock ─────────────────────────────▶  nobody else has or wants a lock on the file
//!     ◀──────── LockAnswer: Delegated
//!     its programs lock and unlock: nothing is said
//!                                          another asks for a lock there, and waits
//!     ◀────────────────── RecallLocks
//!     Records; ReturnLocks, what is held ▶  the other is granted its lock, refused, or waits on
//! ```
//!
//! A client decides so as it does without any parent, by its mirror. It returns a file when it is asked to, when one of its programs
//! would have to wait (only the parent sees who waits for whom), when its programs have more locks there than one message is to
//! tell, and when none had one for half a lease. What its programs did under their locks goes ahead of what is returned, so
//! whoever gets a lock next is told of it first ([S-lock-order]).
//!
//! A client that had no answer from its parent for a lease asks again, and a delegation ends with its session. Until the client is back, and has reclaimed what it holds, or for a lease, the parent
//! keeps the whole file for it, and treats it then as a lock that was left (`locks/left.rs`).
//!
//! Who does not return a file within half a lease keeps nobody waiting who does not wait for locks: it counts as having all of it until it
//! does, or is gone.
//!
//! The home gives locks in exclusive directories, and claims, one by one: nothing of these is delegated.
//!
//! Bounds: so many files of one client ([`crate::Config::lock_delegations_max`]), each a row in both tables.

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::asks::LockAsk;
use crate::locks::held_delegations::LockDelegations;
use crate::locks::table::{Asker, Recall, Verdict};
use crate::replica::core::Core;
use crate::upstream::Uplink;
use std::time::Duration;
use wayfs_types::request::{Answer, LockFamily, LockRequest, Outcome, RequestId};
use wayfs_types::{FileId, FsError, MetaStore, OriginId};
use wayfs_wire::{AskId, DelegationId, Down, LOCKS_TOLD_MAX, Up};

/// Locks in one file at which a client returns it: half of what a message may tell, since some come in the meantime.
const HELD_MAX: usize = LOCKS_TOLD_MAX / 2;

/// The client's half.
impl Locks {
    /// Whether it is ours to decide about a file's locks.
    pub(crate) fn is_delegated<S: MetaStore>(&self, core: &Core<S>, file: FileId, family: LockFamily) -> bool {
        Self::locks_go_up(core) && self.delegations().is_some_and(|of| of.rows.contains_key(&(file, family)))
    }

    /// Decides about a lock. `None`: the parent is to be asked, and has the file back.
    pub(crate) fn lock_delegated<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        id: RequestId,
        request: LockRequest,
    ) -> Option<Outcome> {
        if !self.uses_delegated(core, children, &request) {
            return None;
        }
        let holder = Self::own_holder(core, request.owner);
        let at_once = LockRequest { wait: false, ..request };
        match self.table.lock(Asker::Own(id), holder, at_once) {
            Verdict::Granted => {
                self.return_if_many(core, children, request.file, request.family);
                Some(Ok(Answer::Done))
            }
            Verdict::Refused if !request.wait => Some(Err(FsError::Locked)),
            Verdict::Overload => Some(Err(FsError::NoLocks)),
            Verdict::Refused | Verdict::Waiting | Verdict::Deadlock => {
                self.return_locks(core, children, request.file, request.family);
                None
            }
        }
    }

    /// What is in the way of a lock. `None`: the parent is to be asked.
    pub(crate) fn test_delegated<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        request: &LockRequest,
    ) -> Option<Outcome> {
        if !self.uses_delegated(core, children, request) {
            return None;
        }
        Some(Ok(Answer::Lock(self.table.test(Self::own_holder(core, request.owner), request))))
    }

    /// Whether we decide about this. What has become the home's to give we do not, and nothing when the parent may have taken us for
    /// gone: it answered nothing for a lease.
    fn uses_delegated<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        request: &LockRequest,
    ) -> bool {
        let (file, family, now) = (request.file, request.family, core.now);
        let is_heard = core.lease_until().is_some_and(|until| now < until);
        if !is_heard || !self.is_delegated(core, file, family) {
            return false;
        }
        if Uplink::is_the_homes(core, file).unwrap_or(true) {
            self.return_locks(core, children, file, family);
            return false;
        }
        if let Some(row) = self.delegations_mut().and_then(|of| of.rows.get_mut(&(file, family))) {
            row.used = now;
        }
        true
    }

    /// Letting go of a part of a range makes two of it.
    pub(crate) fn return_if_many<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        file: FileId,
        family: LockFamily,
    ) {
        if self.is_delegated(core, file, family) && self.own_locks_in(core, file, family).len() >= HELD_MAX {
            self.return_locks(core, children, file, family);
        }
    }

    /// The parent decides again: it is told what our programs have, behind what they did.
    fn return_locks<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        file: FileId,
        family: LockFamily,
    ) {
        let Some(row) = self.delegations_mut().and_then(|of| of.end((file, family))) else { return };
        let mut held = self.own_locks_in(core, file, family);
        for LockRequest { owner, range, .. } in held.split_off(held.len().min(LOCKS_TOLD_MAX)) {
            // Nobody would know of it.
            self.lose_lock(core, children, file, family, owner, range);
        }
        let returned = Up::ReturnLocks { file, family, serial: row.serial, held };
        let after = core.state.sequence();
        self.post_after(core, after, returned);
    }

    /// The parent's answer to a question: it is ours to decide.
    pub(crate) fn handle_delegated<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        of: LockAsk,
        serial: DelegationId,
    ) {
        let (LockAsk::Lock(_, request)
        | LockAsk::Cancelled(_, request)
        | LockAsk::Abandoned(request)
        | LockAsk::Reclaim(request)) = of
        else {
            return;
        };
        let times = (core.now, Self::unused_max(core));
        if let Some(delegations) = self.delegations_mut() {
            delegations.begin((request.file, request.family), serial, times);
        }
        self.return_if_many(core, children, request.file, request.family);
        match of {
            LockAsk::Lock(id, _) => {
                if let Some(outcome) = self.lock(core, children, id, request) {
                    core.end_request(id, outcome);
                }
            }
            LockAsk::Cancelled(id, _) => {
                let outcome = match self.lock_delegated(core, children, id, LockRequest { wait: false, ..request }) {
                    Some(Err(FsError::Locked)) if request.wait => Err(FsError::Interrupted),
                    Some(outcome) => outcome,
                    None => Err(FsError::Interrupted),
                };
                core.end_request(id, outcome);
            }
            LockAsk::Abandoned(_) => self.wake_held_back(core),
            LockAsk::Reclaim(_) => self.settle_vouched(core),
            LockAsk::Test(_) | LockAsk::Claim(..) | LockAsk::Relay(_) => {}
        }
    }

    /// The parent wants a file back.
    pub(crate) fn handle_recalled<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        file: FileId,
        family: LockFamily,
        serial: DelegationId,
    ) {
        // One that was returned meanwhile is under way.
        let row = self.delegations().and_then(|of| of.rows.get(&(file, family)));
        if row.is_some_and(|row| row.serial == serial) {
            self.return_locks(core, children, file, family);
        }
    }

    /// Returns what no program uses: a client that goes is not waited for because of it.
    pub(crate) fn return_unused_locks<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        let (now, unused) = (core.now, Self::unused_max(core));
        let Some(delegations) = self.delegations().filter(|of| of.look_at.is_some_and(|at| now >= at)) else {
            return;
        };
        let old = delegations.rows.iter().filter(|(_, row)| now >= row.used + unused);
        for (file, family) in old.map(|(key, _)| *key).collect::<Vec<_>>() {
            if self.own_locks_in(core, file, family).is_empty() {
                self.return_locks(core, children, file, family);
            }
        }
        if let Some(delegations) = self.delegations_mut() {
            delegations.look_at = (!delegations.rows.is_empty()).then_some(now + unused);
        }
    }
}

impl Locks {
    /// Files whose locks this client decides about by itself, one for each family.
    pub(crate) fn locks_delegated(&self) -> usize {
        self.delegations().map_or(0, |delegations| delegations.rows.len())
    }

    fn delegations(&self) -> Option<&LockDelegations> {
        self.session.as_ref().map(|session| &session.delegations)
    }

    fn delegations_mut(&mut self) -> Option<&mut LockDelegations> {
        self.session.as_mut().map(|session| &mut session.delegations)
    }

    fn own_locks_in<S: MetaStore>(&self, core: &Core<S>, file: FileId, family: LockFamily) -> Vec<LockRequest> {
        self.table.held_in_file(core.config.origin, file, family)
    }

    /// For how long a file stays that no program has locked.
    fn unused_max<S: MetaStore>(core: &Core<S>) -> Duration {
        core.config.lease / 2
    }

    /// A client's session is over.
    pub(crate) fn end_lock_delegations<S: MetaStore>(&mut self, core: &Core<S>, child: OriginId) {
        if core.serves() {
            self.table.end_delegations(child);
        }
    }
}

/// The parent's half.
impl Locks {
    /// A client asks for a lock that nobody else is concerned with: it decides about the file from here on. Answers whether it does.
    pub(crate) fn delegate_locks<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        children: &mut Children,
        child: OriginId,
        ask: AskId,
        request: &LockRequest,
    ) -> bool {
        let is_client = children.is_client(child);
        let most = core.config.lock_delegations_max;
        let may_be = is_client && most > 0 && request.family != LockFamily::Claim;
        if !may_be || Uplink::is_the_homes(core, request.file).unwrap_or(true) {
            return false;
        }
        let Some(serial) = self.table.delegate(child, request, most) else { return false };
        children.delegate(child, ask, serial, core.state.change());
        true
    }

    pub(crate) fn recall_locks<S: MetaStore>(core: &Core<S>, children: &mut Children, recall: Recall) {
        let Recall { child, file, family, serial } = recall;
        let change = core.state.change();
        children.tell_behind(child, Down::RecallLocks { file, family, serial }, change);
    }

    /// A client returned a file. What is not delegated to it any more changes nothing.
    pub(crate) fn handle_locks_returned<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        recall: Recall,
        held: &[LockRequest],
    ) {
        let granted = self.table.take_back(recall, held);
        Self::tell_granted(core, children, granted);
    }
}
