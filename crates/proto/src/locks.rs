//! Advisory locks: of our own programs, of children, and those that the home alone gives.

mod absent;
pub(crate) mod asks;
pub(crate) mod children;
pub(crate) mod delegations;
mod departed;
pub(crate) mod grace;
mod held_delegations;
pub(crate) mod kept;
pub(crate) mod left;
pub(crate) mod mail;
mod mailbox;
pub(crate) mod relay;
pub(crate) mod relays;
pub(crate) mod requests;
mod round;
pub(crate) mod rounds;
pub(crate) mod table;
pub(crate) mod taken_along;
pub(crate) mod vouched;
mod vouchers;

use crate::children::ChildKind;
use crate::locks::absent::{KeptLocks, LockGrace};
use crate::locks::asks::LockAsk;
use crate::locks::departed::LeftLocks;
use crate::locks::held_delegations::LockDelegations;
use crate::locks::mailbox::LockMail;
use crate::locks::relays::Relays;
use crate::locks::round::LockRounds;
use crate::locks::table::{ANY_OWNER, LockTable};
use crate::locks::vouchers::{TakenAlong, Vouched};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wayfs_types::request::{LockFamily, LockOwner, LockRequest, RequestId};
use wayfs_types::{FileId, Life, OriginId, Time};
use wayfs_wire::AskId;

/// What a replica knows of locks. No other part sees into it.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    table: LockTable,
    /// What belongs to the session with the parent; `None`: there is none.
    session: Option<Session>,
    /// Locks of stations that are away, or forgot them.
    kept: KeptLocks,
    /// Who may have locks, and whom we wait for after a start.
    grace: LockGrace,
    /// Locks of our own programs that ended without their doing, until they let go: of those that they held, so as many at most.
    lost: BTreeSet<(FileId, LockFamily, LockOwner)>,
    /// What is to be said to the parent about locks.
    mail: LockMail,
    /// Station: what of its children the home has.
    relays: Relays,
    vouched: Vouched,
    /// Client: what its programs had by servers that it left.
    taken_along: TakenAlong,
    /// Server: what clients have that left.
    left: LeftLocks,
    /// What of its children is asked about locks that were taken along.
    rounds: LockRounds,
}

/// Questions and files of one session with the parent.
#[derive(Debug, Default)]
struct Session {
    asks: BTreeMap<AskId, LockAsk>,
    /// Requests for locks that wait until the parent has answered what their owner gave up.
    held_back: Vec<RequestId>,
    /// Client: files whose locks it decides about.
    delegations: LockDelegations,
}

/// What other parts ask and tell.
impl Locks {
    /// What was noted with this input is in the store.
    pub(crate) fn committed(&mut self) {
        self.left.committed();
    }

    /// It came to nothing.
    pub(crate) fn abandon(&mut self) {
        self.left.abandon();
    }

    pub(crate) fn begin_session(&mut self) {
        self.session = Some(Session::default());
    }

    pub(crate) fn end_session(&mut self) {
        self.session = None;
    }

    /// What our programs asked the parent and what it has not answered.
    fn asks(&self) -> impl Iterator<Item = &LockAsk> {
        self.session.iter().flat_map(|session| session.asks.values())
    }

    /// What programs of a replica have locked.
    pub(crate) fn of_programs(&self, replica: OriginId) -> Vec<LockRequest> {
        let held = self.table.held_by(replica);
        held.into_iter().filter(|held| held.family != LockFamily::Claim && held.owner != ANY_OWNER).collect()
    }

    /// Whether a child that is not there held locks.
    pub(crate) fn has_stale(&self, child: OriginId) -> bool {
        self.table.has_stale(child)
    }

    #[cfg(test)]
    pub(crate) fn keeps_anything_of(&self, client: OriginId) -> bool {
        self.left.keeps_anything_of(client)
    }

    /// Somebody waits for a lock until what was done under it, and its release, are at the parent.
    pub(crate) fn is_release_waiting(&self) -> bool {
        self.mail.is_waiting()
    }

    /// Nobody waits any more for what a request claimed. Answers the questions about it that the parent has not answered.
    pub(crate) fn abandon_claims(&mut self, id: RequestId) -> Vec<AskId> {
        let mut asked = Vec::new();
        for (ask, of) in self.session.iter_mut().flat_map(|session| &mut session.asks) {
            if let LockAsk::Claim(waiting, request) = *of
                && waiting == id
            {
                *of = LockAsk::Abandoned(request);
                asked.push(*ask);
            }
        }
        asked
    }

    /// A child's lease is over.
    pub(crate) fn note_away(&mut self, child: OriginId, kind: ChildKind, heard: Time) {
        self.kept.note_away(child, kind, heard);
    }

    /// A child begins a session, in a life of its store.
    pub(crate) fn note_back(&mut self, child: OriginId, life: Life) {
        self.kept.note_back(child);
        self.grace.note_back(child, life);
    }

    /// The same of a station that may have forgotten what it had.
    pub(crate) fn note_back_forgetful(&mut self, child: OriginId, life: Life, lease: Duration) {
        self.kept.note_back_forgetful(child, lease);
        self.table.mark_forgotten(child);
        self.grace.note_back(child, life);
    }

    /// When the next child is waited for no longer.
    pub(crate) fn next_child_end(&self, lease: Duration) -> Option<Time> {
        self.kept.next(lease).into_iter().chain(self.grace.next()).min()
    }

    /// When time alone changes something here.
    pub(crate) fn timeout(&self) -> Option<Time> {
        let of_session = self.session.as_ref().and_then(|session| session.delegations.timeout());
        let ends = [of_session, self.left.next_end(), self.rounds.next_end(), self.table.next_late_return()];
        ends.into_iter().flatten().min()
    }
}
