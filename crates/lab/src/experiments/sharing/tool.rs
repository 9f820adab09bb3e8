//! Programs for version control, and how long their commands take.

use super::tree::Edit;
use crate::{LabError, Sites};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest time for one command, on the thinnest line and the slowest peer.
const COMMAND: Duration = Duration::from_secs(900);
/// Pause between two looks at a command.
const LOOK: Duration = Duration::from_millis(1);

/// A program for version control. `place` is a directory of the shared file system as the caller's site sees it: the
/// repository lies in it, and the working copies beside.
pub(super) trait Tool: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The program that has to be installed.
    fn program(&self) -> &'static str;

    /// Makes the repository in a place, with the tree that lies in `source` (on a local disk).
    fn create(&self, user: &User<'_>, place: &Path, source: &Path) -> Result<(), LabError>;

    /// Makes a working copy.
    fn check_out(&self, user: &User<'_>, place: &Path, copy: &str) -> Result<(), LabError>;

    /// Tells the program of new files. Not timed: a part of editing.
    fn announce(&self, user: &User<'_>, copy: &Path, edit: &Edit) -> Result<(), LabError>;

    /// Commits what was changed in a working copy, so that others can have it.
    fn commit(&self, user: &User<'_>, copy: &Path) -> Result<Timed, LabError>;

    /// Brings a working copy up to date.
    fn update(&self, user: &User<'_>, copy: &Path) -> Result<Timed, LabError>;

    /// Where the repository lies in a place.
    fn repository(&self, place: &Path) -> PathBuf;
}

/// How long a command took.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Timed {
    /// From start to end.
    pub(super) total: Duration,
    /// Of this, asleep because it wanted to be: CVS ends with a wait for the next second of the clock, so that what it
    /// wrote is older than what is edited next.
    pub(super) asleep: Duration,
}

impl Timed {
    /// Time in which it did something, or waited for the file system.
    pub(super) fn busy(self) -> Duration {
        self.total.saturating_sub(self.asleep)
    }
}

impl std::ops::Add for Timed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { total: self.total + other.total, asleep: self.asleep + other.asleep }
    }
}

/// Somebody who types commands at a host.
pub(super) struct User<'a> {
    pub(super) sites: &'a Sites,
    pub(super) host: String,
    /// A directory on the local disk for settings and temporary files.
    pub(super) home: PathBuf,
}

impl<'a> User<'a> {
    pub(super) fn new(sites: &'a Sites, host: String) -> Result<Self, LabError> {
        let home = sites.lab().directory(&host)?.join("user");
        std::fs::create_dir_all(&home).map_err(LabError::io("make a user's directory"))?;
        Ok(Self { sites, host, home })
    }

    /// Runs a command in a directory to its end, and times it.
    pub(super) fn run(&self, directory: &Path, program: &str, arguments: &[&str]) -> Result<Timed, LabError> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory).envs([
            ("HOME", self.home.as_path()),
            ("TMPDIR", self.home.as_path()),
            ("GIT_CONFIG_NOSYSTEM", Path::new("1")),
            ("GIT_TERMINAL_PROMPT", Path::new("0")),
            ("LC_ALL", Path::new("C")),
        ]);
        for variable in ["CVSROOT", "CVS_RSH", "CVSEDITOR", "GIT_DIR", "GIT_WORK_TREE"] {
            command.env_remove(variable);
        }
        for (variable, value) in [("NAME", "user"), ("EMAIL", "user@example.org")] {
            command.env(format!("GIT_AUTHOR_{variable}"), value).env(format!("GIT_COMMITTER_{variable}"), value);
        }
        let began = Instant::now();
        let mut process = self.sites.lab().spawn(&self.host, program, command)?;
        let stat = format!("/proc/{}/wchan", process.id());
        let (mut asleep, mut looked) = (Duration::ZERO, began);
        while process.ended().is_none() {
            std::thread::sleep(LOOK);
            let now = Instant::now();
            // The kernel's function in which the process waits. Who may not see it counts nothing as sleep.
            if std::fs::read_to_string(&stat).is_ok_and(|place| place.contains("nanosleep")) {
                asleep += now - looked;
            }
            looked = now;
            if now - began > COMMAND {
                return Err(LabError::TimedOut { what: format!("{program} {}", arguments.join(" ")), within: COMMAND });
            }
        }
        let total = began.elapsed();
        process.succeed(Duration::ZERO)?;
        Ok(Timed { total, asleep })
    }
}

/// A path as an argument.
pub(super) fn text(path: &Path) -> Result<&str, LabError> {
    path.to_str().ok_or_else(|| LabError::Experiment(format!("{} is no text", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_two_commands_add_up() {
        let one = Timed { total: Duration::from_secs(3), asleep: Duration::from_secs(1) };
        assert_eq!((one + one).busy(), Duration::from_secs(4));
    }
}
