//! What can be typed. Nothing here is interpreted: `config` and `commands` do that.

mod daemons;
mod lab;
mod link;
mod nfs;
mod since;
mod tools;

pub(crate) use daemons::{CloseArg, MountArgs, ServeArgs, SharingArg, UmountArgs};
pub(crate) use lab::{LabCommand, LabRunArgs};
pub(crate) use link::{LinkBaseArgs, LinkCommand, LinkMobileArgs, LinkOptions, LinkStatusArgs, OrderArg};
pub(crate) use nfs::{NfsCommand, NfsOptions, NoticeArg, ProtoArg};
pub(crate) use tools::{
    BackupArgs, ConflictsCommand, DebugArgs, DeleteArgs, DoctorArgs, EventsArgs, ExclusiveArgs, ExportArgs, ImportArgs,
    InitArgs, PeopleArgs, PromoteArgs, QueueArgs, RefreshArgs, ResolveArgs, RestoreArgs, RotateKeyArgs, ScrubArgs,
    StationCommand, StopArgs, SyncArgs, TicketArgs, VolumeCommand, WhichArgs,
};

use crate::failure::EXIT_CODES;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// A file system for people and machines that move.
#[derive(Debug, Parser)]
#[command(name = "wayfs", version, about, after_help = EXIT_CODES, disable_help_subcommand = true, max_term_width = 110)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CommandArgs,
}

/// Options of every command.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GlobalArgs {
    /// Print JSON: what a reporting command found, and failures
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Talk to this daemon: a mount point, a data directory or a control socket
    #[arg(long, global = true, value_name = "PLACE", env = "WAYFS_AT")]
    pub(crate) at: Option<PathBuf>,
    /// Read this configuration file only
    #[arg(long, global = true, value_name = "FILE", env = "WAYFS_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Say more in the log: -v debug, -vv trace (WAYFS_LOG sets it in detail)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

impl Args {
    /// How results are to be written.
    pub(crate) fn output(&self) -> Output {
        self.global.output()
    }
}

impl GlobalArgs {
    /// How results are to be written.
    pub(crate) fn output(&self) -> Output {
        if self.json { Output::Json } else { Output::Text }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CommandArgs {
    /// Run a server: home of its own volumes, station for others
    Serve(ServeArgs),
    /// Mount a volume: with a ticket the first time, later by name; or an NFS export: nfs://HOST[:PORT]/EXPORT
    Mount(MountArgs),
    /// End a mount
    Umount(UmountArgs),
    /// End a server (or the mount named by --at)
    Stop(StopArgs),
    /// Manage the volumes of a server
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// See and choose stations; make a server a station
    #[command(subcommand)]
    Station(StationCommand),
    /// How it goes, on one screen
    Status,
    /// All about a file: where it is safe, visible, stable, and why not yet
    Info {
        /// The file
        path: PathBuf,
        /// Its volume, at a server that has several
        #[arg(long)]
        volume: Option<String>,
    },
    /// What is not yet safe, visible or stable, oldest first
    Queue(QueueArgs),
    /// Wait until what was written is safe, visible or stable; exit 0 only if it is
    Sync(SyncArgs),
    /// See here what was visible before: asks the home; exit 3 if it cannot be reached
    Refresh(RefreshArgs),
    /// Have the home decide at once what is made, locked and changed in a directory and all below, for programs on machines of
    /// several stations; without the home nothing is changed there
    Exclusive(ExclusiveArgs),
    /// List and change the names of users and groups that a volume keeps beside its numbers, for mounts with `-o idmap=names`;
    /// a mount has those that there were when it began
    People(PeopleArgs),
    /// Read all contents kept here now, and fetch anew what the disk damaged; exit 0 only if all is sound by then
    Scrub(ScrubArgs),
    /// List, show, compare and settle conflicts
    #[command(subcommand)]
    Conflicts(ConflictsCommand),
    /// Work from the cache, without a station
    Offline,
    /// Look for a station now; fails if none answers
    Online,
    /// Connect whenever possible (the normal state)
    Auto,
    /// Fetch a file or tree and keep it in the cache
    Pin {
        /// What
        path: PathBuf,
    },
    /// Let a pinned file or tree go
    Unpin {
        /// What
        path: PathBuf,
    },
    /// What is pinned, and how much of it is here
    Pins,
    /// Stream events as JSON lines until interrupted
    Events(EventsArgs),
    /// Metrics in Prometheus text
    Metrics,
    /// Check this machine and its daemons, and say what to do; look for damaged files and repair them
    Doctor(DoctorArgs),
    /// Write a support bundle without secrets
    Debug(DebugArgs),
    /// Experiments on emulated networks
    #[command(subcommand)]
    Lab(LabCommand),
    /// Files of an NFS server, over a hop that loses much; needs no mount and no volume
    #[command(subcommand)]
    Nfs(NfsCommand),
    /// A hop that loses much, repaired at both ends for any traffic (docs/wireless.md)
    #[command(subcommand)]
    Link(LinkCommand),
    /// Write a configuration file in which every default is explained
    Init(InitArgs),
    /// Write shell completions to standard output
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Write manual pages: the main one to standard output, or all into a directory
    Man {
        /// Directory for all pages
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests;
