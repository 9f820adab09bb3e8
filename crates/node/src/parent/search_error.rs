//! Why a link has no parent, and whether it is worth trying again soon.

use super::status::LinkState;
use crate::greet::GreetError;
use crate::handshake::Refusal;
use crate::join::JoinError;

/// Why a search for a parent made no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum SearchError {
    #[error("no server of this volume is known")]
    NoServers,
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}: {1}")]
    Greet(String, GreetError),
    #[error("the home has taken this machine in again")]
    TakenIn,
    #[error("this machine is no member of the volume (any more), and its new ticket does not help: {0}")]
    Ticket(JoinError),
}

impl SearchError {
    /// Whether trying again soon is pointless.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::NoServers | Self::Unreachable(_) | Self::TakenIn => false,
            Self::Ticket(error) => error.is_final(),
            Self::Greet(_, GreetError::Refused(refusal)) => !matches!(refusal, Refusal::NotReady(_)),
            Self::Greet(_, GreetError::Interrupted(_) | GreetError::TimedOut | GreetError::Malformed) => false,
        }
    }

    /// What the link's status says of it.
    pub(super) fn into_state(self) -> LinkState {
        if self.is_final() {
            LinkState::Refused { reason: self.to_string() }
        } else {
            LinkState::Searching { last_error: self.to_string() }
        }
    }
}
