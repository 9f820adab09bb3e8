//! `wayfs mount nfs://…` and `wayfs nfs notice`: an NFS export as a mount.

use super::nfs::{self, Url};
use super::umount::take_down_dead;
use super::{Context, to_json, write_out};
use crate::args::{MountArgs, NoticeArg, Output};
use crate::failure::{Exit, Failure};
use crate::{daemon, logging, panics, sd_notify, signals};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::{info, warn};
use wayfs_client::UmountMode;
use wayfs_control::{Command, ControlClient, DaemonKind, LinkNotice};
use wayfs_nfs::WaitPolicy;
use wayfs_nfs::live::{Export, Options};
use wayfs_nfsmount::{KNOWN, NfsEnded, NfsMount, NfsMountConfig, NfsMountError, NfsStopper, Settings};

/// How an address of an export begins, here and in the names of daemons.
pub(crate) const SCHEME: &str = "nfs://";
/// How long programs that use the mount may hold up its end after a signal. Then they get errors.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// Time between two tries to unmount.
const BUSY_STEP: Duration = Duration::from_millis(200);
/// Sendings of the first call: half a minute. A server that is not there when one mounts is more often a mistake than a pause.
const FIRST_TRIES: u32 = 5;

/// Whether an export is to be mounted.
pub(super) fn is_meant(args: &MountArgs) -> bool {
    args.source.as_os_str().as_encoded_bytes().starts_with(SCHEME.as_bytes())
}

pub(super) fn run(context: &Context, args: &MountArgs) -> Result<(), Failure> {
    let url = Url::parse(&args.source.to_string_lossy())?;
    let settings = settings(args)?;
    let dir = args.dir.as_deref().ok_or_else(|| {
        Failure::usage("no directory to mount on", "Write it as `wayfs mount nfs://HOST[:PORT]/EXPORT DIR`.")
    })?;
    let dir = std::path::absolute(dir).map_err(|e| Failure::io("find the mount point", &e))?;
    take_down_dead(&context.registry, &dir)?;
    if args.daemon && !daemon::is_background() {
        let log = daemon::start(&context.config.dirs.logs, &super::mount::log_name(&dir), None)?;
        return write_out(&format!("Mounted at {}; its log is {}.\n", dir.display(), log.display()));
    }
    daemon::detach();
    panics::end_the_process();
    logging::start(&context.config.log);
    let ending = Arc::new(Mutex::new(None));
    end_on_signal(&ending, &settings.options)?;
    let config = NfsMountConfig {
        server: url.address()?,
        host: url.authority(),
        port: url.port,
        export: if url.path.is_empty() { "/".to_owned() } else { url.path.clone() },
        control_socket: control_socket(&context.config.dirs.state, &dir),
        mountpoint: dir,
        settings,
        registry: context.registry.clone(),
    };
    reach(&config)?;
    let mount = NfsMount::start(config).map_err(|error| start_failure(&error))?;
    *ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(mount.stopper());
    announce(&args.source.to_string_lossy(), mount.mountpoint());
    let ended = mount.run();
    sd_notify::notify("STOPPING=1");
    end(&ended)
}

fn settings(args: &MountArgs) -> Result<Settings, Failure> {
    let foreign = [
        (args.cache.is_some(), "--cache"),
        (args.cache_size.is_some(), "--cache-size"),
        (args.close.is_some(), "--close"),
        (args.sharing.is_some(), "--sharing"),
        (args.offline, "--offline"),
        (args.no_mdns, "--no-mdns"),
        (args.metrics.is_some(), "--metrics"),
    ];
    if let Some((_, option)) = foreign.iter().find(|(is_given, _)| *is_given) {
        let next = format!("Options of an NFS mount stand behind -o: {KNOWN}.");
        return Err(Failure::usage(format_args!("{option} is an option of volumes, not of NFS mounts"), next));
    }
    let mut settings = Settings::parse(args.options.iter().map(String::as_str))
        .map_err(|error| Failure::usage(format_args!("-o {error}"), format!("Options are: {KNOWN}.")))?;
    settings.read_only |= args.read_only;
    settings.allow_other = args.allow_other.then_some(true).or(settings.allow_other);
    Ok(settings)
}

/// One for each mount point; its name must be short, since the kernel bounds paths of sockets.
fn control_socket(state: &Path, dir: &Path) -> PathBuf {
    let hash = dir.as_os_str().as_encoded_bytes().iter();
    let hash =
        hash.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    state.join("nfs").join(format!("{hash:016x}.sock"))
}

/// Whether there is a server at all, in a bounded time.
fn reach(config: &NfsMountConfig) -> Result<(), Failure> {
    let _wait = nfs::Wait::begin(&config.host, "half a minute at most");
    let options = Options { wait_policy: WaitPolicy::Soft(FIRST_TRIES), ..config.settings.options.clone() };
    Export::find_root(config.server, config.settings.ports(config.port), &config.export, &options)
        .map(drop)
        .map_err(|error| nfs::failure(&error))
}

