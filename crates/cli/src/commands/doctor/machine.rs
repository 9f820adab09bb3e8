//! Checks of the machine. Each takes moments and changes nothing.

use super::good;
use crate::commands::umount::our_mounts;
use std::fs::OpenOptions;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, SystemTime};
use wayfs_control::report::{DoctorFact, Verdict};

/// Kernel with FUSE passthrough for files.
const PASSTHROUGH_KERNEL: KernelVersion = KernelVersion { major: 6, minor: 9 };

/// Below this share of free space writers are in danger.
const FREE_PERCENT_MIN: u64 = 5;

/// A daemon needs descriptors for its store, its sockets and open files.
const OPEN_FILES_MIN: u64 = 4096;

/// QUIC at 1 Gb/s wants this much, in bytes: 7.5 MB is what its implementors ask for.
const UDP_BUFFER_MIN: u64 = 2_500_000;

/// 2026-01-01: a clock before that has not been set.
const CLOCK_MIN_UNIX_S: u64 = 1_767_225_600;

fn fact(check: &str, verdict: Verdict, detail: impl Into<String>, next_step: impl Into<String>) -> DoctorFact {
    DoctorFact { check: check.into(), verdict, detail: detail.into(), next_step: next_step.into() }
}

/// Mounts need `/dev/fuse`.
pub(crate) fn fuse_device() -> DoctorFact {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => good("FUSE device", "/dev/fuse can be opened"),
        Err(e) => {
            let next_step = match e.kind() {
                std::io::ErrorKind::NotFound => {
                    "Load the module with `modprobe fuse`; a container needs `--device /dev/fuse`."
                }
                _ => "Join the group that owns /dev/fuse, or run as root. Servers do not need it.",
            };
            fact("FUSE device", Verdict::Bad, format!("/dev/fuse: {e}"), next_step)
        }
    }
}

/// Users other than root mount through a helper.
pub(crate) fn fuse_helper() -> DoctorFact {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|dir| dir.join("fusermount3")).find(|path| path.exists());
    match (found, rustix::process::geteuid().is_root()) {
        (Some(path), _) => good("FUSE helper", path.display().to_string()),
        (None, true) => good("FUSE helper", "fusermount3 is not installed; root does not need it"),
        (None, false) => {
            fact("FUSE helper", Verdict::Bad, "fusermount3 is not installed", "Install the package fuse3.")
        }
    }
}

/// Passthrough makes cached files as fast as local ones.
pub(crate) fn passthrough() -> DoctorFact {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let version = kernel_version(&release);
    let admin = effective_capabilities().is_some_and(|bits| bits & (1 << 21) != 0);
    match version {
        Some(version) if version >= PASSTHROUGH_KERNEL && admin => {
            good("kernel passthrough", format!("Linux {release}"))
        }
        Some(version) if version >= PASSTHROUGH_KERNEL => fact(
            "kernel passthrough",
            Verdict::Warning,
            "needs the capability CAP_SYS_ADMIN; cached files are read through the daemon",
            "Mount as root if you need the last factor of two in speed.",
        ),
        _ => fact(
            "kernel passthrough",
            Verdict::Warning,
            format!("Linux {release} has none; cached files are read through the daemon"),
            "Use Linux 6.9 or newer if you need the last factor of two in speed.",
        ),
    }
}

/// A version of the kernel; they have an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KernelVersion {
    major: u32,
    minor: u32,
}

