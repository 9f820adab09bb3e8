//! Arguments of `wayfs nfs`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `wayfs nfs …`
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum NfsCommand {
    /// Fetch a file
    Get {
        /// nfs://HOST[:PORT]/EXPORT/PATH
        url: String,
        /// Where to; its name in this directory if absent. What is there is replaced when all has come
        file: Option<PathBuf>,
        #[command(flatten)]
        options: NfsOptions,
    },
    /// Store a file; done when the server has it on disk
    Put {
        /// What
        file: PathBuf,
        /// nfs://HOST[:PORT]/EXPORT/PATH
        url: String,
        #[command(flatten)]
        options: NfsOptions,
    },
    /// List a directory, or the exports of nfs://HOST
    Ls {
        /// nfs://HOST[:PORT][/EXPORT[/PATH]]
        url: String,
        #[command(flatten)]
        options: NfsOptions,
    },
    /// Tell NFS mounts (all, or that of --at) what the link below them did: calls in flight go again at once, and timers begin anew
    Notice {
        /// What it did
        #[arg(value_enum)]
        notice: NoticeArg,
    },
    /// Write a file of zeros and read it again, and say how long it took and what was sent twice; the file is removed
    Bench {
        /// nfs://HOST[:PORT]/EXPORT[/PATH], a directory
        url: String,
        /// KiB to write and read
        #[arg(long, value_name = "KIB", default_value_t = 1024)]
        size: u32,
        #[command(flatten)]
        options: NfsOptions,
    },
}

/// What a link did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NoticeArg {
    /// Nothing passes until further notice
    Down,
    /// It passes again
    Up,
    /// Another cell: what is in flight may be lost
    Handoff,
}

/// Over what calls are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtoArg {
    /// Datagrams
    Udp,
    /// A connection
    Tcp,
}

/// How a server is called.
#[derive(Debug, Clone, Args)]
pub(crate) struct NfsOptions {
    /// Over what calls are carried
    #[arg(long, value_enum, default_value = "udp")]
    pub(crate) proto: ProtoArg,
    /// When calls over UDP are sent again: ours, adaptive, exponential[:first=1s], hybrid[:first=0.7s,r=3,c=0.1s], constant[:every=1s]
    #[arg(long, value_name = "POLICY", default_value = "ours")]
    pub(crate) retry: String,
    /// Bytes of a read or write, 512 to 65536, or auto
    #[arg(long, value_name = "BYTES", default_value = "auto")]
    pub(crate) bsize: String,
    /// Most calls in flight
    #[arg(long, value_name = "CALLS", default_value_t = 64)]
    pub(crate) in_flight: u16,
    /// Give a call up after so many sendings; without it, it is tried until Ctrl-C
    #[arg(long, value_name = "TRIES")]
    pub(crate) soft: Option<u32>,
    /// Port of the mount protocol; without it, the port mapper is asked
    #[arg(long, value_name = "PORT")]
    pub(crate) mount_port: Option<u16>,
}
