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
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
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
        make_root()?;
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
        // What is no laboratory's is not ours to remove.
        if owner(&name).is_none_or(|owner| owner.runs()) {
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

/// Makes it, for this user alone: what lies in it is believed and removed.
fn make_root() -> Result<(), LabError> {
    let root = root();
    let doing = || LabError::io(format!("make {}", root.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(&root).map_err(doing())?;
    let found = std::fs::symlink_metadata(&root).map_err(doing())?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        let error = std::io::Error::other("it is there and belongs to somebody else; remove it or set TMPDIR");
        return Err(doing()(error));
    }
    Ok(())
}

/// The process that a directory's name tells.
struct Owner {
    pid: u32,
    start: u64,
}

impl Owner {
    fn runs(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }
}

/// Whose a directory is; `None` if it is no laboratory's.
fn owner(name: &str) -> Option<Owner> {
    let mut parts = name.split('-').map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(start)), Some(Ok(_)), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    Some(Owner { pid: u32::try_from(pid).ok()?, start })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_laboratories_have_an_owner() {
        for name in ["1-2", "1-2-3-4", "a-2-3", "photos", "1-2-x", "-1-2-3", ""] {
            assert!(owner(name).is_none(), "{name}");
        }
        let pid = std::process::id();
        let start = start_time(pid).unwrap();
        assert!(owner(&format!("{pid}-{start}-0")).unwrap().runs());
        assert!(!owner(&format!("{pid}-{}-0", start + 1)).unwrap().runs());
    }
}
