//! What tools may ask of an NFS mount.

use crate::mount::{NfsMountConfig, NfsStopper};
use crate::vfs::Vfs;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wayfs_control::report::{
    AmountReport, LedgerReport, StationReport, StatusReport, StatusWord, SyncReport, UmountReport, VolumeRole,
    VolumeStatus,
};
use wayfs_control::{Command, CommandHandler, ControlError, DaemonKind, Done, ErrorKind, Level, LinkNotice, Sink};
use wayfs_fuse::{UmountError, UmountMode};
use wayfs_nfs::Notice;

/// A server that owes an answer for so long counts as away.
const AWAY: Duration = Duration::from_secs(5);
/// How long an orderly unmount waits for what is on its way, if nothing else is said.
const FLUSH: Duration = Duration::from_secs(10);

/// The control side of a mount.
pub(crate) struct NfsCommands {
    name: String,
    host: String,
    mountpoint: PathBuf,
    read_only: bool,
    stopper: NfsStopper,
    vfs: Arc<Vfs>,
    began: Instant,
}

/// How the mount is to end.
struct UmountOptions {
    /// Only once the server has everything, for which it waits so long.
    flush: Option<Duration>,
    /// Also with writes that the server does not take, and under the feet of programs that use it.
    force: bool,
}

impl NfsCommands {
    pub(crate) fn new(
        config: &NfsMountConfig,
        name: String,
        mountpoint: PathBuf,
        stopper: NfsStopper,
        vfs: Arc<Vfs>,
    ) -> Self {
        let (host, read_only) = (config.host.clone(), config.settings.read_only);
        Self { name, host, mountpoint, read_only, stopper, vfs, began: Instant::now() }
    }

    fn status(&self) -> StatusReport {
        let silence = self.vfs.caller.silence();
        let (files, bytes) = (self.vfs.pending_files(), self.vfs.pending_bytes());
        let is_away = silence > AWAY;
        let word = match (is_away, bytes) {
            (true, _) => StatusWord::Offline,
            (false, 0) => StatusWord::Active,
            (false, _) => StatusWord::Dirty,
        };
        let lost = self.vfs.lost.load(std::sync::atomic::Ordering::Relaxed);
        let (cause, next_step) = match (is_away, lost) {
            (true, _) => (
                format!("the server has not answered for {} s", silence.as_secs()),
                "Programs wait until it is back; Ctrl-C ends their wait, `wayfs umount --force` the mount.".to_owned(),
            ),
            (false, 0) => Default::default(),
            (false, lost) => (
                format!("the server refused {lost} bytes; the programs that wrote them were told"),
                "Look at the room and the rights at the server.".to_owned(),
            ),
        };
        let server = StationReport {
            name: self.host.clone(),
            role: "NFS server".into(),
            addresses: vec![self.vfs.caller.server().to_string()],
            connected: !is_away,
            ..StationReport::default()
        };
        let on_the_way = AmountReport { records: files, versions: 0, bytes, oldest_ms: None };
        let volume = VolumeStatus {
            name: self.name.clone(),
            role: VolumeRole::Client,
            mountpoint: Some(self.mountpoint.clone()),
            word,
            cause,
            next_step,
            parent: Some(server),
            ledger: LedgerReport { not_safe: (bytes > 0).then_some(on_the_way), ..LedgerReport::default() },
            read_only: self.read_only,
            ..VolumeStatus::default()
        };
        StatusReport {
            kind: DaemonKind::Mount,
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            node: "nfs".into(),
            listening: Vec::new(),
            volumes: vec![volume],
        }
    }

    fn umount(&self, UmountOptions { flush, force }: UmountOptions) -> Result<Done, ControlError> {
        if !force {
            let left = self.stopper.flush(flush.unwrap_or(FLUSH));
            if left > 0 {
                let text = format!("the server does not take {left} bytes that programs wrote: it stays mounted");
                let next = "Wait until the server is back; `wayfs umount --force` gives them up.";
                return Err(ControlError::new(ErrorKind::Unreachable, text, next));
            }
        } else if let Some(timeout) = flush {
            self.stopper.flush(timeout);
        }
        let left = self.vfs.pending_bytes();
        let mode = if force { UmountMode::Force } else { UmountMode::Orderly };
        match self.stopper.stop(mode) {
            Ok(()) => Ok(Done::Unmounted(UmountReport { unsent_records: 0, unsent_bytes: left })),
            Err(UmountError::Busy { path }) => {
                let text = format!("programs use {}", path.display());
                Err(ControlError::new(ErrorKind::Busy, text, "End them, or use `wayfs umount --force`."))
            }
            Err(error) => Err(ControlError::new(ErrorKind::Failed, error.to_string(), "")),
        }
    }

    fn sync(&self, until: Level, timeout: Option<Duration>, out: &mut dyn Sink) -> SyncReport {
        let began = Instant::now();
        loop {
            let left = self.stopper.flush(Duration::from_millis(500));
            let is_late = timeout.is_some_and(|timeout| began.elapsed() >= timeout);
            if left == 0 || is_late || out.is_gone() {
                return SyncReport {
                    reached: left == 0,
                    until,
                    remaining_items: self.vfs.pending_files(),
                    remaining_bytes: left,
                    lost: 0,
                    elapsed_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                    reason: if left == 0 { String::new() } else { "the server has not taken it".into() },
                };
            }
        }
    }

    fn metrics(&self) -> String {
        let statistics = self.vfs.caller.statistics();
        let mut text = String::new();
        for (name, value) in [
            ("calls_total", statistics.calls),
            ("calls_resent_total", statistics.resent),
            ("probes_total", statistics.probes),
            ("stray_answers_total", statistics.strays),
            ("malformed_answers_total", statistics.malformed),
            ("calls_given_up_total", statistics.given_up),
            ("refused_bytes_total", self.vfs.lost.load(std::sync::atomic::Ordering::Relaxed)),
            ("pending_bytes", self.vfs.pending_bytes()),
            ("known_files", self.vfs.nodes.len() as u64),
            ("read_block_bytes", u64::from(self.vfs.caller.read_block())),
            ("write_block_bytes", u64::from(self.vfs.caller.write_block())),
        ] {
            let _ = writeln!(text, "wayfs_nfs_{name} {value}");
        }
        text
    }
}

/// What the link tells, as calls take it.
pub(crate) const fn notice_of(notice: LinkNotice) -> Notice {
    match notice {
        LinkNotice::Down => Notice::LinkDown,
        LinkNotice::Up => Notice::LinkUp,
        LinkNotice::HandOff => Notice::HandOff,
    }
}

impl CommandHandler for NfsCommands {
    fn run(&self, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
        match command {
            Command::Status => Ok(Done::Status(self.status())),
            Command::Metrics => Ok(Done::Metrics(self.metrics())),
            Command::Umount { flush, timeout_ms, force } => {
                self.umount(UmountOptions { flush: flush.then_some(Duration::from_millis(timeout_ms)), force })
            }
            Command::Stop => self.umount(UmountOptions { flush: None, force: false }),
            Command::Sync { until, timeout_ms, .. } => {
                Ok(Done::Sync(self.sync(until, timeout_ms.map(Duration::from_millis), out)))
            }
            Command::LinkNotice { notice } => {
                self.vfs.caller.notice(notice_of(notice));
                Ok(Done::Nothing)
            }
            _ => Err(ControlError::new(
                ErrorKind::Usage,
                "an NFS mount has no volume: the server alone knows its files",
                "`wayfs status`, `wayfs sync`, `wayfs umount` and `wayfs metrics` work here.",
            )),
        }
    }
}
