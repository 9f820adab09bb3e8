//! Why a request fails, as programs see it: the one table of error numbers.

use wayfs_fuse::Errno;
use wayfs_nfs::Status;
use wayfs_nfs::live::LiveError;
use wayfs_nfs::rpc::Refusal;
use wayfs_nfs::xdr::DecodeError;

/// An error number on its way to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fail(pub(crate) Errno);

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Self {
        Self(errno)
    }
}

impl From<DecodeError> for Fail {
    fn from(error: DecodeError) -> Self {
        tracing::warn!(%error, "the server's answer makes no sense");
        Self(Errno::IO)
    }
}

impl From<LiveError> for Fail {
    fn from(error: LiveError) -> Self {
        Self(match error {
            // A soft mount: the program is told that it was time, not that the disk is broken.
            LiveError::NoAnswer(_) => Errno::TIMEDOUT,
            LiveError::Interrupted => Errno::INTR,
            LiveError::Refused(Refusal::Credentials(_)) => Errno::ACCES,
            LiveError::Status { status, .. } => return status.into(),
            LiveError::Io { .. } | LiveError::Refused(_) | LiveError::Decode(_) => {
                tracing::warn!(%error, "a call failed");
                Errno::IO
            }
        })
    }
}

impl From<Status> for Fail {
    fn from(status: Status) -> Self {
        Self(match status {
            // Others change the file all the time: see `operations::resize`.
            Status::NOT_SYNC => Errno::BUSY,
            Status::JUKEBOX => Errno::AGAIN,
            other => Errno::from_code(other.errno()),
        })
    }
}
