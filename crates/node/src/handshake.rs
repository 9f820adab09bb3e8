//! The first frame of each side: who comes as what, and whether it may.
//!
//! ```text
//! child ── Greeting::Attach ──▶ parent      parent ── Reply::Welcome ──▶ child, then engine messages both ways
//! machine ── Greeting::Join ──▶ home        home ── Reply::Granted ──▶ machine, then the connection ends
//! either is answered by Reply::Refused, after which the connection ends
//! ```
//!
//! `docs/format/content-stream.md` draws them.

use crate::servers::{Have, News};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use wayfs_types::{Admitted, OriginId, Seal, VolumeId};

/// Version of everything that two nodes say to each other. Peers of another version are refused.
pub(crate) const PROTOCOL_VERSION: u16 = 3;

/// Longest greeting in bytes. Said before anything is known of who says it.
pub(crate) const GREETING_LEN_MAX: usize = 64 << 10;
/// Longest reply in bytes, and longest news of the servers: a full list and the places of all fit.
pub(crate) const REPLY_LEN_MAX: usize = 512 << 10;

/// What the dialling side says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Greeting {
    /// "I am your child in this volume."
    Attach {
        version: u16,
        volume: VolumeId,
        origin: OriginId,
        role: ChildRole,
        /// What it knows of the servers.
        have: Have,
        /// What the home signed when it gave it this origin in place of another.
        admission: Option<Seal>,
    },
    /// "I hold a ticket."
    Join {
        version: u16,
        volume: VolumeId,
        /// Which ticket.
        ticket: [u8; 16],
        /// Proof of its secret, bound to this connection and to the key of the dialling machine.
        proof: [u8; 32],
        role: ChildRole,
        label: String,
        /// Under which origin it was a member before, if it was one.
        #[serde(default)]
        former: Option<OriginId>,
    },
    /// "What do you know of the servers of this volume?" Said by members and servers of it.
    Look {
        version: u16,
        volume: VolumeId,
        /// What it knows itself.
        have: Have,
    },
}

/// What may follow [`Reply::Servers`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tell {
    /// What the other side lacks.
    pub(crate) news: News,
}

/// What a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChildRole {
    /// A mount.
    Client,
    /// A station.
    Station,
    /// A mount that may only read. Said when joining; afterwards it attaches as a client, and what it was admitted
    /// as decides.
    Reader,
}

impl ChildRole {
    /// What a machine must be admitted as to come as this. A station's key may also be a client's
    /// only by an origin of its own.
    pub(crate) fn is_admitted_as(self, admitted: Admitted) -> bool {
        match (self, admitted) {
            (Self::Client, Admitted::Client | Admitted::Reader) | (Self::Station, Admitted::Station) => true,
            (
                Self::Client | Self::Station | Self::Reader,
                Admitted::Home | Admitted::Revoked | Admitted::Client | Admitted::Station | Admitted::Reader,
            ) => false,
        }
    }
}

/// What the accepting side answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The session begins.
    Welcome {
        /// What this server knows of the servers.
        have: Have,
        /// Of that, what the child lacks.
        news: News,
        /// Where the child was seen.
        seen_at: SocketAddr,
    },
    /// To [`Greeting::Look`].
    Servers { have: Have, news: News },
    /// The machine is admitted.
    Granted(Grant),
    /// No.
    Refused(Refusal),
}

/// What a machine gets that joins a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The volume.
    pub volume: VolumeId,
    /// Its name at its home.
    pub name: String,
    /// The origin under which the machine writes, for life.
    pub origin: OriginId,
    /// What it was admitted as.
    pub role: ChildRole,
    /// Its label as others see it.
    pub label: String,
    /// Who serves the volume.
    pub news: News,
}

/// Why a server says no. Each says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The server speaks another version.
    #[error(
        "the server speaks version {0} of the protocol, this program version {PROTOCOL_VERSION}: upgrade the older one"
    )]
    Version(u16),
    /// The volume is not served there.
    #[error("this server does not serve that volume: check the ticket, or ask the home's administrator")]
    UnknownVolume,
    /// The key has no business in this volume (or this server has not yet heard of it).
    #[error("this machine is not a member of the volume: join with a new ticket")]
    NotAdmitted,
    /// The key had, but no longer.
    #[error("this machine was removed from the volume: ask its administrator for a new ticket")]
    Revoked,
    /// The server cannot take children now.
    #[error("the server cannot take this session now ({0}): it is tried again by itself")]
    NotReady(String),
    /// No such ticket was issued here.
    #[error("the ticket is unknown to the home: ask for a new one")]
    TicketUnknown,
    /// The ticket admitted another machine.
    #[error("the ticket was used by another machine: a ticket admits one machine only, ask for a new one")]
    TicketSpent,
    /// The ticket's time is over.
    #[error("the ticket has expired: ask for a new one")]
    TicketExpired,
    /// The proof does not fit the ticket.
    #[error("the ticket's secret is wrong: was the ticket copied whole?")]
    TicketWrong,
    /// The ticket admits something else than what was asked.
    #[error("the ticket does not admit a machine in this role: ask for a ticket of that role")]
    TicketRole,
    /// What was said makes no sense.
    #[error("the server did not understand the greeting ({0})")]
    Malformed(String),
    /// The volume is no more. Said by its home, and by stations that heard it of the home.
    #[error("the volume was deleted at its home: what is cached here can still be read and copied away")]
    Deleted,
}

/// A first frame that is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the first frame of the peer is not valid")]
pub(crate) struct BadFrame;

/// Greetings are JSON: they are rare, and a peer of another version must be able to read enough to refuse.
pub(crate) fn encode<T: Serialize>(message: &T) -> Bytes {
    Bytes::from(serde_json::to_vec(message).expect("these messages hold nothing that JSON cannot say"))
}

pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8], len_max: usize) -> Result<T, BadFrame> {
    if bytes.len() > len_max {
        return Err(BadFrame);
    }
    serde_json::from_slice(bytes).map_err(|_| BadFrame)
}

impl Reply {
    /// Whether its parts keep their bounds.
    pub(crate) fn is_well_formed(&self) -> bool {
        match self {
            Self::Welcome { have, news, .. } | Self::Servers { have, news } => {
                have.is_well_formed() && news.is_well_formed()
            }
            Self::Granted(grant) => grant.news.is_well_formed(),
            Self::Refused(_) => true,
        }
    }
}
