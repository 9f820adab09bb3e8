//! A machine: directories of its own, and the `wayfs` daemons and mounts on it.

use crate::process::{Finished, Process, run_for};
use crate::wait::eventually;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Longest time for a daemon to be ready, on a busy machine.
const READY: Duration = Duration::from_secs(30);

/// A UDP port that nothing uses, and that nobody is given who asks for any: a server that is killed gets it back.
pub fn free_port() -> u16 {
    // Below the range that the kernel gives from.
    const PORTS: std::ops::Range<u16> = 10_000..30_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id().wrapping_mul(97);
    let port = || {
        let at = begin.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed).into()) % u32::from(PORTS.end - PORTS.start);
        PORTS.start + at as u16
    };
    let mut ports = std::iter::repeat_with(port).take(PORTS.len());
    ports.find(|port| UdpSocket::bind(("127.0.0.1", *port)).is_ok()).expect("loopback has free ports")
}

/// The program under test: beside the test binaries, or `$WAYFS_BIN`.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("WAYFS_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test knows its path");
    let directory = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let program = directory.join("wayfs");
    assert!(program.exists(), "build it first: cargo build --package wayfs");
    program
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    root: TempDir,
    name: String,
}

impl Machine {
    /// Where it keeps what it has of a volume that it mounts.
    pub fn cache_of(&self, volume: &str) -> PathBuf {
        self.path("cache").join(volume)
    }

    /// A machine with nothing on it.
    pub fn new(name: &str) -> Self {
        // Logs of what failed can be kept: `WAYFS_KEEP=1`.
        let is_kept = std::env::var_os("WAYFS_KEEP").is_some();
        let prefix = format!("wayfs-{name}-");
        let root = tempfile::Builder::new().prefix(&prefix).disable_cleanup(is_kept).tempdir();
        let root = root.expect("a temporary directory");
        for directory in ["state", "cache", "config", "run", "home"] {
            std::fs::create_dir(root.path().join(directory)).expect("make a directory");
        }
        Self { root, name: name.to_owned() }
    }

    /// A path on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The program, in this machine's directories.
    pub fn command(&self) -> Command {
        self.command_under(&[])
    }

    fn command_under(&self, launcher: &[&str]) -> Command {
        let program = program();
        let mut words = launcher.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().expect("the program is one"));
        command.args(words);
        command
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("HOME", self.path("home"))
            .env("RUST_BACKTRACE", "1")
            .env("WAYFS_HOST", &self.name)
            .env_remove("WAYFS_TICKET");
        command
    }

    /// Runs `wayfs ARGUMENTS` to its end.
    pub fn wayfs(&self, arguments: &[&str]) -> Finished {
        run_for(Duration::from_secs(90), self.command().args(arguments))
    }

    /// Starts `wayfs serve` and waits until it answers.
    pub fn serve(&self, port: u16, more: &[&str]) -> Server {
        let data = self.path("data");
        let listen = format!("127.0.0.1:{port}");
        let mut command = self.command();
        command.arg("serve").arg("--data").arg(&data).args(["--listen", &listen]).args(more);
        let process = Process::start(&mut command, &self.path("serve.log"));
        let mut server = Server { process, data, port };
        eventually("the server answers", READY, || {
            assert!(server.process.ended().is_none(), "the server ended: {}", server.process.log());
            server.wayfs(self, &["status", "--json"]).status.success()
        });
        server
    }

    /// Starts `wayfs mount` in the foreground and waits until something is mounted.
    pub fn mount(&self, what: &str, more: &[&str]) -> Mount {
        self.mount_under(&[], what, more)
    }

    /// As [`Machine::mount`], started by another program (`prlimit …`, say), whose arguments end with what it starts.
    pub fn mount_under(&self, launcher: &[&str], what: &str, more: &[&str]) -> Mount {
        let directory = self.path("mnt");
        // One that died is taken away by the program itself; nobody else can touch the directory.
        if !is_mounted(&directory) {
            std::fs::create_dir_all(&directory).expect("make a mount point");
        }
        let mut command = self.command_under(launcher);
        command.args(["mount", what]).arg(&directory).arg("--cache").arg(self.path("cache")).args(more);
        let process = Process::start(&mut command, &self.path("mount.log"));
        let mut mount = Mount { process, directory, is_over: false };
        eventually("the volume is mounted", READY, || {
            assert!(mount.process.ended().is_none(), "the mount ended: {}", mount.process.log());
            // It can be commanded a moment after the kernel shows it.
            is_mounted(&mount.directory) && mount.process.has_said("Mounted ")
        });
        mount
    }
}

/// Whether something is mounted there, by the kernel's table (never touches the mount).
pub fn is_mounted(directory: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").expect("the kernel has a mount table");
    let wanted = directory.to_string_lossy();
    table.lines().any(|line| line.split(' ').nth(1) == Some(&wanted))
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Its process.
    pub process: Process,
    /// Its data directory.
    pub data: PathBuf,
    /// Its port on loopback.
    pub port: u16,
}

impl Server {
    /// Runs a tool of its machine against it.
    pub fn wayfs(&self, machine: &Machine, arguments: &[&str]) -> Finished {
        run_for(Duration::from_secs(90), machine.command().env("WAYFS_AT", &self.data).args(arguments))
    }

    /// A ticket of a volume.
    pub fn ticket(&self, machine: &Machine, volume: &str) -> String {
        self.wayfs(machine, &["volume", "ticket", volume]).ok().out.trim().to_owned()
    }

    /// A ticket that admits a station.
    pub fn station_ticket(&self, machine: &Machine, volume: &str) -> String {
        self.wayfs(machine, &["volume", "ticket", volume, "--station"]).ok().out.trim().to_owned()
    }
}

/// A mounted volume.
#[derive(Debug)]
pub struct Mount {
    /// Its process.
    pub process: Process,
    directory: PathBuf,
    /// What may be mounted there by now is another's.
    is_over: bool,
}

impl Mount {
    /// A path in the volume.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs a tool of its machine against it.
    pub fn wayfs(&self, machine: &Machine, arguments: &[&str]) -> Finished {
        run_for(Duration::from_secs(90), machine.command().env("WAYFS_AT", &self.directory).args(arguments))
    }

    /// Waits until everything written through it has come so far.
    ///
    /// # Panics
    /// If it has not within a minute.
    pub fn sync(&self, machine: &Machine, until: &str) {
        self.wayfs(machine, &["sync", "--until", until, "--timeout", "60"]).ok();
    }

    /// The mount point.
    pub fn root(&self) -> &Path {
        &self.directory
    }

    /// SIGKILL to the daemon; what is left of the mount is taken away.
    pub fn kill(&mut self) {
        self.process.signal(rustix::process::Signal::KILL);
        // It may be held in the kernel until its mount is gone.
        unmount(&self.directory);
        self.process.kill();
        self.is_over = true;
    }

    /// SIGKILL to the daemon; what is left of the mount is for the next one to take away.
    pub fn abandon(&mut self) {
        self.process.signal(rustix::process::Signal::KILL);
        self.is_over = true;
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill();
        }
    }
}

fn unmount(directory: &Path) {
    if is_mounted(directory) {
        let _ =
            rustix::mount::unmount(directory, rustix::mount::UnmountFlags::FORCE | rustix::mount::UnmountFlags::DETACH);
    }
}
