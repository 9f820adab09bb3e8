//! Error numbers as the kernel wants them in an answer.

use std::{fmt, io};

/// A positive error number of the C library, to be given to a caller of the file system.
///
/// Which failure maps to which number is decided by the handler, in one table of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($(#[$meta:meta])* $name:ident = $code:ident;)*) => {
        impl Errno {
            $($(#[$meta])* pub const $name: Self = Self(libc::$code);)*

            fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($code)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    /// Operation not permitted.
    PERM = EPERM;
    /// No such file or directory.
    NOENT = ENOENT;
    /// The call was interrupted by a signal.
    INTR = EINTR;
    /// Input or output failed.
    IO = EIO;
    /// No such device or address; also "no data after this offset" for seeks.
    NXIO = ENXIO;
    /// The file handle is not open.
    BADF = EBADF;
    /// Try again.
    AGAIN = EAGAIN;
    /// Out of memory.
    NOMEM = ENOMEM;
    /// Permission denied.
    ACCES = EACCES;
    /// The object is in use.
    BUSY = EBUSY;
    /// The name exists.
    EXIST = EEXIST;
    /// A link across file systems.
    XDEV = EXDEV;
    /// Not a directory.
    NOTDIR = ENOTDIR;
    /// Is a directory.
    ISDIR = EISDIR;
    /// Invalid argument.
    INVAL = EINVAL;
    /// Too many open files in this process.
    MFILE = EMFILE;
    /// The device does not know this request.
    NOTTY = ENOTTY;
    /// The file would be too large.
    FBIG = EFBIG;
    /// No space left.
    NOSPC = ENOSPC;
    /// The file system is read-only.
    ROFS = EROFS;
    /// Too many links.
    MLINK = EMLINK;
    /// The buffer is too small.
    RANGE = ERANGE;
    /// A deadlock of locks was avoided.
    DEADLK = EDEADLK;
    /// The name is too long.
    NAMETOOLONG = ENAMETOOLONG;
    /// No locks are left.
    NOLCK = ENOLCK;
    /// The operation is not implemented; the kernel remembers this and stops asking.
    NOSYS = ENOSYS;
    /// The directory is not empty.
    NOTEMPTY = ENOTEMPTY;
    /// Too many symbolic links.
    LOOP = ELOOP;
    /// The extended attribute does not exist.
    NODATA = ENODATA;
    /// A value does not fit.
    OVERFLOW = EOVERFLOW;
    /// The operation is not supported on this object.
    OPNOTSUPP = EOPNOTSUPP;
    /// The wait was too long.
    TIMEDOUT = ETIMEDOUT;
    /// The other side cannot be reached.
    HOSTUNREACH = EHOSTUNREACH;
    /// The network is down.
    NETDOWN = ENETDOWN;
    /// The handle refers to a file that is gone.
    STALE = ESTALE;
    /// The quota is used up.
    DQUOT = EDQUOT;
    /// The operation was cancelled.
    CANCELED = ECANCELED;
    /// The mount has no daemon.
    NOTCONN = ENOTCONN;
    /// The connection was aborted.
    CONNABORTED = ECONNABORTED;
    /// The device is gone.
    NODEV = ENODEV;
    /// The path has too many symbolic links or the object is of the wrong kind for this protocol.
    PROTO = EPROTO;
}

impl Errno {
    /// The error with this number; numbers outside 1..=4095 (which the kernel refuses) become EIO.
    #[must_use]
    pub const fn from_code(code: i32) -> Self {
        if code >= 1 && code <= 4095 { Self(code) } else { Self(libc::EIO) }
    }

    /// The positive number.
    #[must_use]
    pub const fn code(self) -> i32 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.0))
    }
}

impl std::error::Error for Errno {}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Self {
        Self::from_code(error.raw_os_error())
    }
}

impl From<&io::Error> for Errno {
    fn from(error: &io::Error) -> Self {
        Self::from_code(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self::from(&error)
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_numbers_become_eio() {
        assert_eq!(Errno::from_code(0), Errno::IO);
        assert_eq!(Errno::from_code(-2), Errno::IO);
        assert_eq!(Errno::from_code(5000), Errno::IO);
        assert_eq!(Errno::from_code(libc::ENOENT), Errno::NOENT);
        assert_eq!(format!("{:?}", Errno::NOENT), "ENOENT");
    }
}
