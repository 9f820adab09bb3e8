//! A program on a host of the laboratory.

use crate::LabError;
use rustix::process::{Pid, Signal};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How often a wait looks.
const LOOK: Duration = Duration::from_millis(5);

/// A running program and what it started, a process group. Dropping it kills them.
#[derive(Debug)]
pub struct Process {
    child: Child,
    label: String,
    log: PathBuf,
    status: Option<ExitStatus>,
}

impl Process {
    pub(crate) const fn new(child: Child, label: String, log: PathBuf) -> Self {
        Self { child, label, log, status: None }
    }

    /// Process id, which is the group's id, too.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it is called: its label and its host.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// What it wrote so far; empty if its output goes elsewhere.
    pub fn output(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            // A child that cannot be asked any more counts as running until it is killed.
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`LabError::TimedOut`] if it runs longer; it goes on running.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus, LabError> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if start.elapsed() > within {
                return Err(LabError::TimedOut { what: format!("the end of {}", self.label), within });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for its end and wants it to be a success.
    ///
    /// # Errors
    /// [`LabError::TimedOut`], or [`LabError::Tool`] with what it said.
    pub fn succeed(&mut self, within: Duration) -> Result<(), LabError> {
        let status = self.wait(within)?;
        if status.success() {
            return Ok(());
        }
        Err(LabError::Tool { tool: self.label.clone(), message: format!("{status}: {}", self.output().trim()) })
    }

    /// Sends a signal to the whole group.
    pub fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // A group that is gone needs no signal.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Kills the whole group.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
