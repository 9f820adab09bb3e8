//! The control socket's commands, as a mount carries them out.

mod asking;
mod doctor;
mod info;
mod ledger;
mod local;
mod lost_here;
mod others;
mod pinning;
mod refreshing;
mod stations;
mod status;
mod syncing;
mod uncommitted;

use self::asking::Asker;
pub(crate) use self::ledger::ledger_of;
use self::syncing::Wanted;
use crate::client::{Stopper, unsent};
use crate::fs::FileSystem;
use crate::hooks::MountHooks;
use crate::labels::Labels;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayfs_admin::happenings::Authors;
use wayfs_admin::{Settling, conflicts, queue, resolve, scrub};
use wayfs_control::{Command, CommandHandler, ControlError, DaemonKind, Done, ErrorKind, EventsWanted, Peer, Sink};
use wayfs_fuse::{Granted, UmountError, UmountMode};
use wayfs_node::{ParentLink, Volume};
use wayfs_types::FsError;
use wayfs_types::request::Level;

/// Longest wait of a command for one answer of the replica.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest pause between two looks at whether the caller is still there.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// What the user said about connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Auto,
    Online,
    Offline,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Online => "online",
            Self::Offline => "offline",
        }
    }
}

/// What commands work on.
pub(crate) struct MountParts {
    pub(crate) volume: Arc<Volume>,
    pub(crate) labels: Arc<Labels>,
    pub(crate) link: Arc<ParentLink>,
    pub(crate) fs: Arc<FileSystem>,
    pub(crate) hooks: Arc<MountHooks>,
    pub(crate) stopper: Stopper,
    pub(crate) name: String,
    pub(crate) mountpoint: PathBuf,
    pub(crate) cache_limit: u64,
    pub(crate) read_only: bool,
    pub(crate) granted: Granted,
}

/// How a mount is to end.
struct UmountOptions {
    /// Only once everything is safe, for which it waits so long.
    flush: Option<Duration>,
    /// Also with writes that cannot be kept, and under the feet of programs that use it.
    force: bool,
}

/// A mount as the control server sees it.
pub struct MountCommands {
    parts: MountParts,
    mode: Mutex<Mode>,
    started: Instant,
}

impl MountCommands {
    pub(crate) fn new(parts: MountParts) -> Self {
        let is_offline = parts.link.status().state == wayfs_node::LinkState::Offline;
        let mode = if is_offline { Mode::Offline } else { Mode::Auto };
        Self { parts, mode: Mutex::new(mode), started: Instant::now() }
    }

    fn volume(&self) -> &Arc<Volume> {
        &self.parts.volume
    }

