//! Why an operation is refused.

use wayfs_types::{FsError, NameError};

/// A refusal. What replicas know, too, is an [`FsError`]; the rest arises between a front end and its replica only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What the replica, an open file or the state of the tree refuses.
    #[error(transparent)]
    Refused(#[from] FsError),
    /// The handle is not open, or not open for this.
    #[error("bad file handle")]
    BadHandle,
    /// A seek for data or a hole finds none.
    #[error("nothing of that kind after this offset")]
    NothingThere,
    /// A user or group of this machine has no number in the volume.
    #[error("no such user or group in this volume")]
    NoNumber,
    /// The disk of the cache does not say how much room it has.
    #[error("the disk of the cache")]
    Disk(rustix::io::Errno),
}

/// Why a name is refused. `.` and `..` never come from a kernel that resolves them itself.
impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        match error {
            NameError::TooLong => Self::Refused(FsError::NameTooLong),
            NameError::Reserved | NameError::BadByte => Self::Refused(FsError::Invalid),
        }
    }
}
