//! The one table from refusals to error numbers.

use crate::fs::Error;
use wayfs_fuse::Errno;
use wayfs_types::FsError;

/// The number that programs know a refusal by.
pub(super) fn errno(error: Error) -> Errno {
    match error {
        Error::Refused(error) => refused(error),
        Error::BadHandle => Errno::BADF,
        Error::NothingThere => Errno::NXIO,
        Error::NoNumber => Errno::OVERFLOW,
        Error::Disk(error) => error.into(),
    }
}

fn refused(error: FsError) -> Errno {
    match error {
        FsError::NotFound => Errno::NOENT,
        FsError::Exists => Errno::EXIST,
        FsError::NotDirectory => Errno::NOTDIR,
        FsError::IsDirectory => Errno::ISDIR,
        FsError::NotEmpty => Errno::NOTEMPTY,
        FsError::Invalid => Errno::INVAL,
        FsError::NotPermitted => Errno::PERM,
        FsError::AccessDenied => Errno::ACCES,
        FsError::ReadOnly => Errno::ROFS,
        FsError::NameTooLong => Errno::NAMETOOLONG,
        FsError::TooManyLinks => Errno::MLINK,
        FsError::TooBig => Errno::from_code(libc::E2BIG),
        FsError::FileTooLarge => Errno::FBIG,
        FsError::NoSpace => Errno::NOSPC,
        FsError::Quota => Errno::from_code(libc::EDQUOT),
        FsError::TooManyFiles => Errno::from_code(libc::ENFILE),
        FsError::NoAttribute => Errno::NODATA,
        FsError::Unreachable => Errno::HOSTUNREACH,
        FsError::TimedOut => Errno::TIMEDOUT,
        FsError::Locked => Errno::AGAIN,
        FsError::Deadlock => Errno::DEADLK,
        FsError::NoLocks => Errno::NOLCK,
        FsError::Interrupted => Errno::INTR,
        FsError::Stale | FsError::Changed => Errno::STALE,
        FsError::Io => Errno::IO,
        FsError::Unsupported => Errno::OPNOTSUPP,
    }
}
