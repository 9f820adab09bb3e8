//! A machine with daemons of its own, for tests of the program as people run it.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(unreachable_pub, reason = "a test program exports nothing")]
#![allow(missing_docs, reason = "the names say it")]

use std::io::Read;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command as Process, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Directories, a port and a runtime directory of their own; whatever still runs is ended at the end.
pub struct Machine {
    directory: tempfile::TempDir,
    port: u16,
}

impl Machine {
    pub fn new() -> Self {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { directory: tempfile::tempdir().unwrap(), port }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn listen(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn command(&self, arguments: &[&str]) -> Process {
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
    pub fn logs(&self) -> String {
        let logs = std::fs::read_dir(self.path("state/wayfs/log")).into_iter().flatten().flatten();
        logs.map(|log| std::fs::read_to_string(log.path()).unwrap_or_default()).collect()
    }

    pub fn serve(&self, more: &[&str]) -> Output {
        let (data, listen) = (self.text("data"), self.listen());
        self.wayfs(&[&["serve", "--data", &data, "--listen", &listen], more].concat())
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.wayfs(arguments)
    }

    /// Runs a command to its end, which must come within its bound.
    pub fn wayfs(&self, arguments: &[&str]) -> Output {
        let mut child = self.command(arguments).spawn().unwrap();
        // What it says may be more than a pipe holds.
        let (stdout, stderr) = (child.stdout.take().map(read), child.stderr.take().map(read));
        let status = wait(&mut child);
        let text =
            |reader: Option<JoinHandle<Vec<u8>>>| reader.map(|reader| reader.join().unwrap()).unwrap_or_default();
        Output { status, stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.wayfs(&["stop", "--all"]);
    }
}

/// Reads all that comes through a pipe.
fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

pub fn wait(child: &mut Child) -> std::process::ExitStatus {
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

pub fn pid_of(machine: &Machine, kind: &str) -> i32 {
    let reports: serde_json::Value = serde_json::from_str(&out(&machine.run(&["status", "--json"]))).unwrap();
    let found = reports.as_array().unwrap().iter().find(|report| report["kind"] == kind).expect("it runs");
    i32::try_from(found["pid"].as_i64().unwrap()).unwrap()
}

/// Ends a daemon that this test started as a power failure would.
pub fn kill(pid: i32) {
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

pub fn is_mounted(place: &str) -> bool {
    std::fs::read_to_string("/proc/self/mounts").unwrap().lines().any(|line| line.split(' ').nth(1) == Some(place))
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
