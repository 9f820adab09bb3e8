//! Arguments of `wayfs link`.

use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use wayfs_hoplink::Pool;
use wayfs_net::Address;

/// `wayfs link …`
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LinkCommand {
    /// Be the near end of a bad hop: prints the ticket for mobiles, and runs until Ctrl-C. Needs root
    Base(LinkBaseArgs),
    /// Be the far end: brings up a device whose traffic is repaired on the hop, and runs until Ctrl-C. Needs root
    Mobile(LinkMobileArgs),
    /// Losses seen and hidden, retransmissions, queue and channel of the links of this machine
    Status(LinkStatusArgs),
    /// Tell a link that the mobile is about to be reached another way: what is unanswered goes again at once
    HandOff(LinkSocketArg),
}

/// A base's.
#[derive(Debug, Clone, Args)]
pub(crate) struct LinkBaseArgs {
    /// Where handshakes are answered (UDP); datagrams come to the next port
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:7480")]
    pub(crate) listen: SocketAddr,
    /// Where mobiles find it, if that is another address (may be given up to four times)
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Vec<Address>,
    /// Addresses for mobiles; the first is the base's own
    #[arg(long, value_name = "CIDR", default_value = "10.177.0.0/24")]
    pub(crate) pool: Pool,
    /// Write the ticket to this new file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Make a new ticket; those given out before are worthless then
    #[arg(long)]
    pub(crate) new_ticket: bool,
    #[command(flatten)]
    pub(crate) options: LinkOptions,
}

/// A mobile's.
#[derive(Debug, Clone, Args)]
pub(crate) struct LinkMobileArgs {
    /// What `wayfs link base` printed, the file that it wrote, or - for standard input
    #[arg(value_name = "TICKET|FILE|-")]
    pub(crate) ticket: String,
    /// Route everything over the link, but what is for the base itself and for networks with a route of their own
    #[arg(long)]
    pub(crate) default: bool,
    /// Seconds between handshakes, which change the keys
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub(crate) rekey: u64,
    #[command(flatten)]
    pub(crate) options: LinkOptions,
}

/// In which order packets are handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    /// As they were given
    Kept,
    /// As they come
    Free,
}

/// What both ends can be told.
#[derive(Debug, Clone, Args)]
pub(crate) struct LinkOptions {
    /// What is done about losses: ours, ll, ll-order, ll-sack, snoop, snoop-sack, eln, split, split-sack, fec:N,K or none; a mobile takes the base's
    #[arg(long, value_name = "NAME")]
    pub(crate) scheme: Option<String>,
    /// Name of the device; wayfs-base and wayfs-link by default
    #[arg(long, value_name = "NAME")]
    pub(crate) tun: Option<String>,
    /// Longest packet through the device
    #[arg(long, value_name = "BYTES", default_value_t = wayfs_hoplink::MTU_DEFAULT, value_parser = clap::value_parser!(u16).range(1280..=65_000))]
    pub(crate) mtu: u16,
    /// Transmissions of a frame or segment, at most
    #[arg(long, value_name = "COUNT")]
    pub(crate) tries: Option<u32>,
    /// Shortest silence after which something goes again (published: 200 ms)
    #[arg(long, value_name = "MS")]
    pub(crate) timeout: Option<u64>,
    /// Frames on their way, 1 to 512
    #[arg(long, value_name = "FRAMES")]
    pub(crate) window: Option<u32>,
    /// In which order packets are handed on
    #[arg(long, value_enum)]
    pub(crate) order: Option<OrderArg>,
    /// A packet is given up after so long
    #[arg(long, value_name = "MS")]
    pub(crate) delay: Option<u64>,
    /// KiB that wait for the hop; without it, what it carries in 300 ms
    #[arg(long, value_name = "KIB")]
    pub(crate) queue: Option<u32>,
    /// Ask for room at the other end before sending
    #[arg(long)]
    pub(crate) reservation: bool,
    /// Directory of the own key (and a base's ticket)
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Socket of signals and state; /run/wayfs-link/DEVICE.sock by default
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
}

/// Of `wayfs link status`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LinkStatusArgs {
    /// Again every second until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) socket: LinkSocketArg,
}

/// Which link.
#[derive(Debug, Clone, Args)]
pub(crate) struct LinkSocketArg {
    /// Socket of the link; all links of this machine if absent
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
}
