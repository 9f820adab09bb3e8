//! Arguments of the tools.

use super::since::since;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use wayfs_control::{Keep, Level};

/// Of `wayfs stop`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StopArgs {
    /// Every daemon of yours: mounts first, then servers
    #[arg(long)]
    pub(crate) all: bool,
}

/// `wayfs volume …`
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make a volume; this server is its home
    Create {
        /// Its name
        name: String,
        /// Whom its root belongs to, by names of this machine or numbers [default: who gives the command]
        #[arg(long, value_name = "USER[:GROUP]")]
        owner: Option<String>,
        /// Let the group of its root make files in it; what they make is the group's, too
        #[arg(long)]
        group_writable: bool,
    },
    /// Volumes of the server
    List,
    /// Issue a ticket: it admits one machine, once
    Ticket(TicketArgs),
    /// Copy a directory of this machine, or a tar archive, into a volume
    Import(ImportArgs),
    /// Copy a volume into a directory of this machine, or into a tar archive
    Export(ExportArgs),
    /// Copy all that the home has of a volume, while it is in use; again into the same directory copies what is new
    Backup(BackupArgs),
    /// Put a backup into a server's data directory; the server must not run
    Restore(RestoreArgs),
    /// Give a home another key, for all its volumes; members and tickets that know the old one go on. The server must not run
    RotateKey(RotateKeyArgs),
    /// Make this station the home of its volume: for a home that is gone for good
    Promote(PromoteArgs),
    /// Delete a volume for good, at its home and at all its stations
    Delete(DeleteArgs),
    /// Who was admitted
    Members {
        /// The volume
        volume: String,
    },
    /// How much a member, or the whole volume, may take up; without --bytes and --files only shows it
    Quota {
        /// The volume
        volume: String,
        /// Of this member: USER@HOST, origin number or node id. Without it: of all together
        #[arg(long, value_name = "MEMBER")]
        member: Option<String>,
        /// Bytes of contents, like 10GiB; 0: no quota
        #[arg(long, value_name = "SIZE")]
        bytes: Option<String>,
        /// Files, directories and everything else that has a name; 0: no quota
        #[arg(long, value_name = "COUNT")]
        files: Option<u64>,
    },
    /// The keys of the volume's machines, whole, to compare by voice
    Fingerprint {
        /// The volume
        volume: String,
    },
    /// Declare contents lost that only machines have which are away: the files show what they held before. Taken back if they come
    AcceptLoss {
        /// The volume
        volume: String,
        /// Only what waits for this member: USER@HOST, origin number or node id
        #[arg(long, value_name = "MEMBER")]
        member: Option<String>,
        /// Only say what would be given up
        #[arg(long)]
        dry_run: bool,
    },
    /// Refuse a member from this moment on (a lost laptop)
    Revoke {
        /// The volume
        volume: String,
        /// USER@HOST, origin number or node id, as `members` shows them
        member: String,
        /// Drop what it wrote and the home has not yet, wherever it comes from: somebody may have its key. Without it, what a station has
        /// of it is still taken
        #[arg(long)]
        fence: bool,
    },
}

/// Of `wayfs volume ticket`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TicketArgs {
    /// The volume
    pub(crate) volume: String,
    /// Admit a station instead of a client
    #[arg(long)]
    pub(crate) station: bool,
    /// Admit a client that may only read
    #[arg(long, conflicts_with = "station")]
    pub(crate) read_only: bool,
    /// All that the member makes belongs to this user and group (`USER:GROUP`, by name or number), and it changes nobody's owner;
    /// servers see to it
    #[arg(long, value_name = "UID:GID", conflicts_with = "station")]
    pub(crate) squash: Option<String>,
    /// The member makes no set-id files, no devices, and no attributes below `security.` and `trusted.`; servers see to it
    #[arg(long, conflicts_with = "station")]
    pub(crate) no_setid: bool,
    /// The member sees and changes only what lies below this directory of the volume; servers see to it
    #[arg(long, value_name = "DIR", conflicts_with = "station")]
    pub(crate) path: Option<PathBuf>,
    /// Hours until it expires
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub(crate) hours: u64,
    /// Write it to a new file (mode 0600) instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Of `wayfs volume rotate-key`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RotateKeyArgs {
    /// Data directory of the server
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Do it; without this, only shows the key and those that it is still known by
    #[arg(long)]
    pub(crate) yes: bool,
    /// Keep the key, and be known by those of before no more: who has not heard of it by then needs a ticket
    #[arg(long, conflicts_with = "yes")]
    pub(crate) end: bool,
    /// File whose first line is the passphrase that the key is sealed with
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

