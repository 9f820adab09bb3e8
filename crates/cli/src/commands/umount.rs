//! `wayfs umount`: through the daemon if it runs, by hand if it died.

use super::{Context, unexpected};
use crate::args::{Output, UmountArgs};
use crate::failure::{Exit, Failure};
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wayfs_control::report::UmountReport;
use wayfs_control::{Command, ControlClient, DaemonKind, Done, Found, Registration, Registry};

/// Longest wait for a daemon that said it ends.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a daemon that broke off may take to be gone: the kernel takes the memory of large ones apart.
const DEATH_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest wait with `--force` for what a daemon still commits, before the mount is taken away over its head.
const FORCE_PATIENCE: Duration = Duration::from_secs(20);

/// How long a daemon then has to end by itself.
const FORCE_END_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a daemon that has mounted may take until it is registered.
const REGISTERED_MAX: Duration = Duration::from_secs(2);

pub(crate) fn run(context: &Context, args: &UmountArgs) -> Result<(), Failure> {
    let Some(found) = find(context, args) else { return clean_up(context, args) };
    if !found.path.as_os_str().is_empty() {
        let text =
            format!("{} is not the mount point: it lies in {}", args.dir.display(), found.daemon.place.display());
        return Err(Failure::usage(text, "Name the mount point itself."));
    }
    let command =
        Command::Umount { flush: args.flush, timeout_ms: args.timeout.saturating_mul(1000), force: args.force };
    if args.force {
        return force(context, args, &found.daemon, command);
    }
    let report = match ask_umount(&found.daemon.socket, &command) {
        // It died while it was asked, or was dying before: its mount is left.
        Err(failure) if failure.exit == Exit::Unreachable && left_behind(&found.daemon)? => {
            return clean_up(context, args);
        }
        asked => asked?,
    };
    told(context, &found.daemon, &report)?;
    wait_until_ended(&found.daemon)?;
    unsent(&found.daemon, &report)
}

/// The mount at a place. Its daemon is registered a moment after it has mounted.
fn find(context: &Context, args: &UmountArgs) -> Option<Found> {
    let deadline = Instant::now() + if args.force { Duration::ZERO } else { REGISTERED_MAX };
    loop {
        let found = context.registry.find_by_path(&args.dir).filter(|found| found.daemon.kind == DaemonKind::Mount);
        let is_alive =
            || real_path(&args.dir).and_then(|dir| liveness(&dir)).is_ok_and(|it| it == Some(Liveness::Alive));
        if found.is_some() || Instant::now() >= deadline || !is_alive() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An NFS mount keeps nothing for later.
fn is_nfs(daemon: &Registration) -> bool {
    daemon.volume.starts_with(super::nfs_mount::SCHEME)
}

/// Prints how it ended; what an NFS mount lost is told as a failure.
fn told(context: &Context, daemon: &Registration, report: &UmountReport) -> Result<(), Failure> {
    if is_nfs(daemon) && report.unsent_bytes > 0 && context.global.output() == Output::Text {
        return Ok(());
    }
    context.print(&Done::Unmounted(report.clone()))
}

/// As asked by the user: it ends in a bounded time, whatever the daemon does.
fn force(context: &Context, args: &UmountArgs, daemon: &Registration, command: Command) -> Result<(), Failure> {
    let patience = FORCE_PATIENCE + if args.flush { Duration::from_secs(args.timeout) } else { Duration::ZERO };
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let socket = daemon.socket.clone();
    std::thread::spawn(move || {
        // Nobody listens after the patience is over.
        let _ = sender.send(ask_umount(&socket, &command));
    });
    if let Ok(Ok(report)) = receiver.recv_timeout(patience) {
        told(context, daemon, &report)?;
        if has_ended_within(daemon, FORCE_END_TIMEOUT) {
            return unsent(daemon, &report);
        }
    }
    break_off(daemon)
}

/// Takes the mount away, and ends a daemon that does not do so by itself.
fn break_off(daemon: &Registration) -> Result<(), Failure> {
    if liveness(&daemon.place)?.is_some() {
        unmount_lazily(&daemon.place)?;
    }
    let named = format!("the daemon of {} (pid {})", daemon.place.display(), daemon.pid);
    let mut how = "ended";
    if !has_ended_within(daemon, DEATH_TIMEOUT) {
        kill(daemon)?;
        how = "did not end and was killed";
        if !has_ended_within(daemon, FORCE_END_TIMEOUT) {
            let text = format!("the mount is taken away, but {named} hangs in the kernel");
            return Err(Failure::new(Exit::Failed, text, "It ends when its disk answers."));
        }
    }
    let text = format!("{named} did not unmount by itself: its mount was taken away, and it {how}");
    let next_step = if is_nfs(daemon) {
        "What programs wrote and did not sync or close may be lost: look at it before you go on."
    } else {
        "What was closed is in its log: mount the volume again to send it."
    };
    Err(Failure::new(Exit::NotTrue, text, next_step))
}

/// SIGKILL, if the process is still what was registered.
fn kill(daemon: &Registration) -> Result<(), Failure> {
    let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let pid = i32::try_from(daemon.pid).ok().and_then(rustix::process::Pid::from_raw);
    let Some(pid) = pid.filter(|_| name(&daemon.pid.to_string()) == name("self")) else { return Ok(()) };
    match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Failure::io(format_args!("kill process {}", daemon.pid), &error.into())),
    }
}

