//! A mount from its start to its end.

use crate::commands::NfsCommands;
use crate::front::Front;
use crate::settings::Settings;
use crate::users::Users;
use crate::vfs::{Parts, Vfs};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wayfs_control::link_signals::{LinkListener, LinkSource};
use wayfs_control::{ControlServer, DaemonKind, Registered, Registration, Registry};
use wayfs_fuse::{BackgroundSession, Mount, MountError, MountOptions, Session, UmountError, UmountMode, Unmounter};
use wayfs_nfs::Notice;
use wayfs_nfs::live::{Export, LiveError};
use wayfs_nfs::operations::Located;

/// Largest write of the kernel, in bytes: reads are as large, and each is a few blocks in flight at a time.
const REQUEST_MAX: u32 = 256 * 1024;
/// How far the kernel reads ahead, in bytes.
const READ_AHEAD: u32 = 1 << 20;
/// How long the end of a mount waits for a server that does not answer, when it was not asked to go by force.
const END: Duration = Duration::from_secs(15);

/// What is mounted where.
#[derive(Debug)]
pub struct NfsMountConfig {
    /// The server.
    pub server: IpAddr,
    /// As it was typed.
    pub host: String,
    /// The port behind it.
    pub port: Option<u16>,
    /// Path of the export.
    pub export: String,
    /// Where, absolute.
    pub mountpoint: PathBuf,
    /// What `-o` says.
    pub settings: Settings,
    /// The list of daemons.
    pub registry: Registry,
    /// Where tools talk to the mount.
    pub control_socket: PathBuf,
}

