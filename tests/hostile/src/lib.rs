//! Peers that say what they like, over the real socket, against the real program.
//!
//! A [`Peer`] is a machine with a key of its own. It knows the transport (`wayfs-net`) and the messages (`wayfs-wire`), and none of
//! the program's rules: greetings are written by hand, as `docs/format/` draws them. It comes as a stranger, as a member
//! ([`Peer::join`], [`Session`]), or is a server itself ([`Parent`]).
//!
//! Each test says what the attack did before and what it does since.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on panics"
)]

mod contents;
mod crowd;
mod parent;
mod peer;
mod records;
mod session;

pub use contents::{Ask, Form, Reply};
pub use parent::{FORGED, Parent, Script};
pub use peer::{As, Member, PATIENCE, Peer};
pub use records::{create, inode, record, store};
pub use session::Session;
