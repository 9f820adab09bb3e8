//! Arguments of the commands that run daemons, and of those that end mounts.

use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use wayfs_net::Address;

/// Of `wayfs serve`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Data directory [default: /var/lib/wayfs/server for root, else ~/.local/state/wayfs/server]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address and UDP port to listen at [default: [::]:7475]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Name or address that tickets and the register tell, if it differs (repeat for several); names are resolved anew each time
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise: Vec<Address>,
    /// Which contents go to the home before anyone asks: on-demand, write-through, periodic:15s, ih:2, ttnu:0.5, atd
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    /// Do not announce this server on the local network (multicast DNS)
    #[arg(long)]
    pub(crate) no_mdns: bool,
    /// Serve Prometheus metrics over HTTP at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Open this volume although metadata of it is lost or damaged, and go on with what is left (repeat for several)
    #[arg(long, value_name = "VOLUME")]
    pub(crate) accept_loss: Vec<String>,
    /// File whose first line is the passphrase that the key is sealed with; a key in the clear is sealed then for good [default: the
    /// credential `wayfs-passphrase` of the unit, if it has one]
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Go into the background; return when it serves
    #[arg(long)]
    pub(crate) daemon: bool,
}

/// Of `wayfs mount`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MountArgs {
    /// nfs://HOST[:PORT]/EXPORT, or the volume: a ticket, a file that holds one, `-` for standard input, or the name of a volume that was mounted before
    /// [env: WAYFS_TICKET holds the ticket, or `-` for standard input, if only DIR is given]
    #[arg(value_name = "TICKET|NAME")]
    pub(crate) source: PathBuf,
    /// Where
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Mount options: ro, allow_other, offline, nomdns, cache_size=10GiB, close=safe, sharing=close-to-open|relaxed, watch=on|off (whether programs that watch directories for events hear what other machines do), cache=DIR, metrics=ADDRESS, link=SOCKET|none (whose news are heeded; without it those of all `wayfs link` of this machine), uid=USER and gid=GROUP (all is shown as theirs), umask=OCTAL (modes are shown as of new files), idmap=none|names|file:PATH (names: those that the volume keeps when the mount begins, see `wayfs people`; file: lines `user NUMBER NAME` and `group NUMBER NAME`: number in the volume, name or number here); those of fstab are ignored. Of nfs://: proto=udp|tcp, retry=POLICY, bsize=auto|BYTES, soft=TRIES|hard, port=, mountport=, uid=, gid=, actimeo=SECONDS, acregmin=, acregmax=, acdirmin=, acdirmax=, noac, link=SOCKET, inflight=CALLS, ro, allow_other, noexec
    #[arg(short = 'o', value_name = "KEY=VALUE,…", value_delimiter = ',')]
    pub(crate) options: Vec<String>,
    /// State and cache of mounts [default: /var/lib/wayfs/mounts for root, else ~/.local/state/wayfs/mounts]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Bound on the cache, such as 10GiB or 500M [default: 10GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache_size: Option<String>,
    /// What close() promises [default: asynchronous]
    #[arg(long, value_enum)]
    pub(crate) close: Option<CloseArg>,
    /// When other clients of the same server see what is closed here [default: at once where the server is near]
    #[arg(long, value_enum)]
    pub(crate) sharing: Option<SharingArg>,
    /// Mount read-only
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Begin without looking for a station (until `wayfs auto`)
    #[arg(long)]
    pub(crate) offline: bool,
    /// Do not look for stations on the local network (multicast DNS)
    #[arg(long)]
    pub(crate) no_mdns: bool,
    /// Let other users in (root may always; others need user_allow_other in /etc/fuse.conf)
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Serve Prometheus metrics over HTTP at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// File whose first line is the passphrase that the key is sealed with; a key in the clear is sealed then for good [default: the
    /// credential `wayfs-passphrase` of the unit, if it has one]
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Go into the background; return when it is mounted
    #[arg(long)]
    pub(crate) daemon: bool,
}

/// What `close()` promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CloseArg {
    /// It is in the local log; safe soon after
    Asynchronous,
    /// It is safe at the station
    Safe,
}

/// When clients of one server see each other's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SharingArg {
    /// At once, as programs expect of one machine
    CloseToOpen,
    /// When the news arrives; no change waits
    Relaxed,
}

/// Of `wayfs umount`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UmountArgs {
    /// The mount point
    pub(crate) dir: PathBuf,
    /// Wait until everything is safe; stay mounted and exit 1 if that fails
    #[arg(long)]
    pub(crate) flush: bool,
    /// Longest wait for that
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) timeout: u64,
    /// Unmount although files are open, or clean up after a daemon that died
    #[arg(long)]
    pub(crate) force: bool,
}
