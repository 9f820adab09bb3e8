//! The line to the parent, and where the session with it stands.

use crate::api::PeerId;
use crate::state::position::LogPosition;
use wayfs_types::{CommitNumber, Time};
use wayfs_wire::{AskId, Stamp};

/// The line to the parent, as long as there is a session.
#[derive(Debug)]
pub(crate) struct Line {
    pub(super) peer: PeerId,
    pub(super) state: UplinkState,
    /// Our own change after which all that the parent vouched for came in this session.
    pub(super) since: CommitNumber,
    /// Our cache may be trusted until then.
    pub(super) lease_until: Time,
    pub(super) stamp: Option<Stamp>,
    /// Positions of the log up to here were sent or need not be.
    pub(super) position: LogPosition,
    next_ask: u64,
}

impl Line {
    /// That of a session that begins.
    pub(super) fn new(peer: PeerId, since: CommitNumber, lease_until: Time) -> Self {
        let (stamp, position) = (None, LogPosition::START);
        Self { peer, state: UplinkState::Greeting, since, lease_until, stamp, position, next_ask: 1 }
    }

    /// A number for a question.
    pub(super) fn next_ask(&mut self) -> AskId {
        let id = AskId(self.next_ask);
        self.next_ask += 1;
        id
    }

    /// The number of the next question.
    pub(super) const fn coming_ask(&self) -> AskId {
        AskId(self.next_ask)
    }
}

/// Where the session with the parent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UplinkState {
    Greeting,
    Migrating,
    CatchingUp,
    Live,
    /// It is about another history of ours: only a new origin is spoken of.
    Forked,
}
