//! The live driver: an exchange over a socket, and an export with files on top. One thread, several calls in flight.
//!
//! Every wait ends when the flag in [`Options::interrupt`] is set, at the latest a tenth of a second later.

mod caller;
mod export;
mod reserved;
mod shared;
mod socket;
mod transfer;

pub use caller::{Caller, LiveError};
pub use export::{BlockSizes, Export, Located, Ports};
pub use shared::{Blocks, Class, Done, Outcome, SharedCaller, Ticket};
pub use socket::Transport;
pub use transfer::Source;

use crate::WaitPolicy;
use crate::retry::Retry;
use crate::rpc::Credentials;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How much a call reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// What fits to what is lost.
    Auto,
    /// So many bytes, 512 to 65,536.
    Fixed(u32),
}

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Over what calls are carried. Default UDP.
    pub transport: Transport,
    /// When calls over UDP are sent again. Over TCP the kernel does that, and calls go again with a new connection. Default ours.
    pub retry: Retry,
    /// How long a call is tried. Default hard: for ever.
    pub wait_policy: WaitPolicy,
    /// Default auto.
    pub block: Block,
    /// Most calls in flight; as many as the path takes are. Default 64.
    pub in_flight_max: usize,
    /// Who calls. Default: this process.
    pub credentials: Credentials,
    /// Ends every wait when set.
    pub interrupt: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        let uname = rustix::system::uname();
        let credentials = Credentials {
            machine: uname.nodename().to_string_lossy().into_owned(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: Vec::new(),
        };
        Self {
            transport: Transport::Udp,
            retry: Retry::default(),
            wait_policy: WaitPolicy::Hard,
            block: Block::Auto,
            in_flight_max: 64,
            credentials,
            interrupt: Arc::default(),
        }
    }
}