/// What is left behind.
fn unsent(daemon: &Registration, report: &UmountReport) -> Result<(), Failure> {
    if report.unsent_records == 0 && report.unsent_bytes == 0 {
        return Ok(());
    }
    if is_nfs(daemon) {
        let text = format!("unmounted, and {} bytes that programs wrote did not reach the server", report.unsent_bytes);
        return Err(Failure::new(Exit::NotTrue, text, "They are lost: write them again when the server is back."));
    }
    Err(Failure::new(
        Exit::NotTrue,
        "unmounted, but something is not sent yet",
        "It is kept in the log of the mount: mount the volume again, and `wayfs umount --flush` to be sure.",
    ))
}

/// Asks a mount to end.
pub(crate) fn ask_umount(socket: &Path, command: &Command) -> Result<UmountReport, Failure> {
    match ControlClient::connect(socket)?.ask(command)? {
        Done::Unmounted(report) => Ok(report),
        Done::Nothing => Ok(UmountReport::default()),
        other => Err(unexpected(&other)),
    }
}

/// Returns when the daemon's socket is closed.
pub(crate) fn wait_until_ended(daemon: &Registration) -> Result<(), Failure> {
    if has_ended_within(daemon, END_TIMEOUT) {
        return Ok(());
    }
    let text = format!("the {} at {} (pid {}) does not end", daemon.kind, daemon.place.display(), daemon.pid);
    Err(Failure::new(Exit::Failed, text, "`wayfs umount --force` ends it."))
}

fn has_ended_within(daemon: &Registration, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    // A stopped process still takes connections.
    while is_running(daemon.pid) || ControlClient::connect(&daemon.socket).is_ok() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

fn is_running(pid: u32) -> bool {
    // A child of a test that nobody waited for is a zombie: it has ended.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = state.rsplit_once(") ").map(|(_, rest)| rest);
    after_name.is_some_and(|rest| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// Whether a daemon that broke off is gone, and has left its mount.
fn left_behind(daemon: &Registration) -> Result<bool, Failure> {
    let deadline = Instant::now() + DEATH_TIMEOUT;
    while is_running(daemon.pid) || ControlClient::connect(&daemon.socket).is_ok() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(liveness(&daemon.place)? == Some(Liveness::Dead))
}

/// No daemon of ours serves this: if it is a mount of ours, its daemon died.
fn clean_up(context: &Context, args: &UmountArgs) -> Result<(), Failure> {
    context.registry.forget_ended(&real_path(&args.dir)?);
    take_away(&args.dir, if args.force { IfServed::Unmount } else { IfServed::Refuse })?;
    if args.flush {
        let text = "the daemon of this mount had died, so nobody knows whether everything is safe";
        return Err(Failure::new(
            Exit::NotTrue,
            text,
            "Mount it again (its log is kept), then `wayfs umount --flush`.",
        ));
    }
    Ok(())
}

/// What becomes of a mount whose daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfServed {
    Refuse,
    Unmount,
}

fn take_away(dir: &Path, if_served: IfServed) -> Result<(), Failure> {
    let dir = real_path(dir)?;
    match (liveness(&dir)?, if_served) {
        (None, _) => {
            let text = format!("{} is no mount of wayfs", dir.display());
            Err(Failure::new(Exit::NotFound, text, "`wayfs status` lists the mounts that run."))
        }
        (Some(Liveness::Dead), _) | (Some(_), IfServed::Unmount) => unmount_lazily(&dir),
        (Some(Liveness::Alive), IfServed::Refuse) => {
            let text = format!("a daemon that is not yours, or not registered, serves {}", dir.display());
            Err(Failure::new(Exit::Refused, text, "Unmount it as its owner, or with --force."))
        }
        (Some(Liveness::Silent), IfServed::Refuse) => {
            let text = format!("the mount at {} does not answer, but its daemon still runs", dir.display());
            Err(Failure::new(Exit::Failed, text, "Make a bundle with `wayfs debug`, then unmount it with --force."))
        }
    }
}

/// Takes away what a daemon that died has left at a place where something is to be mounted.
pub(crate) fn take_down_dead(registry: &Registry, dir: &Path) -> Result<(), Failure> {
    let Ok(dir) = real_path(dir) else { return Ok(()) };
    match liveness(&dir)? {
        Some(Liveness::Dead) => unmount_lazily(&dir),
        Some(Liveness::Silent) => take_down_killed(&registry.registered_at(&dir), &dir),
        Some(Liveness::Alive) | None => Ok(()),
    }
}

/// A daemon that was killed may be held in the kernel: it was telling it of a change in a directory in which a program waits for an
/// answer of the daemon. So the kernel does not see that nobody will answer, until it is told.
fn take_down_killed(registered: &[Registration], dir: &Path) -> Result<(), Failure> {
    if registered.is_empty() || registered.iter().any(|daemon| is_running(daemon.pid)) {
        return Ok(());
    }
    unmount_lazily(dir)?;
    // It has the cache until it is gone.
    registered.iter().for_each(|daemon| {
        has_ended_within(daemon, DEATH_TIMEOUT);
    });
    Ok(())
}

/// The path as the kernel's table has it. The mount point itself is not touched: it may be dead.
fn real_path(dir: &Path) -> Result<PathBuf, Failure> {
    let fail = |e: std::io::Error| Failure::io(format_args!("find {}", dir.display()), &e);
    let absolute = std::path::absolute(dir).map_err(fail)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize().map_err(fail)?.join(name)),
        _ => Ok(absolute),
    }
}

