//! Failures of a volume in words.

use wayfs_control::{ControlError, ErrorKind};
use wayfs_types::StorageError;

/// The volume has stopped while a command ran.
pub fn stopped() -> ControlError {
    let next = "Look into the log of its daemon for the cause, and start the daemon again.";
    ControlError::new(ErrorKind::Failed, "the volume has stopped", next)
}

/// The local tables failed.
pub fn storage(error: &StorageError) -> ControlError {
    ControlError::new(ErrorKind::Failed, error.to_string(), "`wayfs doctor` looks for the cause.")
}
