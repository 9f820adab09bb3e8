//! What a server says of a call that it does not do.

use std::fmt;

/// Why not (RFC 1813, 2.6). Zero never is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(u32);

impl Status {
    /// Not the owner.
    pub const PERM: Self = Self(1);
    /// No such name.
    pub const NOENT: Self = Self(2);
    /// The disk of the server.
    pub const IO: Self = Self(5);
    /// No right.
    pub const ACCES: Self = Self(13);
    /// The name is taken.
    pub const EXIST: Self = Self(17);
    /// No directory.
    pub const NOTDIR: Self = Self(20);
    /// A directory.
    pub const ISDIR: Self = Self(21);
    /// Something else is there than was when the call was made.
    pub const NOT_SYNC: Self = Self(10_002);
    /// The directory changed under a listing.
    pub const BAD_COOKIE: Self = Self(10_003);
    /// The file is gone, or the server has forgotten it.
    pub const STALE: Self = Self(70);
    /// Not supported.
    pub const NOTSUPP: Self = Self(10_004);
    /// The server needs time (a tape): ask again.
    pub const JUKEBOX: Self = Self(10_008);

    /// Of a number; `None` for zero, which is success.
    pub const fn new(number: u32) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The error of the operating system that says the same.
    pub const fn errno(self) -> i32 {
        use rustix::io::Errno;
        let errno = match self.0 {
            1 => Errno::PERM,
            2 => Errno::NOENT,
            6 => Errno::NXIO,
            13 => Errno::ACCESS,
            17 => Errno::EXIST,
            18 => Errno::XDEV,
            19 => Errno::NODEV,
            20 => Errno::NOTDIR,
            21 => Errno::ISDIR,
            22 => Errno::INVAL,
            27 => Errno::FBIG,
            28 => Errno::NOSPC,
            30 => Errno::ROFS,
            31 => Errno::MLINK,
            63 => Errno::NAMETOOLONG,
            66 => Errno::NOTEMPTY,
            69 => Errno::DQUOT,
            // A handle that is none is as stale as one of a file that is gone.
            70 | 10_001 => Errno::STALE,
            71 => Errno::REMOTE,
            10_004 => Errno::OPNOTSUPP,
            10_007 => Errno::INVAL,
            10_008 => Errno::AGAIN,
            // Whatever else a server says, the program only needs to know that it did not work.
            _ => Errno::IO,
        };
        errno.raw_os_error()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0 {
            1 => "not the owner",
            2 => "no such file or directory",
            5 => "the server's disk failed",
            13 => "permission denied",
            17 => "it is there already",
            20 => "not a directory",
            21 => "a directory",
            28 => "no room at the server",
            30 => "read-only",
            63 => "the name is too long",
            66 => "the directory is not empty",
            70 => "the file is gone at the server",
            10_001 => "the server does not know this handle",
            10_002 => "it was changed meanwhile",
            10_008 => "the server needs more time",
            other => return write!(f, "NFS status {other}"),
        };
        f.write_str(words)
    }
}
