//! Why a file cannot be served by the kernel alone, and who else has a backing file open.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `fcntl` command that chooses the signal of a lease (`asm-generic/fcntl.h`).
const F_SETSIG: i32 = 10;

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

/// Whether anyone but `file` itself has its inode open, mappings included; `file` must be open for writing.
///
/// A mapping made through a passthrough handle holds the backing file and not the handle: it can go on being
/// written after the kernel released the handle. The kernel says so by refusing a lease.
///
/// # Errors
/// What the system says where it has no leases.
pub fn is_held_elsewhere(file: BorrowedFd<'_>) -> io::Result<bool> {
    // Who opens the file in the moment of the lease makes the kernel signal its holder; by default with a
    // signal that ends the process, so one that is ignored by default is chosen first.
    control(file, F_SETSIG, libc::SIGURG)?;
    match control(file, libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(()) => control(file, libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

fn control(file: BorrowedFd<'_>, command: i32, argument: i32) -> io::Result<()> {
    // SAFETY: these commands take a plain number, and the descriptor is open for as long as it is borrowed.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_is_held_elsewhere_as_long_as_another_has_it_open_or_mapped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = std::fs::OpenOptions::new().write(true).read(true).open(file.path()).unwrap();
        assert!(is_held_elsewhere(own.as_fd()).unwrap(), "the temporary file's own handle");
        let path = file.into_temp_path();
        assert!(!is_held_elsewhere(own.as_fd()).unwrap());
        let reader = std::fs::File::open(&path).unwrap();
        assert!(is_held_elsewhere(own.as_fd()).unwrap());
        drop(reader);
        assert!(!is_held_elsewhere(own.as_fd()).unwrap());
    }

    #[test]
    fn refusals_are_told_apart() {
        let from = |code| PassthroughError::from_open(io::Error::from_raw_os_error(code));
        assert!(from(libc::EPERM).is_final());
        assert!(from(libc::ENOTTY).is_final());
        assert!(!from(libc::ELOOP).is_final());
        assert!(!from(libc::EMFILE).is_final());
    }
}
