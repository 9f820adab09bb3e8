//! Floor 3: `wayfs link`, a lossy last hop repaired for any traffic, on real interfaces.
//!
//! A *base* at the near end and a *mobile* at the far one each have a TUN device; what enters one leaves the other. Between them
//! go sealed datagrams (`seal`), whose keys come from a handshake over `net` (`greeting`, `base`, `mobile`). What is
//! done about losses is the pure code of crate `hop`, one [`End`](end) for each peer; the engine moves packets between device, end and socket, and
//! tells what happens to whoever listens at a socket of JSON lines (`news`, `docs/format/link-signals.md`).
//!
//! What is deliberately absent: any knowledge of volumes and files; a congestion controller (the hop's `Pace` keeps it busy and its queue
//! short); more than one base for a mobile.
#![allow(unsafe_code, reason = "TUN devices and the MTU of a path have no safe interface")]

mod base;
mod clock;
mod config;
mod end;
mod engine;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod greeting;
mod host;
mod keys;
mod mobile;
mod news;
mod peer;
mod report;
mod seal;
mod sessions;
mod split;
mod state;
mod ticket;
mod tun;
mod wake;

pub use base::{StartedBase, Stopper, run_base};
pub use config::{BaseConfig, Common, MTU_DEFAULT, MobileConfig, Pool, PoolError, Settings};
pub use error::LinkError;
pub use mobile::{StartedMobile, run_mobile};
pub use news::{ask, default_socket, socket_directory, sockets};
pub use report::{LinkReport, PeerReport};
pub use ticket::{LinkTicket, LinkTicketError};
pub use wayfs_hop::Order;
