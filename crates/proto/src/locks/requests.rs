//! Locks between programs, over one client or over all clients of a station.
//!
//! A client with a session asks its parent and keeps a mirror of what it was
//! granted; without a session the mirror itself decides, among the programs of
//! that client only. In a new session what it holds is reclaimed before
//! anything else is asked; what cannot be had again is lost, as with any lease.
//!
//! ```text
//!   Lock ──signal──▶ Cancelled ──answer──▶ done: granted, or interrupted
//!     │                  └──silence──▶ Abandoned ──granted all the same──▶ put back as the mirror has it
//!     └──deadline──────────────────────────┘
//! ```
//!
//! A program that gets a signal is told *interrupted* when its parent has taken the question back. Were it told at
//! once, its next question (the kernel restarts such calls) could be granted before the answer to the first came,
//! and nobody could tell which of the two grants a release means. Only a parent that stays silent is not waited
//! for; until it has spoken, no other question of the same owner about the same file is put.

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::asks::{LockAsk, lock_error, own_outcome};
use crate::locks::table::{Asker, Holder, Verdict, Which};
use crate::replica::Replica;
use crate::replica::composition::Position;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::upstream::Uplink;
use crate::upstream::line::UplinkState;
use std::time::Duration;
use wayfs_types::request::{Answer, LockFamily, LockOwner, LockRange, LockRequest, Outcome, RequestId};
use wayfs_types::{FileId, FsError, MetaStore, OriginId};
use wayfs_wire::{AskId, Down, LockVerdict, Up};

/// How long a signal waits for the parent to take a question back: a long round trip, and short for a person.
const CANCEL_MAX: Duration = Duration::from_secs(1);

impl<S: MetaStore> Replica<S> {
    /// Whose locks on a file ended without their doing and whatever they think: another may have had them since. Their owners are
    /// told at the next use, until they let go.
    pub fn lost_locks(&self, file: FileId) -> Vec<(LockFamily, LockOwner)> {
        let file = self.histories.file_called_now(&self.core, file);
        let first = (file, LockFamily::Posix, LockOwner(0));
        let of_file = self.locks.lost.range(first..).take_while(|(of, ..)| *of == file);
        of_file.map(|(_, family, owner)| (*family, *owner)).collect()
    }

    /// A signal came for a request. Answers whether that is a question about a lock that the parent has: then it ends
    /// when the parent has taken it back.
    pub(crate) fn cancel_lock(&mut self, id: RequestId) -> bool {
        let Some(session) = self.locks.session.as_mut() else { return false };
        let mut asked = None;
        for (ask, of) in &mut session.asks {
            match *of {
                LockAsk::Cancelled(waiting, _) if waiting == id => return true,
                LockAsk::Lock(waiting, request) if waiting == id => {
                    *of = LockAsk::Cancelled(id, request);
                    asked = Some((*ask, request));
                }
                LockAsk::Lock(..)
                | LockAsk::Test(_)
                | LockAsk::Reclaim(_)
                | LockAsk::Cancelled(..)
                | LockAsk::Abandoned(_)
                | LockAsk::Claim(..)
                | LockAsk::Relay(_) => {}
            }
        }
        let Some((ask, request)) = asked else { return false };
        if request.wait {
            self.locks.post_in_turn(&mut self.core, Up::LockCancel { ask });
        }
        let patience = self.core.now + CANCEL_MAX;
        self.requests.hurry_lock(id, patience);
        true
    }

    /// What the parent says of locks.
    pub(crate) fn handle_locks_said(&mut self, said: Down) -> Result<(), StepError> {
        if let Down::LockAnswer { ask, verdict } = said {
            self.handle_lock_answer(ask, verdict);
        } else if let Down::LockLost { file, family, owner, range } = said {
            self.locks.lose_lock(&mut self.core, &mut self.children, file, family, owner, range);
        } else if let Down::RecallLocks { file, family, serial } = said {
            self.locks.handle_recalled(&mut self.core, &mut self.children, file, family, serial);
        }
        self.settle_requests();
        Ok(())
    }

