//! `wayfs umount`: through the daemon if it runs, by hand if it died.

use super::{Context, unexpected};
use crate::args::UmountArgs;
use crate::failure::{Exit, Failure};
use rustix::mount::UnmountFlags;
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_control::report::UmountReport;
use wayfs_control::{Command, ControlClient, DaemonKind, Done, Registration};

/// Longest wait for a daemon that said it ends.
const END_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn run(context: &Context, args: &UmountArgs) -> Result<(), Failure> {
    let found = context.registry.find_by_path(&args.dir).filter(|found| found.daemon.kind == DaemonKind::Mount);
    let Some(found) = found else { return clean_up(&args.dir, args.force) };
    if !found.path.as_os_str().is_empty() {
        let text =
            format!("{} is not the mount point: it lies in {}", args.dir.display(), found.daemon.place.display());
        return Err(Failure::usage(text, "Name the mount point itself."));
    }
    let command =
        Command::Umount { flush: args.flush, timeout_ms: args.timeout.saturating_mul(1000), force: args.force };
    let report = ask_umount(&found.daemon.socket, &command)?;
    context.print(&Done::Unmounted(report.clone()))?;
    wait_until_ended(&found.daemon)?;
    if report.unsent_records == 0 && report.unsent_bytes == 0 {
        return Ok(());
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
    let deadline = Instant::now() + END_TIMEOUT;
    while ControlClient::connect(&daemon.socket).is_ok() || is_running(daemon.pid) {
        if Instant::now() >= deadline {
            let text = format!("the {} at {} (pid {}) does not end", daemon.kind, daemon.place.display(), daemon.pid);
            return Err(Failure::new(Exit::Failed, text, "Make a bundle with `wayfs debug`, then end it with `kill`."));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn is_running(pid: u32) -> bool {
    // A child of a test that nobody waited for is a zombie: it has ended.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = state.rsplit_once(") ").map(|(_, rest)| rest);
    after_name.is_some_and(|rest| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// No daemon of ours serves this: if it is a mount of ours, its daemon died.
fn clean_up(dir: &Path, force: bool) -> Result<(), Failure> {
    let dir = std::path::absolute(dir).map_err(|e| Failure::io("find the mount point", &e))?;
    let mounts =
        std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| Failure::io("read /proc/self/mountinfo", &e))?;
    if !is_our_mount(&mounts, &dir) {
        let text = format!("{} is no mount of wayfs", dir.display());
        return Err(Failure::new(Exit::NotFound, text, "`wayfs status` lists the mounts that run."));
    }
    if !force && answers(&dir) {
        let text = format!("a daemon that is not yours, or not registered, serves {}", dir.display());
        return Err(Failure::new(Exit::Refused, text, "Unmount it as its owner, or with --force."));
    }
    unmount_lazily(&dir)
}

fn unmount_lazily(dir: &Path) -> Result<(), Failure> {
    if rustix::mount::unmount(dir, UnmountFlags::DETACH).is_ok() {
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

/// Whether the daemon behind a mount still says something within a moment. Asked on a thread of its own, since it may hang.
fn answers(dir: &Path) -> bool {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        let _ = sender.send(rustix::fs::statvfs(&dir).is_ok());
    });
    receiver.recv_timeout(Duration::from_secs(2)).unwrap_or(false)
}

/// Whether `/proc/self/mountinfo` has a wayfs mount there.
pub(crate) fn is_our_mount(mountinfo: &str, dir: &Path) -> bool {
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
        assert_eq!(clean_up(directory.path(), true).unwrap_err().exit, Exit::NotFound);
    }

    #[test]
    fn processes_are_seen() {
        assert!(is_running(std::process::id()));
        assert!(!is_running(u32::MAX));
    }
}