/// Of `wayfs volume promote`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PromoteArgs {
    /// The volume
    pub(crate) volume: String,
    /// Do it; without this, only says what would be missing
    #[arg(long)]
    pub(crate) yes: bool,
    /// Although the home answers, or this station does not have all metadata: what it lacks is lost
    #[arg(long)]
    pub(crate) force: bool,
}

/// Of `wayfs volume delete`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeleteArgs {
    /// The volume
    pub(crate) volume: String,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Although members are connected: what they have not sent is lost to all but them
    #[arg(long)]
    pub(crate) force: bool,
}

/// Of `wayfs volume import`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImportArgs {
    /// The volume
    pub(crate) volume: String,
    /// The directory to copy
    #[arg(required_unless_present = "tar", conflicts_with = "tar")]
    pub(crate) from: Option<PathBuf>,
    /// A tar archive instead of a directory; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) tar: Option<PathBuf>,
    /// Directory in the volume that receives it [default: the root]
    #[arg(long, value_name = "PATH")]
    pub(crate) into: Option<PathBuf>,
}

/// Of `wayfs volume export`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExportArgs {
    /// The volume
    pub(crate) volume: String,
    /// Directory that is empty or not there
    #[arg(required_unless_present = "tar", conflicts_with = "tar")]
    pub(crate) to: Option<PathBuf>,
    /// A new tar archive instead of a directory; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) tar: Option<PathBuf>,
    /// Keep set-id bits and the attributes security.* and trusted.*, which any writing member may have given to any file
    #[arg(long)]
    pub(crate) with_privileges: bool,
}

/// Of `wayfs volume backup`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BackupArgs {
    /// The volume
    pub(crate) volume: String,
    /// Directory that is not there, empty, or of an earlier backup; `-`: an archive on standard output
    pub(crate) to: PathBuf,
}

/// Of `wayfs volume restore`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreArgs {
    /// Directory of a backup; `-`: an archive on standard input
    pub(crate) from: PathBuf,
    /// Data directory of the server; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
}

/// `wayfs station …`
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum StationCommand {
    /// Make the server a station of the ticket's volume
    Join {
        /// The ticket, a file that holds it, or `-` for standard input [env: WAYFS_TICKET]
        #[arg(value_name = "TICKET")]
        ticket: Option<PathBuf>,
    },
    /// Stations that the mount knows, with round-trip time and the rates that transfers reached
    List {
        /// Those that announce themselves on the local network instead
        #[arg(long)]
        nearby: bool,
    },
    /// Use this station as long as the mount lasts, or the best again
    Use {
        /// Its name, node id or address; `auto`, or none: choose the best
        station: Option<String>,
    },
    /// Why this station
    Why,
    /// Set by hand where a server is reached, if it moved and nobody heard of it
    Address {
        /// Its name, node id or an address that it had; `home` for the home
        server: String,
        /// Where it is now; `auto`: where it says itself
        #[arg(value_name = "HOST:PORT", required = true)]
        addresses: Vec<String>,
    },
}

/// Of `wayfs queue`.
#[derive(Debug, Clone, Args)]
pub(crate) struct QueueArgs {
    /// Show it again every second, also while nothing waits, until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
    /// Most items shown
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// One volume only
    #[arg(long)]
    pub(crate) volume: Option<String>,
}

/// Of `wayfs refresh`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RefreshArgs {
    /// A path that must be there afterwards [default: none]
    pub(crate) path: Option<PathBuf>,
    /// Longest wait in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) timeout: u64,
}

/// Of `wayfs exclusive`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExclusiveArgs {
    /// A directory in a mount
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Work there as anywhere else again
    #[arg(long)]
    pub(crate) off: bool,
}

/// Of `wayfs people`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PeopleArgs {
    /// A mount point
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The number that a user has in the volume; another one that he had is forgotten
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(crate) user: Vec<Pair>,
    /// The same for a group
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(crate) group: Vec<Pair>,
    /// Forget a user's name
    #[arg(long, value_name = "NAME")]
    pub(crate) remove_user: Vec<String>,
    /// Forget a group's name
    #[arg(long, value_name = "NAME")]
    pub(crate) remove_group: Vec<String>,
    /// Name users and groups of this machine with numbers from 1000 to 59999, as far as neither name nor number is taken
    #[arg(long)]
    pub(crate) from_machine: bool,
}

