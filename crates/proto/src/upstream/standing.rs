//! What every part may know of the session with the parent, and how it is spoken to.

use crate::api::{Output, PeerId};
use crate::replica::core::Core;
use crate::state::position::LogPosition;
use crate::upstream::line::{Line, UplinkState};
use wayfs_types::{CommitNumber, MetaStore, Time};
use wayfs_wire::{AskId, Message, Stamp, Up};

impl<S: MetaStore> Core<S> {
    /// Where the session stands; `None`: there is none.
    pub(crate) fn standing(&self) -> Option<UplinkState> {
        self.line.as_ref().map(|line| line.state)
    }

    /// Whether there is a session.
    pub(crate) fn has_parent(&self) -> bool {
        self.line.is_some()
    }

    /// Who is at the other end of it.
    pub(crate) fn parent(&self) -> Option<PeerId> {
        self.line.as_ref().map(|line| line.peer)
    }

    /// Which store the parent has; `None`: there is no session, or it has not said yet.
    pub(crate) fn parent_stamp(&self) -> Option<Stamp> {
        self.line.as_ref().and_then(|line| line.stamp)
    }

    /// Our cache may be trusted until then.
    pub(crate) fn lease_until(&self) -> Option<Time> {
        self.line.as_ref().map(|line| line.lease_until)
    }

    /// Our own change after which all that the parent vouched for came in this session.
    pub(crate) fn vouched_since(&self) -> Option<CommitNumber> {
        self.line.as_ref().map(|line| line.since)
    }

    /// Positions of the log up to here were sent in this session, or need not be.
    pub(crate) fn sent_position(&self) -> Option<LogPosition> {
        self.line.as_ref().map(|line| line.position)
    }

    /// A number for a question that is put in this session.
    pub(crate) fn next_ask(&mut self) -> Option<AskId> {
        self.line.as_mut().map(Line::next_ask)
    }

    /// Sends to the parent, if there is a session.
    pub(crate) fn tell_parent(&mut self, up: Up) {
        if let Some(line) = &self.line {
            let bytes = wayfs_wire::encode(&Message::Up(up));
            self.outputs.push_back(Output::Send { peer: line.peer, bytes });
        }
    }

    /// The same when this input is committed.
    pub(crate) fn stage_to_parent(&mut self, up: Up) {
        if let Some(line) = &self.line {
            let bytes = wayfs_wire::encode(&Message::Up(up));
            self.state.stage_output(Output::Send { peer: line.peer, bytes });
        }
    }

    /// Whether the cache may be trusted: a live session, and its lease.
    pub(crate) fn is_trusted(&self) -> bool {
        let is_live = |line: &Line| line.state == UplinkState::Live && self.now < line.lease_until;
        self.orders() || self.line.as_ref().is_some_and(is_live)
    }
}
