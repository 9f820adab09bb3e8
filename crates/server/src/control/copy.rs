//! What copying in and copying out share.

use super::failed::failed;
use std::path::Path;
use std::time::Duration;
use wayfs_control::report::CopyReport;
use wayfs_control::{ControlError, ErrorKind, Privileges, Progress, Sink};
use wayfs_types::Inode;

/// Longest wait for one change or one chunk.
pub(super) const STEP_MAX: Duration = Duration::from_secs(60);
/// Most lines about what was left out.
const SKIPPED_MAX: usize = 1000;
/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
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

/// The mode of a file as it is written outside. Set-id bits would let whoever runs it act as whoever exported it.
pub(super) fn mode_of(inode: &Inode, privileges: Privileges) -> u32 {
    let mode = u32::from(inode.mode);
    match privileges {
        Privileges::Kept => mode,
        Privileges::Stripped => mode & !SET_ID,
    }
}

/// Whether an extended attribute is written outside.
pub(super) fn is_written(name: &[u8], privileges: Privileges) -> bool {
    privileges == Privileges::Kept || !(name.starts_with(b"security.") || name.starts_with(b"trusted."))
}

/// Says that something of a file is left out, if it is.
pub(super) fn note_stripped(copying: &mut Copying<'_>, inode: &Inode, path: &Path, privileges: Privileges) {
    let is_set_id = mode_of(inode, privileges) != u32::from(inode.mode) && !inode.is_directory();
    if is_set_id || inode.xattrs.keys().any(|name| !is_written(name.as_bytes(), privileges)) {
        copying.skip(path, "without its set-id bits and security attributes; --with-privileges keeps them");
    }
}

/// For failures of the system on a path.
pub(super) fn io(what: &str, path: &Path, error: impl std::fmt::Display) -> ControlError {
    failed(&format!("{what} {}", path.display()), error)
}
