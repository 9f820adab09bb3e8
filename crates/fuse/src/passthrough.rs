//! Why a file cannot be served by the kernel alone.

use std::io;

/// Why [`crate::Notifier::backing_open`] refused. In each case the file can still be served by answering reads
/// and writes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassthroughError {
    /// The kernel did not grant passthrough at the start, or we did not ask. Never try again.
    #[error("passthrough was not granted for this mount")]
    NotGranted,
    /// Registration of files needs CAP_SYS_ADMIN. Never try again.
    #[error("passthrough needs CAP_SYS_ADMIN")]
    NotPermitted,
    /// The kernel was built without it, or is too old. Never try again.
    #[error("the kernel has no passthrough")]
    Unsupported,
    /// The file lies on a stacked file system (overlay, another FUSE mount). Others may work.
    #[error("the backing file is on a stacked file system")]
    Stacked,
    /// Not a regular file, or one without read and write methods. Others may work.
    #[error("the backing file is not of a kind that can be passed through")]
    WrongKind,
    /// Anything else.
    #[error("register a backing file")]
    Failed(#[source] io::Error),
}

impl PassthroughError {
    /// True if no file of this mount will ever be accepted.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::NotGranted | Self::NotPermitted | Self::Unsupported => true,
            Self::Stacked | Self::WrongKind | Self::Failed(_) => false,
        }
    }

    pub(crate) fn from_open(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM) => Self::NotPermitted,
            Some(libc::ENOTTY | libc::EINVAL | libc::ENOSYS) => Self::Unsupported,
            Some(libc::ELOOP) => Self::Stacked,
            Some(libc::EOPNOTSUPP) => Self::WrongKind,
            _ => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let from = |code| PassthroughError::from_open(io::Error::from_raw_os_error(code));
        assert!(from(libc::EPERM).is_final());
        assert!(from(libc::ENOTTY).is_final());
        assert!(!from(libc::ELOOP).is_final());
        assert!(!from(libc::EMFILE).is_final());
    }
}
