//! A mounted loopback in temporary directories, and the watchdog over it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wayfs_fuse::loopback::{Loopback, LoopbackOptions};
use wayfs_fuse::{
    BackgroundSession, Config, Handler, Mount, MountOptions, Session, SessionError, UmountError, UmountMode, Unmounter,
};

/// No test may touch a mount for longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest time for the last copy of a descriptor to be closed.
const CLOSED: Duration = Duration::from_secs(10);

/// Aborts the connection of a mount unless dropped in time.
pub(crate) struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<bool>>,
}

impl Watchdog {
    pub(crate) fn new(unmounter: Unmounter) -> Self {
        let (stop, stopped) = channel::<()>();
        let watch = move || {
            let late = stopped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            if late {
                eprintln!("watchdog: aborting the mount at {}", unmounter.mountpoint().display());
                if let Err(error) = unmounter.umount(UmountMode::Force) {
                    eprintln!("watchdog: {error}");
                }
            }
            late
        };
        Self { stop: Some(stop), thread: Some(std::thread::spawn(watch)) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        let late = self.thread.take().expect("taken here only").join().unwrap_or(true);
        if late && !std::thread::panicking() {
            panic!("the test took longer than {PATIENCE:?} on a mount");
        }
    }
}

/// A served mount. Fields drop in order: the session unmounts while the watchdog still looks on.
pub(crate) struct Stage {
    session: Option<BackgroundSession>,
    _watchdog: Watchdog,
    loopback: Option<Arc<Loopback>>,
    host: TempDir,
    point: TempDir,
}

/// What a test may vary.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) loopback: LoopbackOptions,
    pub(crate) config: Config,
    pub(crate) read_only: bool,
}

/// True, with a printed reason, if there is nothing to mount with.
pub(crate) fn must_skip() -> bool {
    let open = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    match open {
        Ok(_) if rustix::process::geteuid().is_root() => false,
        Ok(_) => {
            eprintln!("skipped: mounting in tests needs root");
            true
        }
        Err(error) => {
            eprintln!("skipped: open /dev/fuse: {error}");
            true
        }
    }
}

/// The loopback, mounted. None when mounts are impossible here.
pub(crate) fn stage(plan: Plan) -> Option<Stage> {
    if must_skip() {
        return None;
    }
    let host = tempfile::tempdir().unwrap();
    let loopback = Arc::new(Loopback::new(host.path(), plan.loopback.clone()).unwrap());
    let handler: Arc<dyn Handler> = Arc::clone(&loopback) as _;
    let mut stage = serve(handler, plan, host);
    stage.loopback = Some(loopback);
    Some(stage)
}

/// Some other file system, mounted. None when mounts are impossible here.
pub(crate) fn stage_with(handler: Arc<dyn Handler>, config: Config) -> Option<Stage> {
    if must_skip() {
        return None;
    }
    let plan = Plan { config, ..Plan::default() };
    Some(serve(handler, plan, tempfile::tempdir().unwrap()))
}

fn serve(handler: Arc<dyn Handler>, plan: Plan, host: TempDir) -> Stage {
    let point = tempfile::tempdir().unwrap();
    let mut options = MountOptions::new(point.path());
    options.allow_other = true;
    options.read_only = plan.read_only;
    let mount = Mount::new(&options).unwrap();
    let watchdog = Watchdog::new(mount.unmounter());
    let session = Session::new(mount, plan.config).spawn(handler, 2).unwrap();
    Stage { session: Some(session), _watchdog: watchdog, loopback: None, host, point }
}

impl Stage {
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    pub(crate) fn on_host(&self, name: &str) -> PathBuf {
        self.host.path().join(name)
    }

    pub(crate) fn point(&self) -> &Path {
        self.point.path()
    }

    pub(crate) fn session(&self) -> &BackgroundSession {
        self.session.as_ref().expect("served until the end of the test")
    }

    pub(crate) fn loopback(&self) -> &Loopback {
        self.loopback.as_deref().expect("a stage of the loopback")
    }

    /// Waits for the session to end by itself.
    pub(crate) fn join(mut self) -> Result<(), SessionError> {
        self.session.take().expect("served until the end of the test").join()
    }

    /// Unmounts in an orderly way: fails if the test left something open.
    pub(crate) fn finish(mut self) {
        let session = self.session.take().expect("served until the end of the test");
        let start = Instant::now();
        // A program that another test is starting holds what was open here between its fork and its exec.
        while let Err(error) = session.umount(UmountMode::Orderly) {
            assert!(matches!(error, UmountError::Busy { .. }) && start.elapsed() < CLOSED, "{error}");
            std::thread::sleep(Duration::from_millis(10));
        }
        session.join().unwrap();
    }
}
