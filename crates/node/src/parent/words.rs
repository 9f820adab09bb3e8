//! Why there is no parent, or this one, in words.

use super::shared::Shared;
use super::status::LinkState;
use crate::greet::GreetError;
use crate::handshake::Refusal;
use crate::join::JoinError;
use std::time::Duration;
use wayfs_roam::{AskedIn, Failure, GreetRefusal, Why};

/// What a failed handshake is to the machine.
pub(super) const fn refusal(error: &GreetError) -> GreetRefusal {
    match error {
        GreetError::Refused(Refusal::NotReady(_)) => GreetRefusal::NotReady,
        GreetError::Refused(Refusal::Revoked | Refusal::NotAdmitted) => GreetRefusal::NotMember,
        GreetError::Refused(_) => GreetRefusal::Other,
        GreetError::Interrupted(_) | GreetError::TimedOut | GreetError::Malformed => GreetRefusal::Failed,
    }
}

/// What a failed readmission is to the machine.
pub(super) fn asked_in(error: &JoinError) -> AskedIn {
    if error.is_final() { AskedIn::TicketRefused } else { AskedIn::Failed }
}

/// What the last server that refused this machine said, and what came of a ticket.
#[derive(Debug, Default)]
pub(super) struct LastErrors {
    pub(super) greeting: String,
    pub(super) ticket: String,
}

impl Shared {
    /// What the link's status says of a failed search.
    pub(super) fn state_after(&self, failure: Failure, last: &LastErrors) -> LinkState {
        let words = match failure {
            Failure::NoServers => "no server of this volume is known".to_owned(),
            Failure::Unreachable => self.last_dial_errors(),
            Failure::Refused { .. } => last.greeting.clone(),
            Failure::TakenIn => "the home has taken this machine in again".to_owned(),
            Failure::Ticket { .. } => {
                let why = &last.ticket;
                format!("this machine is no member of the volume (any more), and its new ticket does not help: {why}")
            }
        };
        if failure.is_final() {
            LinkState::Refused { reason: words }
        } else {
            LinkState::Searching { last_error: words }
        }
    }

    fn last_dial_errors(&self) -> String {
        let state = self.lock();
        let errors: Vec<String> = state.measured.values().filter_map(|measured| measured.error.clone()).collect();
        errors.join("; ")
    }
}

/// Why a server was chosen.
pub(super) fn reason(why: Why, rtt: Duration) -> String {
    let ms = rtt.as_secs_f64() * 1e3;
    match why {
        Why::Pinned => format!("chosen by you ({ms:.1} ms away)"),
        Why::Near { answered: 0 | 1 } => format!("the nearest that answered ({ms:.1} ms away)"),
        Why::Near { answered } => {
            format!("as near as the nearest of {answered} that answered, or nearly ({ms:.1} ms away)")
        }
        Why::Shared => format!("the one of those as near as the nearest that all take ({ms:.1} ms away)"),
    }
}