    fn set_mode(&self, mode: Mode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    fn mode(&self) -> Mode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a command that names another volume.
    fn check_volume(&self, command: &Command) -> Result<(), ControlError> {
        let named = match command {
            Command::Info { volume, .. }
            | Command::Queue { volume, .. }
            | Command::Sync { volume, .. }
            | Command::Scrub { volume }
            | Command::ConflictsList { volume }
            | Command::ConflictsShow { volume, .. }
            | Command::ConflictsDiff { volume, .. }
            | Command::ConflictsResolve { volume, .. } => volume.as_deref(),
            _ => None,
        };
        match named {
            Some(name) if name != self.parts.name && name != self.volume().id().to_string() => Err(ControlError::new(
                ErrorKind::NotFound,
                format!("this mount is of volume {}, not {name}", self.parts.name),
                "Leave the volume out, or name the mount of the other volume with --at.",
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn events(&self, wanted: EventsWanted, out: &mut dyn Sink) -> Result<Done, ControlError> {
        let listener = self.parts.hooks.events.listen(wanted)?;
        self.parts.fs.files().stir().stir();
        let [local] = self.local(None);
        let mut authors = Authors::default();
        while !listener.is_done() && !out.is_gone() && !self.parts.stopper.is_stopping() {
            if let Some(mut event) = listener.next(LOOK_PERIOD) {
                authors.name(&mut event, &local);
                if out.event(&event).is_err() {
                    break;
                }
            }
        }
        Ok(Done::Nothing)
    }

    fn umount(&self, options: UmountOptions, out: &mut dyn Sink) -> Result<Done, ControlError> {
        let UmountOptions { flush, force } = options;
        let failed = self.parts.fs.commit_all();
        if let Some((_, error)) = failed.first()
            && !force
        {
            return Err(ControlError::new(
                ErrorKind::NotTrue,
                format!("{} open files hold writes that cannot be kept: {error}", failed.len()),
                "Make room on the cache disk (or connect) and try again, or lose them with --force.",
            ));
        }
        if let Some(timeout) = flush {
            let report = self.sync_to(Wanted { path: None, until: Level::Safe, asker: None }, timeout, out)?;
            if !report.reached && !force {
                return Err(ControlError::new(
                    ErrorKind::NotTrue,
                    format!(
                        "{} updates ({} bytes) are only on this machine: {}",
                        report.remaining_items, report.remaining_bytes, report.reason
                    ),
                    "Connect and try again; or unmount without --flush: they stay in the log and are sent after the next mount.",
                ));
            }
        }
        if let Err(error) = self.volume().sync(PATIENCE) {
            tracing::error!(%error, "sync before unmounting");
        }
        let unsent = unsent(&ledger_of(self.volume(), Some(&self.parts.fs)));
        let mode = if force { UmountMode::Force } else { UmountMode::Orderly };
        match self.parts.stopper.stop(mode) {
            Ok(()) => Ok(Done::Unmounted(unsent)),
            Err(error @ UmountError::Busy { .. }) => Err(ControlError::new(
                ErrorKind::Failed,
                format!("{error}: {} files are open", self.parts.fs.open_handles()),
                "Leave the directory and close its files (`fuser -vm DIR` lists who has them), or use --force.",
            )),
            Err(error) => Err(ControlError::new(ErrorKind::Failed, error.to_string(), "Try again, or use --force.")),
        }
    }

    fn run_for_mount(&self, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
        match command {
            Command::Status => Ok(Done::Status(self.status())),
            Command::Info { path, .. } => self.info(&path).map(Done::Info),
            Command::Queue { limit, .. } => queue::run(&self.local(None), limit).map(Done::Queue),
            Command::Sync { path, until, timeout_ms, .. } => {
                let timeout = timeout_ms.map_or(syncing::FOREVER, Duration::from_millis);
                self.sync(Wanted { path: path.as_deref(), until, asker: None }, timeout, out).map(Done::Sync)
            }
            Command::Scrub { .. } => scrub::run(&self.local(None), out).map(Done::Scrubbed),
            Command::Refresh { path, timeout_ms } => {
                self.refresh(path.as_deref(), Duration::from_millis(timeout_ms)).map(Done::Refreshed)
            }
            Command::ConflictsList { .. } => conflicts::list(&self.local(None)).map(Done::Conflicts),
            Command::ConflictsShow { which, .. } => {
                conflicts::find(&self.local(None), &which).map(|(_, case)| Done::Conflict(case.report))
            }
            Command::ConflictsDiff { which, .. } => {
                conflicts::find(&self.local(None), &which).map(|(_, case)| Done::Diff(conflicts::diff(case)))
            }
            Command::ConflictsResolve { which, keep, dry_run, .. } => {
                let settling = if dry_run { Settling::DryRun } else { Settling::Apply };
                resolve(&self.local(None), &which, &keep, settling, out).map(Done::Resolved)
            }
            Command::Offline => Ok(self.go_offline()),
            Command::Online => self.go_online(out),
            Command::Auto => Ok(self.go_auto()),
            Command::Pin { path } => self.pin(&path, out).map(Done::Pins),
            Command::Unpin { path } => self.unpin(&path).map(Done::Pins),
            Command::Pins => Ok(Done::Pins(self.pins())),
            Command::StationList { nearby: true } => self.nearby(out).map(Done::Stations),
            Command::StationList { nearby: false } => Ok(Done::Stations(self.stations())),
            Command::StationUse { station } => self.use_station(station.as_deref()),
            Command::StationAddress { server, addresses } => self.set_address(&server, &addresses).map(Done::Stations),
            Command::StationWhy => Ok(Done::Why(self.why())),
            Command::Events(wanted) => self.events(wanted, out),
            Command::DoctorFacts => Ok(Done::Doctor(self.doctor())),
            // The transport of a volume sees for itself what the link does.
            Command::LinkNotice { .. } => Ok(Done::Nothing),
            Command::Umount { flush, timeout_ms, force } => {
                let flush = flush.then_some(Duration::from_millis(timeout_ms));
                self.umount(UmountOptions { flush, force }, out)
            }
            Command::Metrics => {
                Ok(Done::Metrics(crate::metrics::of_mount(self.volume(), &self.parts.fs, &self.parts.name)))
            }
            Command::StationJoin { .. }
            | Command::VolumeCreate { .. }
            | Command::VolumeList
            | Command::VolumeTicket { .. }
            | Command::VolumeQuota { .. }
            | Command::VolumeImport { .. }
            | Command::VolumeExport { .. }
            | Command::VolumeBackup { .. }
            | Command::VolumeDelete { .. }
            | Command::VolumePromote { .. }
            | Command::VolumeRevoke { .. }
            | Command::VolumeAcceptLoss { .. }
            | Command::VolumeMembers { .. }
            | Command::Stop => Err(ControlError::wrong_daemon(&command, DaemonKind::Server)),
        }
    }
}

impl CommandHandler for MountCommands {
    fn run(&self, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
        self.check_volume(&command)?;
        self.run_for_mount(command, out)
    }

    fn run_for_user(&self, peer: &Peer, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
        self.check_volume(&command)?;
        let asker = Asker::new(peer, self.volume(), self.parts.fs.identities());
        self.run_for_asker(&asker, command, out)
    }
}

/// A refusal of the replica in words.
fn refused(what: &str, error: FsError) -> ControlError {
    let (kind, next_step) = match error {
        FsError::NotFound => (ErrorKind::NotFound, "Check the path; it is looked up from the volume's root."),
        FsError::Unreachable | FsError::TimedOut => {
            (ErrorKind::Unreachable, "Connect (`wayfs online`), or wait until `wayfs status` shows a station.")
        }
        FsError::NoSpace => (ErrorKind::Failed, "Make room on the cache disk."),
        FsError::Quota => (ErrorKind::Failed, "Remove files, or ask for a larger quota (`wayfs volume quota`)."),
        FsError::ReadOnly | FsError::AccessDenied | FsError::NotPermitted => {
            (ErrorKind::Refused, "Ask for a ticket that may write.")
        }
        _ => (ErrorKind::Failed, "`wayfs doctor` looks for the cause."),
    };
    ControlError::new(kind, format!("{what}: {error}"), next_step)
}

#[cfg(test)]
mod tests;
