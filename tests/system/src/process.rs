//! Programs with a bound on their time.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Finished {
    /// Panics with all it said if it failed.
    pub fn ok(self) -> Self {
        assert!(self.status.success(), "{:?}\nstdout: {}\nstderr: {}", self.status, self.out, self.err);
        self
    }

    /// The exit code; -1 if a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {} {}", self.out, self.err))
    }
}

/// Runs a program for a minute at most.
pub fn run(command: &mut Command) -> Finished {
    run_for(Duration::from_secs(60), command)
}

/// Runs a program in a process group of its own and kills the group after `bound`.
///
/// # Panics
/// If it cannot be started or is not done in time.
pub fn run_for(bound: Duration, command: &mut Command) -> Finished {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let text = format!("{command:?}");
    let mut child = command.spawn().unwrap_or_else(|error| panic!("start {text}: {error}"));
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let out = std::thread::spawn(move || read_all(&mut out));
    let err = std::thread::spawn(move || read_all(&mut err));
    let end = Instant::now() + bound;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait for a child") {
            break status;
        }
        if Instant::now() > end {
            kill_group(&child);
            panic!("not done within {bound:?}: {text}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let join = |thread: std::thread::JoinHandle<String>| thread.join().expect("a reader does not panic");
    Finished { status, out: join(out), err: join(err) }
}

fn read_all(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn kill_group(child: &Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

/// A daemon in the background, its output in a log file. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    /// Bytes that earlier processes wrote to it.
    log_begin: u64,
}

impl Process {
    /// Starts it.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("open a log file");
        let copy = file.try_clone().expect("clone a log file");
        let log_begin = file.metadata().expect("a log file has a length").len();
        command.stdin(Stdio::null()).stdout(file).stderr(copy);
        let child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        outlive_nobody(child.id());
        Self { child, log: log.to_owned(), log_begin }
    }

    /// SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Its exit status if it ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait for a child")
    }

    /// Whether a SIGKILL of ours ended it.
    pub fn was_killed(&mut self) -> bool {
        self.ended().is_some_and(|status| status.signal() == Some(9))
    }

    /// What it wrote, the last 4 KiB.
    pub fn log(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).into_owned()
    }

    /// Whether it has said something in its log, whatever earlier processes said there.
    pub fn has_said(&self, what: &str) -> bool {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let own = text.get(self.log_begin as usize..).unwrap_or_default();
        String::from_utf8_lossy(own).contains(what)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A watcher that ends a daemon when this test process is gone, however it went. A mount whose
/// daemon is dead answers every access with an error, so nothing can hang on it.
fn outlive_nobody(daemon: u32) {
    let watch = format!(
        "while kill -0 {test} 2>/dev/null && kill -0 {daemon} 2>/dev/null; do sleep 1; done; kill -9 {daemon} 2>/dev/null",
        test = std::process::id()
    );
    let mut watcher = Command::new("sh");
    watcher.args(["-c", &watch]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    if let Ok(mut watcher) = watcher.spawn() {
        std::thread::spawn(move || watcher.wait());
    }
}
