//! A running mount.

use crate::background_committer::BackgroundCommitter;
use crate::commands::ledger_of;
use crate::fs::FileSystem;
use crate::hooks::MountHooks;
use crate::inotify::WatcherThread;
use crate::notices::NoticeThreads;
use crate::saved::Saved;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wayfs_control::link_signals::LinkListener;
use wayfs_control::report::{LedgerReport, UmountReport};
use wayfs_control::{ControlServer, Registered};
use wayfs_fuse::{BackgroundSession, UmountError, UmountMode, Unmounter};
use wayfs_net::{CloseCode, Endpoint};
use wayfs_node::LiveReplica;
use wayfs_node::metrics::MetricsServer;
use wayfs_node::{ParentLink, Volume};
use wayfs_types::request::{Level, Request};
use wayfs_types::{FileId, FsError};

/// Longest wait at the end for what was written to become safe. It is durable here in any case.
const LAST_SAFE_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for the network tasks to end.
const RUNTIME_WAIT: Duration = Duration::from_secs(2);

/// A mounted volume. [`Client::run`] serves it until it is unmounted.
pub struct Client {
    parts: Parts,
}

/// All that runs; ended in this order.
pub(crate) struct Parts {
    pub(crate) session: BackgroundSession,
    pub(crate) stopper: Stopper,
    pub(crate) watcher: Option<WatcherThread>,
    pub(crate) notices: NoticeThreads,
    pub(crate) committer: BackgroundCommitter,
    pub(crate) control: ControlServer,
    pub(crate) for_all: Option<ControlServer>,
    pub(crate) registered: Registered,
    pub(crate) metrics: Option<MetricsServer>,
    pub(crate) link: Arc<ParentLink>,
    pub(crate) fs: Arc<FileSystem>,
    pub(crate) volume: Arc<Volume>,
    pub(crate) hooks: Arc<MountHooks>,
    pub(crate) endpoint: Endpoint,
    pub(crate) links: Option<LinkListener>,
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) saved: Saved,
    pub(crate) mountpoint: PathBuf,
}

/// How a mount ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Records that nobody else has; they wait in the durable log for the next mount.
    pub unsent_records: u64,
    /// Bytes of contents that nobody else has.
    pub unsent_bytes: u64,
    /// Files whose last writes could not even be kept here, and why. These writes are lost.
    pub lost: Vec<(FileId, FsError)>,
    /// What went wrong with the session or the volume, if anything.
    pub failure: Option<String>,
}

impl Ended {
    /// Whether all is safe elsewhere.
    pub fn is_safe(&self) -> bool {
        self.unsent_records == 0 && self.unsent_bytes == 0 && self.lost.is_empty() && self.failure.is_none()
    }
}

/// Ends a mount from elsewhere: a signal handler, the control socket.
#[derive(Clone)]
pub struct Stopper {
    unmounter: Option<Unmounter>,
    is_stopping: Arc<AtomicBool>,
}

impl Stopper {
    pub(crate) fn new(unmounter: Option<Unmounter>) -> Self {
        Self { unmounter, is_stopping: Arc::default() }
    }

    /// Unmounts; [`Client::run`] then makes everything durable and returns.
    ///
    /// # Errors
    /// [`UmountError::Busy`] for an orderly unmount of what is in use.
    pub fn stop(&self, mode: UmountMode) -> Result<(), UmountError> {
        if let Some(unmounter) = &self.unmounter {
            unmounter.umount(mode)?;
        }
        self.is_stopping.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether it was stopped this way.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }
}

impl Client {
    pub(crate) fn from_parts(parts: Parts) -> Self {
        Self { parts }
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.parts.mountpoint
    }

    /// The volume's name.
    pub fn volume_name(&self) -> &str {
        &self.parts.saved.name
    }

    /// The replica, for tests and tools in the same process.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.parts.volume
    }

    /// The link to the parent.
    pub fn link(&self) -> &Arc<ParentLink> {
        &self.parts.link
    }

    /// The control socket.
    pub fn control_socket(&self) -> &Path {
        self.parts.control.path()
    }

    /// To end it from elsewhere.
    pub fn stopper(&self) -> Stopper {
        self.parts.stopper.clone()
    }

    /// Serves until the mount is gone, by whomever, then makes everything durable, gives what is unsent a
    /// last chance, and ends all threads.
    pub fn run(self) -> Ended {
        let Parts {
            session,
            watcher,
            notices,
            committer,
            control,
            for_all,
            registered,
            metrics,
            link,
            fs,
            volume,
            hooks,
            endpoint,
            links,
            runtime,
            ..
        } = self.parts;
        let served = session.join();
        drop(registered);
        drop(for_all);
        drop(committer);
        drop(watcher);
        drop(notices);
        let lost = fs.commit_all();
        fs.stop();
        for (file, error) in &lost {
            tracing::error!(%file, %error, "the last writes to a file could not be kept");
        }
        give_a_last_chance(&volume);
        let UmountReport { unsent_records, unsent_bytes } = unsent(&ledger_of(&volume, None));
        control.stop();
        drop(metrics);
        drop((link, links));
        volume.stop();
        fs.end();
        runtime.block_on(endpoint.close(CloseCode::GOODBYE, "unmounted"));
        runtime.shutdown_timeout(RUNTIME_WAIT);
        let failure = served.err().map(|error| error.to_string()).or_else(|| hooks.failure());
        let ended = Ended { unsent_records, unsent_bytes, lost, failure };
        if !ended.is_safe() {
            tracing::warn!(unsent_records, unsent_bytes, "unmounted with data that is only on this machine");
        }
        ended
    }

    /// Ends as a crash of the process would, for tests: nothing is committed, nothing synced.
    pub fn abandon(self) {
        let Parts { session, stopper, watcher, notices, committer, volume, fs, runtime, control, for_all, .. } =
            self.parts;
        volume.abandon();
        if let Err(error) = stopper.stop(UmountMode::Force) {
            tracing::warn!(%error, "unmount an abandoned client");
        }
        drop(committer);
        drop(watcher);
        drop(notices);
        let _ = session.join();
        fs.stop();
        control.stop();
        drop(for_all);
        runtime.shutdown_background();
    }
}

/// Waits a little for what is under way, if there is anyone to send it to.
fn give_a_last_chance(volume: &Volume) {
    let connected = volume.look(LiveReplica::progress).is_some_and(|progress| progress.parent_up);
    if connected && unsent(&ledger_of(volume, None)) != UmountReport::default() {
        // The answer does not matter: what is unsent is counted afterwards.
        let _ = volume.request(Request::Wait { record: None, until: Level::Safe }, LAST_SAFE_WAIT);
    }
}

/// Records (or, where only contents are left, versions) and bytes that nobody else has.
pub(crate) fn unsent(ledger: &LedgerReport) -> UmountReport {
    let amount = ledger.unsafe_amount();
    UmountReport { unsent_records: amount.records.max(amount.versions), unsent_bytes: amount.bytes }
}
