//! What a command says when a disk or an engine fails.

use wayfs_control::{ControlError, ErrorKind};

/// For failures of disks and engines.
pub(super) fn failed(what: &str, error: impl std::fmt::Display) -> ControlError {
    ControlError::new(ErrorKind::Failed, format!("{what}: {error}"), "See the server's log and `wayfs doctor`.")
}
