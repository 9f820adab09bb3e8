//! What can be answered to a file-system request.

use serde::{Deserialize, Serialize};

/// A refusal, named as programs know it. `errno` numbers are made in `fuse` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum FsError {
    /// No entry of that name, or the file is gone (`ENOENT`).
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken (`EEXIST`).
    #[error("file exists")]
    Exists,
    /// A directory was needed (`ENOTDIR`).
    #[error("not a directory")]
    NotDirectory,
    /// Anything but a directory was needed (`EISDIR`).
    #[error("is a directory")]
    IsDirectory,
    /// The directory holds entries (`ENOTEMPTY`).
    #[error("directory not empty")]
    NotEmpty,
    /// The operation would make a directory its own ancestor, or the arguments make no sense (`EINVAL`).
    #[error("invalid argument")]
    Invalid,
    /// Forbidden to this user (`EPERM`).
    #[error("operation not permitted")]
    NotPermitted,
    /// Forbidden by access rights (`EACCES`).
    #[error("permission denied")]
    AccessDenied,
    /// The mount or the ticket's role is read-only (`EROFS`).
    #[error("read-only")]
    ReadOnly,
    /// A name, target or attribute is too long (`ENAMETOOLONG`).
    #[error("name too long")]
    NameTooLong,
    /// More hard links than [`crate::Inode::LINKS_MAX`] (`EMLINK`).
    #[error("too many links")]
    TooManyLinks,
    /// A value or list does not fit (`E2BIG`, `ERANGE` for a caller's buffer).
    #[error("too big")]
    TooBig,
    /// The file would be too large (`EFBIG`).
    #[error("file too large")]
    FileTooLarge,
    /// No room on this replica's disk (`ENOSPC`).
    #[error("no space left")]
    NoSpace,
    /// What this member, or the whole volume, may take up is used (`EDQUOT`).
    #[error("quota exceeded")]
    Quota,
    /// No descriptors are left for one more open file (`ENFILE`).
    #[error("too many open files")]
    TooManyFiles,
    /// No such extended attribute (`ENODATA`).
    #[error("no such attribute")]
    NoAttribute,
    /// Not cached here, and nobody who has it can be reached (`EHOSTUNREACH`).
    #[error("not cached here and the station cannot be reached")]
    Unreachable,
    /// Nobody answered in the time allowed (`ETIMEDOUT`).
    #[error("timed out")]
    TimedOut,
    /// A lock is held by another (`EAGAIN`).
    #[error("locked by another")]
    Locked,
    /// The lock is held by somebody who waits for the asker (`EDEADLK`).
    #[error("waiting for this lock would never end")]
    Deadlock,
    /// No room for one more lock: so many are held or waited for as may be, or the disk of who gives them is full (`ENOLCK`).
    #[error("no locks available")]
    NoLocks,
    /// The request was interrupted by a signal (`EINTR`).
    #[error("interrupted")]
    Interrupted,
    /// The file behind the handle lost to another version or was removed elsewhere (`ESTALE`).
    #[error("stale file")]
    Stale,
    /// The file has another version than a change was built upon. Programs are never told: whoever built it builds anew.
    #[error("the file has a newer version")]
    Changed,
    /// Damaged or failing storage (`EIO`).
    #[error("input/output error")]
    Io,
    /// This operation does not exist here (`EOPNOTSUPP`).
    #[error("not supported")]
    Unsupported,
}