/// How a mount of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Liveness {
    /// Its daemon answers.
    Alive,
    /// Its daemon has ended.
    Dead,
    /// Nothing is said for a while.
    Silent,
}

/// `None` if no mount of ours is there. `statfs` is asked, since the kernel answers `stat` for the dead from its cache; and on a
/// thread of its own, since it may hang.
fn liveness(dir: &Path) -> Result<Option<Liveness>, Failure> {
    let mounts =
        std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| Failure::io("read /proc/self/mountinfo", &e))?;
    if !is_our_mount(&mounts, dir) {
        return Ok(None);
    }
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        let _ = sender.send(rustix::fs::statvfs(&dir).map(|_| ()));
    });
    Ok(Some(match receiver.recv_timeout(Duration::from_secs(2)) {
        Ok(Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED)) => Liveness::Dead,
        Ok(_) => Liveness::Alive,
        Err(_) => Liveness::Silent,
    }))
}

/// What waits for the daemon fails from then on.
fn unmount_lazily(dir: &Path) -> Result<(), Failure> {
    if rustix::mount::unmount(dir, UnmountFlags::FORCE | UnmountFlags::DETACH).is_ok() {
        return Ok(());
    }
    // Without privileges the helper of FUSE does it for the mount's owner.
    let helper = std::process::Command::new("fusermount3").args(["-u", "-z", "--"]).arg(dir).status();
    match helper {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Failure::new(Exit::Failed, format_args!("fusermount3 failed ({status})"), "Unmount it as root."))
        }
        Err(e) => Err(Failure::io("run fusermount3", &e)),
    }
}

/// Whether `/proc/self/mountinfo` has a wayfs mount there.
fn is_our_mount(mountinfo: &str, dir: &Path) -> bool {
    our_mounts(mountinfo).iter().any(|mount| Path::new(mount) == dir)
}

/// Mount points of wayfs in `/proc/self/mountinfo`.
pub(crate) fn our_mounts(mountinfo: &str) -> Vec<String> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let kind = after.split(' ').next()?;
            let place = before.split(' ').nth(4)?;
            (kind == "fuse.wayfs").then(|| unescape(place))
        })
        .collect()
}

/// The kernel writes blanks and backslashes as octal numbers.
fn unescape(text: &str) -> String {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/sda rw
90 22 0:50 / /mnt/a\\040b rw,nosuid shared:2 - fuse.wayfs photos rw,user_id=0
91 22 0:51 / /mnt/c rw - fuse.sshfs x rw
rubbish
";

    #[test]
    fn our_mounts_are_found() {
        assert_eq!(our_mounts(MOUNTINFO), ["/mnt/a b"]);
        assert!(is_our_mount(MOUNTINFO, Path::new("/mnt/a b")));
        assert!(!is_our_mount(MOUNTINFO, Path::new("/mnt/c")));
    }

    #[test]
    fn a_directory_that_is_no_mount_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(take_away(directory.path(), IfServed::Unmount).unwrap_err().exit, Exit::NotFound);
    }

    #[test]
    fn processes_are_seen() {
        assert!(is_running(std::process::id()));
        assert!(!is_running(u32::MAX));
    }
}
