//! Locks between programs, over one client or over all clients of a station.
//!
//! A client with a session asks its parent and keeps a mirror of what it was
//! granted; without a session the mirror itself decides, among the programs of
//! that client only. In a new session what it holds is reclaimed before
//! anything else is asked; what cannot be had again is lost, as with any lease.

use crate::api::Role;
use crate::locks::{Asker, Holder, Verdict};
use crate::replica::Replica;
use crate::upstream::Standing;
use wayfs_types::request::{Answer, LockFamily, LockOwner, LockRange, LockRequest, Outcome, RequestId};
use wayfs_types::{FileId, FsError, MetaStore, OriginId};
use wayfs_wire::{AskId, Down, LockVerdict, Up};

/// What a lock question to the parent was for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LockAsk {
    Lock(RequestId, LockRequest),
    Test(RequestId),
    Reclaim(LockRequest),
    /// The asker gave up; if it is granted all the same, it is released.
    Abandoned(LockRequest),
}

impl<S: MetaStore> Replica<S> {
    fn own_holder(&self, owner: LockOwner) -> Holder {
        Holder { origin: self.config.origin, owner }
    }

    /// Whether locks are the parent's to give.
    fn locks_go_up(&self) -> bool {
        let connected = |standing| matches!(standing, Standing::CatchingUp | Standing::Live);
        self.config.role == Role::Client && self.upstream.as_ref().is_some_and(|up| connected(up.standing))
    }

    fn ask_lock(&mut self, ask: LockAsk) -> AskId {
        let Some(upstream) = self.upstream.as_mut() else { return AskId(0) };
        let id = AskId(upstream.next_ask);
        upstream.next_ask += 1;
        upstream.lock_asks.insert(id, ask);
        id
    }

    /// A lock for our own user. `None`: it waits.
    pub(crate) fn lock(&mut self, id: RequestId, request: LockRequest) -> Option<Outcome> {
        if self.locks_go_up() {
            let ask = self.ask_lock(LockAsk::Lock(id, request));
            self.tell_parent(Up::Lock { ask, request });
            return None;
        }
        match self.locks.lock(Asker::Own(id), self.own_holder(request.owner), request) {
            Verdict::Granted => Some(Ok(Answer::Done)),
            Verdict::Refused | Verdict::Deadlock => Some(Err(FsError::Locked)),
            Verdict::Overload => Some(Err(FsError::NoSpace)),
            Verdict::Waiting => None,
        }
    }

    pub(crate) fn test_lock(&mut self, id: RequestId, request: LockRequest) -> Option<Outcome> {
        if self.locks_go_up() {
            let ask = self.ask_lock(LockAsk::Test(id));
            self.tell_parent(Up::TestLock { ask, request });
            return None;
        }
        Some(Ok(Answer::Lock(self.locks.test(self.own_holder(request.owner), &request))))
    }

    pub(crate) fn unlock(&mut self, file: FileId, family: LockFamily, owner: LockOwner, range: LockRange) {
        let granted = self.locks.unlock(self.own_holder(owner), file, family, range);
        self.tell_granted(granted);
        if self.locks_go_up() {
            self.tell_parent(Up::Unlock { file, family, owner, range });
        }
    }

    /// Our own user stopped waiting for a lock.
    pub(crate) fn locks_give_up(&mut self, id: RequestId) {
        let granted = self.locks.give_up(Asker::Own(id));
        self.tell_granted(granted);
        let mut cancelled = Vec::new();
        if let Some(upstream) = self.upstream.as_mut() {
            for (ask, of) in &mut upstream.lock_asks {
                if let LockAsk::Lock(waiting, request) = *of
                    && waiting == id
                {
                    *of = LockAsk::Abandoned(request);
                    cancelled.push(*ask);
                }
            }
        }
        for ask in cancelled {
            self.tell_parent(Up::LockCancel { ask });
        }
    }

    fn tell_granted(&mut self, granted: Vec<(Asker, LockRequest)>) {
        for (asker, _) in granted {
            match asker {
                Asker::Own(id) => self.end_request(id, Ok(Answer::Done)),
                Asker::Child(origin, ask) => {
                    self.children.tell(origin, Down::LockAnswer { ask, verdict: LockVerdict::Granted });
                }
            }
        }
    }

    /// The parent's word on a lock.
    pub(crate) fn handle_lock_answer(&mut self, ask: AskId, verdict: LockVerdict) {
        let Some(of) = self.upstream.as_mut().and_then(|up| up.lock_asks.remove(&ask)) else { return };
        match (of, verdict) {
            (LockAsk::Lock(id, request), LockVerdict::Granted) => {
                let holder = self.own_holder(request.owner);
                self.locks.mirror(holder, &request);
                self.end_request(id, Ok(Answer::Done));
            }
            (LockAsk::Lock(id, _), LockVerdict::Overload) => self.end_request(id, Err(FsError::NoSpace)),
            (LockAsk::Lock(id, _), _) => self.end_request(id, Err(FsError::Locked)),
            (LockAsk::Test(id), LockVerdict::Held(held)) => self.end_request(id, Ok(Answer::Lock(Some(held)))),
            (LockAsk::Test(id), _) => self.end_request(id, Ok(Answer::Lock(None))),
            (LockAsk::Abandoned(request), LockVerdict::Granted) => {
                let LockRequest { file, family, owner, range, .. } = request;
                self.tell_parent(Up::Unlock { file, family, owner, range });
            }
            (LockAsk::Reclaim(_), LockVerdict::Granted) | (LockAsk::Abandoned(_), _) => {}
            (LockAsk::Reclaim(request), _) => {
                tracing::warn!(file = %request.file, "a lock was lost while its station was away");
                let holder = self.own_holder(request.owner);
                let granted = self.locks.unlock(holder, request.file, request.family, request.range);
                self.tell_granted(granted);
            }
        }
    }

    /// In a new session: what we hold comes first.
    pub(crate) fn locks_reclaim(&mut self) {
        for request in self.locks.held_by(self.config.origin) {
            let ask = self.ask_lock(LockAsk::Reclaim(request));
            self.tell_parent(Up::Lock { ask, request });
        }
    }

    /// Without a parent, waiting requests try again at the mirror.
    pub(crate) fn locks_parent_lost(&mut self) {
        self.requests.wake_locks();
    }

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
            | Up::Ping { .. } => {}
        }
    }

    fn handle_child_lock(&mut self, child: OriginId, ask: AskId, request: LockRequest) {
        let holder = Holder { origin: child, owner: request.owner };
        let verdict = match self.locks.lock(Asker::Child(child, ask), holder, request) {
            Verdict::Granted => LockVerdict::Granted,
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
        // If it was granted in the meantime, that answer is on its way and the child releases it.
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
