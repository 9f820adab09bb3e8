//! Daemons as init scripts and people see them: readiness, refusals, endings, and what a dead one leaves behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Output, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_server_in_the_background_serves_when_the_command_returns_and_ends_when_stop_returns() {
    let machine = Machine::new();
    let started = machine.serve(&["--daemon"]);
    assert_eq!(code(&started), 0, "{}", err(&started));
    assert_eq!(code(&machine.run(&["volume", "create", "work"])), 0);
    let ticket = machine.run(&["volume", "ticket", "work"]);
    assert!(out(&ticket).starts_with("wayfs1-") && out(&ticket).lines().count() == 1, "{}", out(&ticket));
    let stopped = machine.run(&["stop"]);
    assert_eq!(code(&stopped), 0, "{}", err(&stopped));
    assert!(!machine.path("data/control.sock").exists());
    // What it had is there again.
    assert_eq!(code(&machine.serve(&["--daemon"])), 0);
    assert!(out(&machine.run(&["volume", "list"])).contains("work"));
}

#[test]
fn a_server_that_cannot_start_says_why_also_from_the_background() {
    let machine = Machine::new();
    assert_eq!(code(&machine.serve(&["--daemon"])), 0);
    for more in [&["--daemon"][..], &[]] {
        let second = machine.serve(more);
        assert_eq!(code(&second), 5, "{}", err(&second));
        assert!(err(&second).contains("in use"), "{}", err(&second));
    }
    let other = Machine::new();
    let port_taken = other.wayfs(&["serve", "--data", &other.text("data"), "--listen", &machine.listen()]);
    assert_eq!(code(&port_taken), 6, "{}", err(&port_taken));
    assert!(err(&port_taken).contains("--listen"), "{}", err(&port_taken));
    let policy =
        other.wayfs(&["serve", "--data", &other.text("data"), "--listen", &other.listen(), "--policy", "often"]);
    assert_eq!(code(&policy), 2, "{}", err(&policy));
}

#[test]
fn the_service_manager_hears_of_readiness_and_a_signal_ends_in_order() {
    let machine = Machine::new();
    let socket = machine.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (data, listen) = (machine.text("data"), machine.listen());
    let mut command = machine.command(&["serve", "--data", &data, "--listen", &listen]);
    let mut server = command.env("NOTIFY_SOCKET", &socket).spawn().unwrap();
    let hear = || {
        let mut buffer = [0; 64];
        let len = manager.recv(&mut buffer).expect("the manager hears within its bound");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(wait(&mut server).code(), Some(0));
}

#[test]
fn a_mount_comes_and_goes_and_what_a_killed_one_left_is_cleaned_up() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("no /dev/fuse here: nothing to mount with");
        return;
    }
    let machine = Machine::new();
    assert_eq!(code(&machine.serve(&["--daemon"])), 0);
    assert_eq!(code(&machine.run(&["volume", "create", "work"])), 0);
    assert_eq!(code(&machine.run(&["volume", "ticket", "work", "--out", &machine.text("ticket")])), 0);
    let mnt = machine.text("mnt");
    std::fs::create_dir(&mnt).unwrap();
    let mount = |source: &str| machine.run(&["mount", "--daemon", source, &mnt, "--cache", &machine.text("cache")]);
    let first = mount(&machine.text("ticket"));
    assert_eq!(code(&first), 0, "{}", err(&first));
    let umount = machine.run(&["umount", "--flush", &mnt]);
    assert_eq!((code(&umount), is_mounted(&mnt)), (0, false), "{}{}", err(&umount), machine.logs());

    // From here on the name is enough.
    let second = mount("work");
    assert_eq!(code(&second), 0, "{}", err(&second));
    kill(pid_of(&machine, "mount"));
    let cleaned = machine.run(&["umount", &mnt]);
    assert_eq!((code(&cleaned), is_mounted(&mnt)), (0, false), "{}{}", err(&cleaned), machine.logs());
    assert_eq!(code(&machine.run(&["umount", &mnt])), 4, "there is nothing left to unmount");
    // A mount at the same place does the cleaning up itself, also where the kernel still knows the root's attributes.
    assert_eq!(code(&mount("work")), 0);
    std::fs::write(machine.path("mnt/file"), "kept").unwrap();
    assert_eq!(code(&machine.run(&["--at", &mnt, "sync", "--timeout", "20"])), 0);
    kill(pid_of(&machine, "mount"));
    let again = mount("work");
    assert_eq!(code(&again), 0, "{}", err(&again));
    assert_eq!(std::fs::read_to_string(machine.path("mnt/file")).unwrap(), "kept");
    assert_eq!(code(&machine.run(&["umount", &mnt])), 0);
    let unknown = mount("nonesuch");
    assert_eq!((code(&unknown), is_mounted(&mnt)), (4, false), "{}", err(&unknown));
}

/// Directories, a port and a runtime directory of their own; whatever still runs is ended at the end.
struct Machine {
    directory: tempfile::TempDir,
    port: u16,
}

impl Machine {
    fn new() -> Self {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { directory: tempfile::tempdir().unwrap(), port }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn listen(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn command(&self, arguments: &[&str]) -> Process {
        let mut command = Process::new(env!("CARGO_BIN_EXE_wayfs"));
        command
            .args(arguments)
            .env("WAYFS_RUNTIME_DIR", self.path("run"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("WAYFS_TICKET")
            .env_remove("WAYFS_AT")
            .env_remove("WAYFS_CONFIG")
            .env_remove("NOTIFY_SOCKET")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// What the daemons said, for messages of failures.
    fn logs(&self) -> String {
        let logs = std::fs::read_dir(self.path("state/wayfs/log")).into_iter().flatten().flatten();
        logs.map(|log| std::fs::read_to_string(log.path()).unwrap_or_default()).collect()
    }

    fn serve(&self, more: &[&str]) -> Output {
        let (data, listen) = (self.text("data"), self.listen());
        self.wayfs(&[&["serve", "--data", &data, "--listen", &listen], more].concat())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.wayfs(arguments)
    }

    /// Runs a command to its end, which must come within its bound.
    fn wayfs(&self, arguments: &[&str]) -> Output {
        let mut child = self.command(arguments).spawn().unwrap();
        wait(&mut child);
        child.wait_with_output().unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.wayfs(&["stop", "--all"]);
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("a command did not end within its bound");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn pid_of(machine: &Machine, kind: &str) -> i32 {
    let reports: serde_json::Value = serde_json::from_str(&out(&machine.run(&["status", "--json"]))).unwrap();
    let found = reports.as_array().unwrap().iter().find(|report| report["kind"] == kind).expect("it runs");
    i32::try_from(found["pid"].as_i64().unwrap()).unwrap()
}

/// Ends a daemon that this test started as a power failure would.
fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let gone = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
    };
    while !gone() {
        assert!(Instant::now() < deadline, "a killed process is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_mounted(place: &str) -> bool {
    std::fs::read_to_string("/proc/self/mounts").unwrap().lines().any(|line| line.split(' ').nth(1) == Some(place))
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