/// Somebody, and a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) number: u32,
}

impl std::str::FromStr for Pair {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, number) = text.split_once('=').ok_or("write NAME=NUMBER")?;
        let number = number.parse().map_err(|_| format!("`{number}` is no number"))?;
        Ok(Self { name: name.to_owned(), number })
    }
}

/// Of `wayfs scrub`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScrubArgs {
    /// A volume of the server, or the directory of a mount or of a server's data [default: all of the daemon that runs]
    #[arg(value_name = "VOLUME|DIR")]
    pub(crate) what: Option<String>,
}

/// Of `wayfs sync`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SyncArgs {
    /// Only this file or tree [default: everything]
    pub(crate) path: Option<PathBuf>,
    /// How far
    #[arg(long, value_enum, default_value_t = UntilArg::Safe)]
    pub(crate) until: UntilArg,
    /// Longest wait in seconds [default: as long as it takes]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// One volume only, at a server that has several
    #[arg(long)]
    pub(crate) volume: Option<String>,
}

/// How far to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UntilArg {
    /// Durable at a station, too
    Safe,
    /// The home knows it
    Visible,
    /// The home has the contents
    Stable,
}

impl From<UntilArg> for Level {
    fn from(until: UntilArg) -> Self {
        match until {
            UntilArg::Safe => Self::Safe,
            UntilArg::Visible => Self::Visible,
            UntilArg::Stable => Self::Stable,
        }
    }
}

/// `wayfs conflicts …`
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ConflictsCommand {
    /// Open conflicts
    List {
        /// One volume only
        #[arg(long)]
        volume: Option<String>,
    },
    /// One conflict: who, when, what
    Show(WhichArgs),
    /// What differs between the two sides; exit 1 if anything does
    Diff(WhichArgs),
    /// Settle one conflict, or all
    Resolve(ResolveArgs),
}

/// Names a conflict.
#[derive(Debug, Clone, Args)]
pub(crate) struct WhichArgs {
    /// Its id, or the path of either side
    pub(crate) which: PathBuf,
    /// Its volume, at a server that has several
    #[arg(long)]
    pub(crate) volume: Option<String>,
}

/// Of `wayfs conflicts resolve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ResolveArgs {
    /// Its id, or the path of either side
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) which: Option<PathBuf>,
    /// What stays: a writer (USER@HOST), a file name, `both` or `newest`
    #[arg(long, value_name = "NAME|both|newest")]
    pub(crate) keep: KeepArg,
    /// All conflicts
    #[arg(long)]
    pub(crate) all: bool,
    /// With --all: only paths that match, such as '**/*.txt'
    #[arg(long, requires = "all", conflicts_with = "which")]
    pub(crate) glob: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// One volume only
    #[arg(long)]
    pub(crate) volume: Option<String>,
}

/// [`Keep`] as an argument.
pub(crate) type KeepArg = Keep;

/// Of `wayfs events`.
#[derive(Debug, Clone, Args)]
pub(crate) struct EventsArgs {
    /// Only what lies at or below this path
    pub(crate) path: Option<PathBuf>,
    /// Also what happened since: so long ago (90s, 10m, 2h, 1d), a moment (2026-11-30T08:00:00Z), or an event's unix_ms. A daemon keeps the last 8192
    /// events since it began
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<i64>,
    /// End when what happened since then is told
    #[arg(long, requires = "since")]
    pub(crate) kept_only: bool,
    /// For people instead of JSON lines
    #[arg(long)]
    pub(crate) text: bool,
}

/// Of `wayfs doctor`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DoctorArgs {
    /// Look for damaged files in a server's data directory or a cache of mounts, whose daemon must not run, and say what a repair
    /// loses [default: those of this user's server and mounts]
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    pub(crate) repair: Option<Option<PathBuf>>,
    /// Repair what is damaged, and lose what was named
    #[arg(long, requires = "repair")]
    pub(crate) yes: bool,
}

/// Of `wayfs debug`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DebugArgs {
    /// Where to write it [default: wayfs-debug-DATE.json here]; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Of `wayfs init`.
#[derive(Debug, Clone, Args)]
pub(crate) struct InitArgs {
    /// The file to write [default: /etc/wayfs/config.toml for root, else ~/.config/wayfs/config.toml]; `-` for standard output
    pub(crate) file: Option<PathBuf>,
    /// Overwrite a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}