/// Why a mount did not start.
#[derive(Debug, thiserror::Error)]
pub enum NfsMountError {
    /// The server, or the way to it.
    #[error("{0}")]
    Server(#[from] LiveError),
    /// The kernel.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The kernel, after the mount.
    #[error("serve the mount: {0}")]
    Session(#[from] wayfs_fuse::SessionError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] wayfs_control::StartError),
    /// The list of daemons.
    #[error(transparent)]
    Registry(#[from] wayfs_control::RegistryError),
    /// Threads and the like.
    #[error("start: {0}")]
    System(#[from] std::io::Error),
}

/// How a mount ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NfsEnded {
    /// Bytes that programs wrote and the server did not take. They are lost.
    pub lost_bytes: u64,
    /// What went wrong with the session.
    pub failure: Option<String>,
}

/// Ends a mount from elsewhere.
#[derive(Clone)]
pub struct NfsStopper {
    unmounter: Option<Unmounter>,
    vfs: Arc<Vfs>,
    is_stopping: Arc<AtomicBool>,
}

impl NfsStopper {
    /// Unmounts. By force, nothing waits for the server any more.
    ///
    /// # Errors
    /// [`UmountError::Busy`] for an orderly unmount of what is in use.
    pub fn stop(&self, mode: UmountMode) -> Result<(), UmountError> {
        if mode == UmountMode::Force {
            self.vfs.is_ending.store(true, Ordering::SeqCst);
        }
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

    /// Makes everything durable; gives how many bytes are not after that time.
    pub fn flush(&self, within: Duration) -> u64 {
        self.vfs.flush_all(Instant::now() + within);
        self.vfs.pending_bytes()
    }
}

/// A running mount.
pub struct NfsMount {
    session: BackgroundSession,
    stopper: NfsStopper,
    control: ControlServer,
    registered: Registered,
    vfs: Arc<Vfs>,
    mountpoint: PathBuf,
    committer: std::thread::JoinHandle<()>,
    listener: Option<LinkListener>,
    is_over: Arc<AtomicBool>,
}

impl NfsMount {
    /// Asks the server for the export, mounts, and serves.
    ///
    /// # Errors
    /// [`NfsMountError`]; nothing is left mounted.
    pub fn start(config: NfsMountConfig) -> Result<Self, NfsMountError> {
        let vfs = Arc::new(connect(&config)?);
        let session = mount(&config, &vfs)?;
        let mountpoint = session.unmounter().map_or(config.mountpoint.clone(), |it| it.mountpoint().to_owned());
        let stopper = NfsStopper { unmounter: session.unmounter(), vfs: Arc::clone(&vfs), is_stopping: Arc::default() };
        let link = config.settings.link.clone();
        let name = format!("nfs://{}{}", config.host, config.export);
        let commands = NfsCommands::new(&config, name.clone(), mountpoint.clone(), stopper.clone(), Arc::clone(&vfs));
        let control = ControlServer::start(&config.control_socket, Arc::new(commands))?;
        let registration = Registration {
            kind: DaemonKind::Mount,
            place: mountpoint.clone(),
            socket: std::path::absolute(control.path())?,
            pid: std::process::id(),
            volume: name,
            for_all: None,
        };
        let registered = config.registry.register(&registration)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let committer = start_committer(&vfs, &is_over)?;
        let listener = match link {
            Some(socket) => {
                let vfs = Arc::clone(&vfs);
                let tell = move |notice| vfs.caller.notice(crate::commands::notice_of(notice));
                Some(LinkListener::start(LinkSource::Socket(socket), tell)?)
            }
            None => None,
        };
        Ok(Self { session, stopper, control, registered, vfs, mountpoint, committer, listener, is_over })
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// For ending it from elsewhere.
    pub fn stopper(&self) -> NfsStopper {
        self.stopper.clone()
    }

    /// Tells what lower layers told.
    pub fn notice(&self, notice: Notice) {
        self.vfs.caller.notice(notice);
    }

    /// Serves until the mount is gone, by whomever, and gives what is not written a last chance.
    pub fn run(self) -> NfsEnded {
        let Self { session, control, registered, vfs, committer, listener, is_over, .. } = self;
        // `destroy` ends the threads of requests, so what is left must go before: readers end when the mount is gone.
        let served = session.join();
        let end = Instant::now() + END;
        vfs.finish(end);
        is_over.store(true, Ordering::SeqCst);
        drop(registered);
        control.stop();
        let _ = committer.join();
        drop(listener);
        vfs.is_ending.store(true, Ordering::SeqCst);
        vfs.caller.stop();
        let lost_bytes = vfs.lost.load(Ordering::Relaxed) + vfs.pending_bytes();
        NfsEnded { lost_bytes, failure: served.err().map(|error| error.to_string()) }
    }
}

fn connect(config: &NfsMountConfig) -> Result<Vfs, NfsMountError> {
    let Settings { options, uid, gid, caching, .. } = config.settings.clone();
    let (server, ports) = (config.server, config.settings.ports(config.port));
    let mut export = Export::connect(server, ports, &config.export, &options)?;
    let root = export.root().clone();
    let root = Located { attributes: export.attributes(&root)?, handle: root };
    let (caller, _) = export.share(&options)?;
    let mut own = options.credentials.clone();
    (own.uid, own.gid) = (uid.unwrap_or(own.uid), gid.unwrap_or(own.gid));
    let users = Users::new(own.machine.clone(), uid, gid);
    let path = config.export.clone();
    // Once, and not for long: whoever waits for it can be interrupted only when it is over.
    let options = wayfs_nfs::live::Options { wait_policy: wayfs_nfs::WaitPolicy::Soft(3), ..options };
    let find_root = Box::new(move || Export::find_root(server, ports, &path, &options).ok());
    Ok(Vfs::new(Parts { caller, root, users, caching, own, find_root }))
}

fn mount(config: &NfsMountConfig, vfs: &Arc<Vfs>) -> Result<BackgroundSession, NfsMountError> {
    let mut options = MountOptions::new(&config.mountpoint);
    options.fsname = format!("nfs://{}{}", config.host, config.export);
    options.read_only = config.settings.read_only;
    options.allow_other = config.settings.allow_other.unwrap_or_else(|| rustix::process::geteuid().is_root());
    options.no_exec = config.settings.no_exec;
    let mut kernel = wayfs_fuse::Config::default();
    kernel.max_write = REQUEST_MAX;
    kernel.max_readahead = READ_AHEAD;
    kernel.max_background = 32;
    // Locks hold on this machine only: version 3 has them in a protocol of its own.
    (kernel.posix_locks, kernel.flock_locks) = (false, false);
    // Pages go when size or time of change differ from what the kernel knows.
    kernel.explicit_invalidation = false;
    kernel.atomic_truncate = false;
    kernel.handle_kill_privileges = false;
    kernel.cache_symlinks = false;
    kernel.passthrough = false;
    let session = Session::new(Mount::new(&options)?, kernel);
    Ok(session.spawn(Arc::new(Front::new(Arc::clone(vfs))), 2)?)
}

fn start_committer(vfs: &Arc<Vfs>, is_over: &Arc<AtomicBool>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let (vfs, is_over) = (Arc::clone(vfs), Arc::clone(is_over));
    std::thread::Builder::new().name("nfs-age".into()).spawn(move || {
        let mut next = Instant::now();
        while !is_over.load(Ordering::Relaxed) {
            if Instant::now() >= next {
                vfs.age();
                next = Instant::now() + Duration::from_secs(1);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    })
}