    /// The parent's word on a lock.
    fn handle_lock_answer(&mut self, ask: AskId, verdict: LockVerdict) {
        let Some(of) = self.locks.session.as_mut().and_then(|session| session.asks.remove(&ask)) else { return };
        let decides =
            matches!(of, LockAsk::Lock(..) | LockAsk::Cancelled(..) | LockAsk::Abandoned(_) | LockAsk::Reclaim(_));
        // A parent that delegates what it cannot has given nothing.
        let is_meant = decides || !matches!(verdict, LockVerdict::Delegated { .. });
        match (of, if is_meant { verdict } else { LockVerdict::Refused }) {
            (of, LockVerdict::Delegated { serial }) => {
                self.locks.handle_delegated(&mut self.core, &mut self.children, of, serial)
            }
            (LockAsk::Relay(relayed), verdict) => {
                self.locks.handle_relayed(&mut self.core, &mut self.children, relayed, verdict)
            }
            (LockAsk::Claim(id, request), verdict) => self.handle_claim_answer(id, &request, verdict),
            (LockAsk::Lock(id, request) | LockAsk::Cancelled(id, request), LockVerdict::Granted)
                if self.locks.comes_late(&self.core, request.file) =>
            {
                self.locks.put_back_lock(&mut self.core, &request);
                self.end_request(id, Err(FsError::Unreachable));
            }
            (LockAsk::Lock(id, request) | LockAsk::Cancelled(id, request), LockVerdict::Granted) => {
                let holder = Locks::own_holder(&self.core, request.owner);
                self.locks.table.mirror(holder, &request);
                self.locks.note_lent(&self.core, &request);
                self.end_request(id, Ok(Answer::Done));
            }
            (LockAsk::Cancelled(id, request), LockVerdict::Refused) if request.wait => {
                self.end_request(id, Err(FsError::Interrupted));
            }
            (LockAsk::Lock(id, _) | LockAsk::Cancelled(id, _), refusal) => {
                self.end_request(id, Err(lock_error(refusal)));
            }
            (LockAsk::Test(id), LockVerdict::Held(held)) => self.end_request(id, Ok(Answer::Lock(Some(held)))),
            (LockAsk::Test(id), LockVerdict::Unreachable) => self.end_request(id, Err(FsError::Unreachable)),
            (LockAsk::Test(id), _) => self.end_request(id, Ok(Answer::Lock(None))),
            (LockAsk::Abandoned(request), verdict) => {
                if verdict == LockVerdict::Granted {
                    self.locks.put_back_lock(&mut self.core, &request);
                }
                self.locks.wake_held_back(&mut self.core);
            }
            (LockAsk::Reclaim(_), LockVerdict::Granted) => self.locks.settle_vouched(&self.core),
            (LockAsk::Reclaim(LockRequest { file, family, owner, range, .. }), _) => {
                self.locks.lose_lock(&mut self.core, &mut self.children, file, family, owner, range);
                self.locks.settle_vouched(&self.core);
            }
        }
        self.settle_requests();
    }

    /// We go on under another origin: nobody keeps for that what our programs had by the former one.
    pub(crate) fn lose_locks_of(&mut self, former: OriginId) {
        let held = self.locks.table.held_by(former);
        let programs = held.iter().filter(|held| held.family != LockFamily::Claim);
        let lost =
            programs.map(|held| (held.file, held.family, held.owner)).chain(std::mem::take(&mut self.locks.lost));
        self.locks.lost = lost
            .map(|(file, family, owner)| (self.histories.file_called_now(&self.core, file), family, owner))
            .collect();
        for held in &held {
            self.locks.vouched.remove(&(held.file, held.family, Holder { origin: former, owner: held.owner }));
        }
        self.locks.taken_along.clear();
        let granted = self.locks.table.release_all(former, Which::All);
        Locks::tell_granted(&mut self.core, &mut self.children, granted);
        self.settle_requests();
    }

    /// In a new session: what we hold comes first.
    pub(crate) fn locks_reclaim(&mut self) {
        let let_go = self.locks.let_go_in_order(&self.core);
        let held = self.locks.table.held_by(self.core.config.origin);
        for request in let_go.into_iter().chain(held) {
            let ask = self.locks.ask_lock(&mut self.core, LockAsk::Reclaim(request));
            self.core.tell_parent(Up::KeepLock { ask, request });
        }
        self.locks.reclaim_relayed(&mut self.core);
        // Who waited for others of this machine alone waits for all of them from now on.
        for id in self.requests.lock_waiters() {
            let granted = self.locks.table.give_up(Asker::Own(id));
            Locks::tell_granted(&mut self.core, &mut self.children, granted);
            self.settle_requests();
        }
        self.requests.wake_locks();
    }

    /// Without a parent, waiting requests try again at the mirror.
    pub(crate) fn locks_parent_lost(&mut self) {
        self.locks.lock_mail_lost();
        for id in self.requests.hurried_locks() {
            self.end_request(id, Err(FsError::Interrupted));
        }
        self.requests.wake_locks();
    }
}

