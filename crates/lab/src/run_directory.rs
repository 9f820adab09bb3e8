//! The directory of a running laboratory, and the guard that takes everything away.
//!
//! Layout, below `TMPDIR/wayfs-lab/PID-START-NUMBER/` (START is the process's start
//! time, so that a recycled process id is not mistaken for the owner):
//!
//! | path | what |
//! | --- | --- |
//! | `net/HOST` | the host's network namespace: `nsenter --net=FILE COMMAND` |
//! | `hosts/HOST/` | files of the host's programs |
//! | `mounts/NAME/` | mount points |
//! | `logs/` | standard output and error of its programs, unless they go elsewhere |
//!
//! The guard is a shell that waits for the end of its standard input. That comes when
//! [`RunDirectory`] is dropped, and when the laboratory dies, even by SIGKILL. Then it
//! runs `cleanup.sh`. Should the guard be killed as well, [`sweep`] finds the
//! directory later: its owner is gone.

use crate::LabError;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The environment variable that tells a laboratory's processes.
pub(crate) const MARK: &str = "WAYFS_LAB_RUN";

const CLEANUP: &str = include_str!("cleanup.sh");

/// Tells the laboratories of one process apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The directory of a laboratory. Dropping it takes away all that belongs to the laboratory.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    mark: String,
    guard: Child,
}

impl RunDirectory {
    /// Makes one, after taking away what dead laboratories left.
    pub(crate) fn create() -> Result<Self, LabError> {
        sweep()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let start = start_time(pid).unwrap_or_default();
        let mark = format!("{pid}-{start}-{number}");
        let path = root().join(&mark);
        for directory in ["net", "hosts", "mounts", "logs"] {
            let directory = path.join(directory);
            std::fs::create_dir_all(&directory).map_err(LabError::io(format!("make {}", directory.display())))?;
        }
        let guard = guard(&path, &mark, Stdio::piped())?;
        Ok(Self { path, mark, guard })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Value of [`MARK`] for its processes.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Takes away what laboratories left whose process and guard were killed. Tells how many there were.
///
/// # Errors
/// [`LabError::Io`] if a guard cannot be started.
pub fn sweep() -> Result<usize, LabError> {
    let Ok(listing) = std::fs::read_dir(root()) else { return Ok(0) };
    let mut swept = 0;
    for entry in listing.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_owned(&name) {
            continue;
        }
        let mut guard = guard(&entry.path(), &name, Stdio::null())?;
        let _ = guard.wait();
        swept += 1;
    }
    Ok(swept)
}

/// Where laboratories have their directories.
fn root() -> PathBuf {
    std::env::temp_dir().join("wayfs-lab")
}

/// Whether the process of a directory's name still runs.
fn is_owned(name: &str) -> bool {
    let mut parts = name.split('-');
    let (Some(pid), Some(start)) = (parts.next(), parts.next()) else { return false };
    pid.parse().ok().and_then(start_time).is_some_and(|running| running.to_string() == start)
}

/// When a process started, in ticks since the machine did.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may contain anything; the 22nd is the start.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn guard(run: &Path, mark: &str, stdin: Stdio) -> Result<Child, LabError> {
    use std::os::unix::process::CommandExt;
    Command::new("sh")
        .args(["-c", CLEANUP, "lab-guard"])
        .arg(run)
        .arg(mark)
        .env_remove(MARK)
        .current_dir("/")
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C on the terminal is for the laboratory; its guard outlives it.
        .process_group(0)
        .spawn()
        .map_err(LabError::io("start the guard"))
}
