//! Floor 2: peers over QUIC, where an identity is a key.
//!
//! An [`Endpoint`] dials and accepts over one UDP socket. A [`Connection`] names
//! its peer by [`NodeId`](wayfs_types::NodeId) and carries three kinds of traffic:
//!
//! 1. **frames** of the replica protocol, ordered, on one stream that goes before
//!    everything else, packed where the path is slow ([`FrameSender`], [`FrameReceiver`]);
//!    a thread may send them itself where somebody waits for them ([`SendHere`]);
//! 2. **requests** for contents, each on a stream of its own behind the frames
//!    ([`Connection::request`], [`IncomingRequest`], [`SendBody`], [`RecvBody`]);
//! 3. **probes** that find the end of an outage soon ([`Waiting`]).
//!
//! Who may do what is decided above: this crate proves who the peer is and no more.
//! What is deliberately absent: the protocol's messages, volumes, retries of requests.

mod accept;
mod address;
mod bind;
mod body;
mod certificate;
mod close;
mod config;
mod congestion;
mod connection;
mod control;
mod delivery;
mod dial;
mod door;
mod endpoint;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod here;
mod identity;
mod identity_file;
mod intake;
mod key_change;
mod ledger;
mod loss;
mod outbox;
mod pace;
mod packing;
mod packing_rule;
mod passphrase;
mod path_state;
mod patient_timer;
mod priority;
mod probe;
mod request;
mod request_error;
mod request_head;
mod resolve;
mod respond;
mod shared;
mod silence;
mod socket;
mod steady;
mod stream;
mod ticket;
mod ticket_secret;
mod traffic;
mod turns;
#[cfg(test)]
mod virtual_path;
mod yielding;

pub use address::{Address, AddressError};
pub use bind::BindError;
pub use body::{BODY_PIECE_MAX, BodyStarts, RecvBody, SendBody};
pub use close::{CloseCode, Closed, StreamCode};
pub use config::{ConfigError, NetConfig};
pub use congestion::Congestion;
pub use connection::{ChannelBinding, Connection};
pub use control::{FrameError, FrameReceiver, FrameSender, TrySendError};
pub use dial::{AttemptError, ConnectError};
pub use endpoint::{Endpoint, LinkNotice};
pub use frame::FRAME_LEN_MAX;
pub use here::SendHere;
pub use identity::{IdentityError, NodeIdentity, verify_signature};
pub use key_change::{KEY_CHANGES_MAX, KeyChange, NotSigned, follow};
pub use packing::UnpackError;
pub use packing_rule::FramePacking;
pub use passphrase::Passphrase;
pub use priority::Priority;
pub use probe::{Probing, Waiting};
pub use request::{Call, SignsOfProgress};
pub use request_error::{HEADER_LEN_MAX, RequestError};
pub use resolve::Resolver;
pub use respond::{IncomingRequest, Responder};
pub use stream::Moved;
pub use ticket::{ADDRESSES_MAX, NAME_LEN_MAX, Ticket, TicketError, TicketParts, TicketRole};
pub use ticket_secret::{TicketId, TicketSecret};

pub use traffic::{ConnectionStats, Traffic};