/// `6.18.2-arch1` is 6.18.
fn kernel_version(release: &str) -> Option<KernelVersion> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some(KernelVersion { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
}

fn effective_capabilities() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Nothing is ordered by clocks, but people read dates and `make` compares them.
pub(crate) fn clock() -> DoctorFact {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if now >= CLOCK_MIN_UNIX_S {
        return good("clock", "plausible");
    }
    fact(
        "clock",
        Verdict::Warning,
        "stands before 2026",
        "Set it, or install chrony or systemd-timesyncd. Tickets expire by it.",
    )
}

/// A full disk stops writers.
pub(crate) fn disk_space(state: &Path) -> DoctorFact {
    let place = state.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(place) {
        Err(e) => fact("disk space", Verdict::Warning, format!("{}: {e}", place.display()), ""),
        Ok(found) => {
            let percent = found.f_bavail.saturating_mul(100) / found.f_blocks.max(1);
            let free_gib = found.f_bavail.saturating_mul(found.f_frsize) >> 30;
            let detail = format!("{free_gib} GiB ({percent} %) free below {}", place.display());
            if percent >= FREE_PERCENT_MIN {
                return good("disk space", detail);
            }
            fact("disk space", Verdict::Warning, detail, "Make room, or lower `cache_size`.")
        }
    }
}

/// Few descriptors stop busy daemons.
pub(crate) fn open_files() -> DoctorFact {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    match limit {
        Some(limit) if limit < OPEN_FILES_MIN => fact(
            "open files",
            Verdict::Warning,
            format!("at most {limit} per process"),
            "Raise it with `ulimit -Hn 65536` or LimitNOFILE= in the service.",
        ),
        Some(limit) => good("open files", format!("up to {limit} per process")),
        None => good("open files", "no limit"),
    }
}

/// Small socket buffers slow fast links down.
pub(crate) fn udp_buffers() -> DoctorFact {
    let text = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default();
    match text.trim().parse::<u64>() {
        Ok(max) if max < UDP_BUFFER_MIN => fact(
            "UDP buffers",
            Verdict::Warning,
            format!("net.core.rmem_max is {max}: losses above some 100 Mb/s"),
            "As root: sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000",
        ),
        Ok(max) => good("UDP buffers", format!("up to {max} bytes")),
        Err(_) => good("UDP buffers", "not known here"),
    }
}

/// Whether a server could listen.
pub(crate) fn port(address: SocketAddr) -> DoctorFact {
    match UdpSocket::bind(address) {
        Ok(_) => good("port", format!("UDP {address} is free for a server")),
        Err(e) => fact(
            "port",
            Verdict::Warning,
            format!("UDP {address}: {e}"),
            "A server needs another one: `wayfs serve --listen`.",
        ),
    }
}

/// Mounts whose daemon died, or hangs.
pub(crate) fn dead_mounts() -> Vec<DoctorFact> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    our_mounts(&mountinfo).into_iter().map(|mount| mount_answers(&mount)).collect()
}

fn mount_answers(mount: &str) -> DoctorFact {
    let (sender, receiver) = sync_channel(1);
    let place = mount.to_owned();
    // A hung mount hangs who asks, so nobody waits for this thread.
    std::thread::spawn(move || {
        // `stat` would be answered from the kernel's cache.
        let _ = sender.send(rustix::fs::statvfs(&place).map(|_| ()));
    });
    let check = format!("mount {mount}");
    match receiver.recv_timeout(Duration::from_secs(3)) {
        Ok(Ok(())) => good(&check, "answers"),
        Ok(Err(e)) => fact(
            &check,
            Verdict::Bad,
            e.to_string(),
            format!("Its daemon died: `wayfs umount --force {mount}`, then mount it again."),
        ),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => fact(
            &check,
            Verdict::Bad,
            "does not answer within 3 s",
            format!("Make a bundle with `wayfs debug`, then `wayfs umount --force {mount}`."),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_read() {
        assert_eq!(kernel_version("6.18.2-arch1"), Some(KernelVersion { major: 6, minor: 18 }));
        assert_eq!(kernel_version("7.0"), Some(KernelVersion { major: 7, minor: 0 }));
        assert_eq!(kernel_version("x"), None);
    }

    #[test]
    fn every_check_ends_and_says_something() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let facts = [
            fuse_device(),
            fuse_helper(),
            passthrough(),
            clock(),
            disk_space(Path::new("/no/such/place")),
            open_files(),
            udp_buffers(),
            port(taken.local_addr().unwrap()),
        ];
        assert!(facts.iter().all(|fact| !fact.detail.is_empty()));
        assert!(facts.iter().all(|fact| fact.verdict == Verdict::Good || !fact.next_step.is_empty()));
        assert_eq!(facts[7].verdict, Verdict::Warning);
    }
}