impl Locks {
    /// Whether locks are the parent's to give.
    pub(crate) fn locks_go_up<S: MetaStore>(core: &Core<S>) -> bool {
        let connected = |state| matches!(state, UplinkState::CatchingUp | UplinkState::Live);
        core.writes() && core.standing().is_some_and(connected)
    }

    /// Whether anything may be said to a parent about locks: our own, or those of our children that the home has.
    pub(crate) fn has_lock_parent<S: MetaStore>(core: &Core<S>) -> bool {
        match core.composition.position {
            Position::Writes => Self::locks_go_up(core),
            Position::Relays => core.standing() == Some(UplinkState::Live),
            Position::Orders => false,
        }
    }

    pub(crate) fn ask_lock<S: MetaStore>(&mut self, core: &mut Core<S>, ask: LockAsk) -> AskId {
        let Some(id) = core.next_ask() else { return AskId(0) };
        if let Some(session) = self.session.as_mut() {
            session.asks.insert(id, ask);
        }
        id
    }

    /// A lock for our own user. `None`: it waits.
    pub(crate) fn lock<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        id: RequestId,
        request: LockRequest,
    ) -> Option<Outcome> {
        if self.lost.contains(&(request.file, request.family, request.owner)) {
            return Some(Err(FsError::Io));
        }
        if Self::locks_go_up(core) {
            let session = self.session.as_mut()?;
            if session.asks.values().any(|ask| ask.holds_back(&request)) {
                session.held_back.push(id);
                return None;
            }
            if let Some(outcome) = self.lock_delegated(core, children, id, request) {
                return Some(outcome);
            }
            let ask = self.ask_lock(core, LockAsk::Lock(id, request));
            self.post_lock(core, ask, request);
            return None;
        }
        if let Some(refused) = Self::refuse_the_homes(core, request.file) {
            return Some(refused);
        }
        self.suppose_left(core, children, Self::own_holder(core, request.owner), &request);
        let verdict = self.table.lock(Asker::Own(id), Self::own_holder(core, request.owner), request);
        if verdict == Verdict::Granted {
            let granted = self.table.wake_beside(&request);
            Self::tell_granted(core, children, granted);
        }
        own_outcome(verdict)
    }

    pub(crate) fn test_lock<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        id: RequestId,
        request: LockRequest,
    ) -> Option<Outcome> {
        if Self::locks_go_up(core) {
            if let Some(outcome) = self.test_delegated(core, children, &request) {
                return Some(outcome);
            }
            let ask = self.ask_lock(core, LockAsk::Test(id));
            self.post_in_turn(core, Up::TestLock { ask, request });
            return None;
        }
        if let Some(refused) = Self::refuse_the_homes(core, request.file) {
            return Some(refused);
        }
        let holder = Self::own_holder(core, request.owner);
        match self.table.defers_test(Asker::Own(id), holder, request) {
            Some(verdict) => own_outcome(verdict),
            None => Some(Ok(Answer::Lock(self.table.test(holder, &request)))),
        }
    }

    /// Lets go of a range. Answers whether all was as its owner thought.
    pub(crate) fn unlock<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        file: FileId,
        family: LockFamily,
        owner: LockOwner,
        range: LockRange,
    ) -> Result<(), FsError> {
        let holder = Self::own_holder(core, owner);
        let held = self.table.held_in(holder, file, family, range);
        let granted = self.table.unlock(holder, file, family, range);
        self.note_returned(core, file, family, owner);
        Self::tell_granted(core, children, granted);
        if self.is_delegated(core, file, family) {
            self.return_if_many(core, children, file, family);
        } else if core.writes() && self.may_be_held_above(file, family, owner, &held) {
            self.post_unlock(core, Up::Unlock { file, family, owner, range }, held);
        }
        let is_all = family == LockFamily::Flock || range == LockRange::WHOLE;
        let was_lost = is_all && self.lost.remove(&(file, family, owner));
        if was_lost { Err(FsError::Io) } else { Ok(()) }
    }

    /// Our own user stopped waiting for a lock.
    pub(crate) fn locks_give_up<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children, id: RequestId) {
        let granted = self.table.give_up(Asker::Own(id));
        Self::tell_granted(core, children, granted);
        let mut untold = Vec::new();
        if let Some(session) = self.session.as_mut() {
            for (ask, of) in &mut session.asks {
                match *of {
                    LockAsk::Lock(waiting, request) if waiting == id => {
                        *of = LockAsk::Abandoned(request);
                        untold.push(*ask);
                    }
                    LockAsk::Cancelled(waiting, request) if waiting == id => *of = LockAsk::Abandoned(request),
                    LockAsk::Lock(..)
                    | LockAsk::Test(_)
                    | LockAsk::Reclaim(_)
                    | LockAsk::Cancelled(..)
                    | LockAsk::Abandoned(_)
                    | LockAsk::Claim(..)
                    | LockAsk::Relay(_) => {}
                }
            }
        }
        for ask in untold {
            self.post_in_turn(core, Up::LockCancel { ask });
        }
    }

    pub(crate) fn tell_granted<S: MetaStore>(
        core: &mut Core<S>,
        children: &mut Children,
        granted: Vec<(Asker, LockRequest)>,
    ) {
        for (asker, _) in granted {
            match asker {
                Asker::Own(id) => core.end_request(id, Ok(Answer::Done)),
                Asker::Child(origin, ask) => children.grant(origin, ask, core.state.change()),
            }
        }
    }

    /// What was not to be asked before another question was answered is asked now.
    pub(crate) fn wake_held_back<S: MetaStore>(&mut self, core: &mut Core<S>) {
        let held_back = self.session.as_mut().map(|session| std::mem::take(&mut session.held_back));
        core.wake_requests(held_back.unwrap_or_default());
    }

    /// A lock of ours is not ours any more: another may have had it since.
    pub(crate) fn lose_lock<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        file: FileId,
        family: LockFamily,
        owner: LockOwner,
        range: LockRange,
    ) {
        let holder = Self::own_holder(core, owner);
        if self.table.held_in(holder, file, family, range).is_empty() {
            return;
        }
        tracing::warn!(%file, "a lock was lost: another may have had it since");
        if family != LockFamily::Claim {
            self.lost.insert((file, family, owner));
        }
        let granted = self.table.unlock(holder, file, family, range);
        self.note_returned(core, file, family, owner);
        Self::tell_granted(core, children, granted);
    }

    /// Makes the parent hold what we do where it granted what nobody waits for any more.
    fn put_back_lock<S: MetaStore>(&mut self, core: &mut Core<S>, request: &LockRequest) {
        let LockRequest { file, family, owner, range, .. } = *request;
        let mut at = Some(range.start);
        for held in self.table.held_in(Self::own_holder(core, owner), file, family, range) {
            if let Some(start) = at.filter(|start| *start < held.range.start) {
                let range = LockRange { start, end: held.range.start - 1 };
                self.post_in_turn(core, Up::Unlock { file, family, owner, range });
            }
            if held.kind != request.kind {
                let ask = self.ask_lock(core, LockAsk::Reclaim(held));
                self.post_in_turn(core, Up::Lock { ask, request: held });
            }
            at = held.range.end.checked_add(1);
        }
        if let Some(start) = at.filter(|start| *start <= range.end) {
            self.post_in_turn(core, Up::Unlock { file, family, owner, range: LockRange { start, end: range.end } });
        }
    }

    /// Whether a program of this replica has a lock, or waits for the word of a parent about one.
    pub(crate) fn holds_locks<S: MetaStore>(&self, core: &Core<S>) -> bool {
        self.table.is_holder(core.config.origin) || self.asks().next().is_some()
    }

    /// Whether the parent may know of a lock that is let go here. A program that ends lets go of all that it may hold.
    fn may_be_held_above(&self, file: FileId, family: LockFamily, owner: LockOwner, held: &[LockRequest]) -> bool {
        let is_same = |request: &LockRequest| (request.file, request.family, request.owner) == (file, family, owner);
        let is_asked = |ask: &LockAsk| match ask {
            LockAsk::Lock(_, request)
            | LockAsk::Cancelled(_, request)
            | LockAsk::Abandoned(request)
            | LockAsk::Reclaim(request) => is_same(request),
            LockAsk::Test(_) | LockAsk::Claim(..) | LockAsk::Relay(_) => false,
        };
        !held.is_empty() || self.asks().any(is_asked)
    }

    pub(crate) fn own_holder<S: MetaStore>(core: &Core<S>, owner: LockOwner) -> Holder {
        Holder { origin: core.config.origin, owner }
    }

    /// Without a parent nobody gives locks that are the home's to give, nor those of which that cannot be read.
    fn refuse_the_homes<S: MetaStore>(core: &Core<S>, file: FileId) -> Option<Outcome> {
        match Uplink::is_the_homes(core, file) {
            Ok(false) => None,
            Ok(true) => Some(Err(FsError::Unreachable)),
            Err(_) => Some(Err(FsError::Io)),
        }
    }
}
