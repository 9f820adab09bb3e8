//! Constants of the kernel's FUSE interface (`linux/fuse.h`, protocol 7.45).
//!
//! The C library's bindings define none of these, so they are written out here.

/// The only major version there has been since 2006.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version whose messages we know.
pub(crate) const MINOR: u32 = 45;
/// The oldest minor version that we speak (kernel 5.4): every message we use has its present size there.
pub(crate) const MINOR_OLDEST: u32 = 31;

/// Size of the header before every request.
pub(crate) const IN_HEADER: usize = 40;
/// Size of the header before every answer.
pub(crate) const OUT_HEADER: usize = 16;
/// The kernel refuses to fill a buffer smaller than this.
pub(crate) const READ_BUFFER_MIN: usize = 8192;

macro_rules! opcodes {
    ($($name:ident = $value:literal;)*) => {
        /// The numbers of the requests.
        pub(crate) mod opcode {
            $(pub(crate) const $name: u32 = $value;)*
        }
    };
}

opcodes! {
    LOOKUP = 1;
    FORGET = 2;
    GETATTR = 3;
    SETATTR = 4;
    READLINK = 5;
    SYMLINK = 6;
    MKNOD = 8;
    MKDIR = 9;
    UNLINK = 10;
    RMDIR = 11;
    RENAME = 12;
    LINK = 13;
    OPEN = 14;
    READ = 15;
    WRITE = 16;
    STATFS = 17;
    RELEASE = 18;
    FSYNC = 20;
    SETXATTR = 21;
    GETXATTR = 22;
    LISTXATTR = 23;
    REMOVEXATTR = 24;
    FLUSH = 25;
    INIT = 26;
    OPENDIR = 27;
    READDIR = 28;
    RELEASEDIR = 29;
    FSYNCDIR = 30;
    GETLK = 31;
    SETLK = 32;
    SETLKW = 33;
    ACCESS = 34;
    CREATE = 35;
    INTERRUPT = 36;
    DESTROY = 38;
    IOCTL = 39;
    POLL = 40;
    NOTIFY_REPLY = 41;
    BATCH_FORGET = 42;
    FALLOCATE = 43;
    READDIRPLUS = 44;
    RENAME2 = 45;
    LSEEK = 46;
    COPY_FILE_RANGE = 47;
    SYNCFS = 50;
    TMPFILE = 51;
    STATX = 52;
    COPY_FILE_RANGE_64 = 53;
}

/// Which fields of a setattr request are meant.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const LOCKOWNER: u32 = 1 << 9;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Getattr carries a file handle.
pub(crate) const GETATTR_FH: u32 = 1 << 0;
/// The read request's lock owner is valid.
pub(crate) const READ_LOCKOWNER: u32 = 1 << 1;
/// The write comes from the page cache: the handle is a guess and the caller unknown.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// The write request's lock owner is valid.
pub(crate) const WRITE_LOCKOWNER: u32 = 1 << 1;
/// The write must clear the set-user-id and set-group-id bits.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// The open (with truncation) must clear the set-user-id and set-group-id bits.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// The release stands for a flush too.
pub(crate) const RELEASE_FLUSH: u32 = 1 << 0;
/// The release ends the flock locks of its owner.
pub(crate) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// Only data need be synchronised.
pub(crate) const FSYNC_FDATASYNC: u32 = 1 << 0;
/// The lock is a flock, not a record lock.
pub(crate) const LK_FLOCK: u32 = 1 << 0;

/// The numbers of the messages that we send unasked.
pub(crate) mod notify {
    pub(crate) const INVAL_INODE: i32 = 2;
    pub(crate) const INVAL_ENTRY: i32 = 3;
    pub(crate) const STORE: i32 = 4;
    pub(crate) const DELETE: i32 = 6;
    pub(crate) const INC_EPOCH: i32 = 8;
}

/// The entry is to be revalidated at its next use, not thrown away.
pub(crate) const EXPIRE_ONLY: u32 = 1 << 0;
