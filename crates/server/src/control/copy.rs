//! What copying in and copying out share.

use super::target::failed;
use std::path::Path;
use std::time::Duration;
use wayfs_control::report::CopyReport;
use wayfs_control::{ControlError, ErrorKind, Progress, Sink};

/// Longest wait for one change or one chunk.
pub(super) const STEP_MAX: Duration = Duration::from_secs(60);
/// Most lines about what was left out.
const SKIPPED_MAX: usize = 1000;
/// Deepest directory copied: what paths of the system can hold.
pub(super) const DEPTH_MAX: usize = 1024;

/// Counts what was copied and tells the caller.
pub(super) struct Copying<'a> {
    pub(super) report: CopyReport,
    out: &'a mut dyn Sink,
}

impl<'a> Copying<'a> {
    pub(super) fn new(out: &'a mut dyn Sink) -> Self {
        Self { report: CopyReport::default(), out }
    }

    /// Tells how far it is; an error if nobody listens any more.
    pub(super) fn at(&mut self, what: &Path) -> Result<(), ControlError> {
        let progress = Progress {
            what: what.display().to_string(),
            done_bytes: self.report.bytes,
            total_bytes: 0,
            done_items: self.report.files + self.report.directories,
            total_items: 0,
        };
        if self.out.progress(&progress).is_err() || self.out.is_gone() {
            let next = "What was copied stays; copying again goes on over it.";
            return Err(ControlError::new(ErrorKind::NotTrue, "the caller left before everything was copied", next));
        }
        Ok(())
    }

    /// Leaves something out and says why.
    pub(super) fn skip(&mut self, what: &Path, why: impl std::fmt::Display) {
        if self.report.skipped.len() < SKIPPED_MAX {
            self.report.skipped.push(format!("{}: {why}", what.display()));
        }
    }
}

/// For failures of the system on a path.
pub(super) fn io(what: &str, path: &Path, error: impl std::fmt::Display) -> ControlError {
    failed(&format!("{what} {}", path.display()), error)
}
