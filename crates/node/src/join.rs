//! Becoming a member of a volume with a ticket: the joining side.

use crate::error::MemberError;
use crate::greet::{GreetError, greet};
use crate::handshake::{ChildRole, Grant, Greeting, PROTOCOL_VERSION, Refusal, Reply};
use std::time::Duration;
use wayfs_net::{CloseCode, ConnectError, Endpoint, Ticket, TicketRole};
use wayfs_types::OriginId;

/// How often a join is tried when the connection breaks in the middle: the home gives the same machine the
/// same answer, so that trying again is safe.
const ATTEMPTS: u32 = 3;

/// Why a machine could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The home cannot be reached.
    #[error("the home of volume {volume} cannot be reached: {source}; check the network and the home's address")]
    Unreachable {
        /// The volume's name.
        volume: String,
        /// What happened.
        source: ConnectError,
    },
    /// The home said no, or the talk broke off.
    #[error("join volume {volume}: {source}")]
    Greet {
        /// The volume's name.
        volume: String,
        /// What happened.
        source: GreetError,
    },
    /// The home granted something else than the ticket says.
    #[error("the home granted something else than the ticket says")]
    Mismatch,
    /// The home took this machine in, and that cannot be written down here.
    #[error("go on as member {origin}: {source}")]
    Store {
        /// What the home granted.
        origin: OriginId,
        /// What happened.
        source: MemberError,
    },
}

impl JoinError {
    /// Whether the home said of this ticket what it will say again.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Greet { source: GreetError::Refused(refusal), .. } => !matches!(refusal, Refusal::NotReady(_)),
            Self::Mismatch => true,
            Self::Unreachable { .. } | Self::Greet { .. } | Self::Store { .. } => false,
        }
    }
}

/// Presents a ticket at the home and gets an origin for this machine. The secret does not cross the wire.
///
/// # Errors
/// [`JoinError`]. After any but a refusal the same ticket may be tried again from the same machine.
pub async fn join(endpoint: &Endpoint, ticket: &Ticket, label: &str) -> Result<Grant, JoinError> {
    join_again(endpoint, ticket, label, None).await
}

/// The same for a machine that was a member before: the home gives it the origin back that it had, if it may have it.
///
/// # Errors
/// As [`join`].
pub(crate) async fn join_again(
    endpoint: &Endpoint,
    ticket: &Ticket,
    label: &str,
    former: Option<OriginId>,
) -> Result<Grant, JoinError> {
    let mut pause = Duration::from_millis(200);
    for attempt in 1.. {
        match join_once(endpoint, ticket, label, former).await {
            Err(JoinError::Greet { source: GreetError::Interrupted(_) | GreetError::TimedOut, .. })
                if attempt < ATTEMPTS => {}
            result => return result,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Err(JoinError::Mismatch)
}

async fn join_once(
    endpoint: &Endpoint,
    ticket: &Ticket,
    label: &str,
    former: Option<OriginId>,
) -> Result<Grant, JoinError> {
    let volume = ticket.volume_name().to_owned();
    let connection = endpoint
        .connect(ticket.addresses(), ticket.home())
        .await
        .map_err(|source| JoinError::Unreachable { volume: volume.clone(), source })?;
    let role = match ticket.role() {
        TicketRole::Client => ChildRole::Client,
        TicketRole::Station => ChildRole::Station,
        TicketRole::Reader => ChildRole::Reader,
    };
    let greeting = Greeting::Join {
        version: PROTOCOL_VERSION,
        volume: ticket.volume(),
        ticket: *ticket.secret().id().as_bytes(),
        proof: ticket.secret().proof(&connection.channel_binding(), endpoint.id()),
        role,
        label: label.to_owned(),
        former,
    };
    let result = greet(&connection, &greeting).await;
    connection.close(CloseCode::GOODBYE, "");
    match result {
        Ok((_, Reply::Granted(grant))) if grant.volume == ticket.volume() && grant.role == role => Ok(grant),
        Ok((_, Reply::Refused(refusal))) => Err(JoinError::Greet { volume, source: refusal.into() }),
        Ok((_, Reply::Granted(_) | Reply::Welcome { .. } | Reply::Servers { .. })) => Err(JoinError::Mismatch),
        Err(source) => Err(JoinError::Greet { volume, source }),
    }
}