fn announce(url: &str, place: &Path) {
    if !daemon::is_background() {
        let place = place.display();
        // A standard output that is closed is no reason to unmount.
        let _ = write_out(&format!("Mounted {url} at {place}. End it with Ctrl-C or `wayfs umount {place}`.\n"));
    }
    daemon::report_ready();
    sd_notify::notify("READY=1");
}

/// Before there is a mount, a signal ends the wait for the server. Afterwards the first unmounts in order, and by force if programs hold
/// on for too long; the second by force at once.
fn end_on_signal(mount: &Arc<Mutex<Option<NfsStopper>>>, options: &Options) -> Result<(), Failure> {
    let signals = signals::catch().map_err(|e| Failure::io("catch signals", &e))?;
    let (mount, interrupt) = (Arc::clone(mount), Arc::clone(&options.interrupt));
    let watch = move || {
        if signals.recv().is_err() {
            return;
        }
        interrupt.store(true, Ordering::Relaxed);
        let stopper = mount.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(stopper) = stopper {
            unmount(&stopper, &signals);
        }
    };
    let thread = std::thread::Builder::new().name("unmount-on-signal".into()).spawn(watch);
    thread.map(drop).map_err(|e| Failure::io("start a thread", &e))
}

fn unmount(stopper: &NfsStopper, signals: &Receiver<signals::Ending>) {
    let deadline = Instant::now() + BUSY_MAX;
    while stopper.stop(UmountMode::Orderly).is_err() && Instant::now() < deadline {
        match signals.recv_timeout(BUSY_STEP) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if stopper.is_stopping() {
        return;
    }
    info!("programs still use the mount: it is taken away from them");
    // What they wrote gets a chance.
    stopper.flush(BUSY_MAX);
    if let Err(error) = stopper.stop(UmountMode::Force) {
        warn!(%error, "unmount");
    }
}

fn end(ended: &NfsEnded) -> Result<(), Failure> {
    if ended.lost_bytes > 0 {
        let text = format!("{} bytes that programs wrote did not reach the disk of the server", ended.lost_bytes);
        let next = "They are lost: write them again. Programs that closed or synced their files were told.";
        return Err(Failure::new(Exit::NotTrue, text, next));
    }
    match &ended.failure {
        Some(reason) => Err(Failure::new(Exit::Failed, format_args!("the mount ended: {reason}"), "Mount it again.")),
        None => Ok(()),
    }
}

fn start_failure(error: &NfsMountError) -> Failure {
    match error {
        NfsMountError::Server(error) => nfs::failure(error),
        NfsMountError::Mount(_) => Failure::new(
            Exit::Failed,
            format_args!("mount: {error}"),
            "`wayfs status` shows what is mounted, `wayfs doctor` what is missing.",
        ),
        NfsMountError::Control(_) => {
            Failure::new(Exit::Refused, format_args!("mount: {error}"), "`wayfs status` shows the mount that runs.")
        }
        NfsMountError::Session(_) | NfsMountError::Registry(_) | NfsMountError::System(_) => {
            Failure::new(Exit::Failed, format_args!("mount: {error}"), "")
        }
    }
}

/// Tells NFS mounts what the link below them did: all, or the one of `--at`.
pub(super) fn notice(context: &Context, notice: NoticeArg) -> Result<(), Failure> {
    let command = Command::LinkNotice {
        notice: match notice {
            NoticeArg::Down => LinkNotice::Down,
            NoticeArg::Up => LinkNotice::Up,
            NoticeArg::Handoff => LinkNotice::HandOff,
        },
    };
    let told = if context.global.at.is_some() {
        context.connect(Some(DaemonKind::Mount))?.ask(&command)?;
        1
    } else {
        let mut told = 0;
        for daemon in context.registry.running().iter().filter(|daemon| daemon.volume.starts_with(SCHEME)) {
            ControlClient::connect(&daemon.socket)?.ask(&command)?;
            told += 1;
        }
        told
    };
    if told == 0 {
        let next = "`wayfs mount nfs://HOST/EXPORT DIR` makes one; --at DIR names one.";
        return Err(Failure::new(Exit::Unreachable, "no NFS mount of yours runs on this machine", next));
    }
    match context.global.output() {
        Output::Text => write_out(&format!("Told {told} mount(s).\n")),
        Output::Json => write_out(&format!("{}\n", to_json(&json!({ "told": told }))?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_short_and_one_for_each_place() {
        let of = |dir: &str| control_socket(Path::new("/s"), Path::new(dir));
        assert_ne!(of("/a"), of("/b"));
        assert!(of(&"/x".repeat(500)).as_os_str().len() < 40);
    }

    #[test]
    fn what_was_lost_is_never_called_fine() {
        assert!(end(&NfsEnded::default()).is_ok());
        let lost = NfsEnded { lost_bytes: 3, failure: None };
        assert_eq!(end(&lost).unwrap_err().exit, Exit::NotTrue);
    }
}
