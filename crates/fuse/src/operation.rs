//! The kernel's requests as types.
//!
//! Names and data borrow from the [`crate::Request`] that holds the bytes. The inode that a request
//! is about is [`crate::Request::inode`]; for requests with a name it is the parent directory.

use std::ffi::OsStr;

use crate::flag_set::flag_set;
use crate::{FileHandle, Inode, LockOwner, Timestamp};

flag_set! {
    /// How a rename treats an existing target.
    RenameFlags: u32 {
        /// Fail with EEXIST if the new name exists.
        NOREPLACE = libc::RENAME_NOREPLACE;
        /// Swap the two names.
        EXCHANGE = libc::RENAME_EXCHANGE;
        /// Leave a whiteout in place of the old name; refuse with EINVAL if not supported.
        WHITEOUT = libc::RENAME_WHITEOUT;
    }
}

/// What one request asks, and the answer of [`crate::Reply`] that fits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Find a name. Answer: `entry` (negative if absent) or an error.
    Lookup {
        /// The name in the parent directory.
        name: &'a OsStr,
    },
    /// Attributes of a file. Answer: `attributes`.
    GetAttributes {
        /// The handle through which the caller asks, if through one.
        handle: Option<FileHandle>,
    },
    /// Change attributes. Answer: `attributes`, as they are afterwards.
    SetAttributes(SetAttributes),
    /// The target of a symbolic link. Answer: `data`.
    ReadLink,
    /// Make a symbolic link. Answer: `entry`.
    Symlink {
        /// Its name.
        name: &'a OsStr,
        /// What it points to.
        target: &'a OsStr,
    },
    /// Make a file, pipe, socket or device node. Answer: `entry`.
    MakeNode {
        /// Its name.
        name: &'a OsStr,
        /// Kind and permissions, the umask already taken off (but with [`crate::Config::posix_acl`]).
        mode: u32,
        /// The caller's umask, for the record.
        umask: u32,
        /// Device number.
        device: u32,
    },
    /// Make a directory. Answer: `entry`.
    MakeDirectory {
        /// Its name.
        name: &'a OsStr,
        /// Permissions, the umask already taken off (but with [`crate::Config::posix_acl`]).
        mode: u32,
        /// The caller's umask, for the record.
        umask: u32,
    },
    /// Remove a name of something that is not a directory. Answer: `ok`.
    Unlink {
        /// The name.
        name: &'a OsStr,
    },
    /// Remove an empty directory. Answer: `ok`.
    RemoveDirectory {
        /// The name.
        name: &'a OsStr,
    },
    /// Give a file another name or parent. Answer: `ok`.
    Rename {
        /// The old name, in the request's inode.
        name: &'a OsStr,
        /// The new parent.
        new_parent: Inode,
        /// The new name.
        new_name: &'a OsStr,
        /// What to do with an existing target.
        flags: RenameFlags,
    },
    /// Give a file a further name. The request's inode is the new parent. Answer: `entry`.
    Link {
        /// The file.
        inode: Inode,
        /// The new name.
        new_name: &'a OsStr,
    },
    /// Open a file. Answer: `opened`.
    Open {
        /// `O_*` flags (never `O_CREAT` or `O_EXCL`; `O_TRUNC` only as [`crate::Config::atomic_truncate`] has it).
        flags: i32,
        /// With `O_TRUNC`: clear the set-user-id and set-group-id bits too.
        kill_suid_gid: bool,
    },
    /// Make and open a file. Answer: `created`.
    Create {
        /// Its name.
        name: &'a OsStr,
        /// `O_*` flags; with `O_EXCL`, an existing name is an error.
        flags: i32,
        /// Kind and permissions, the umask already taken off (but with [`crate::Config::posix_acl`]).
        mode: u32,
        /// The caller's umask, for the record.
        umask: u32,
        /// With `O_TRUNC` on an existing file: clear the set-user-id and set-group-id bits too.
        kill_suid_gid: bool,
    },
    /// Make and open a file without a name in this directory. Answer: `created`, or ENOSYS for never.
    TemporaryFile {
        /// `O_*` flags.
        flags: i32,
        /// Kind and permissions, the umask already taken off (but with [`crate::Config::posix_acl`]).
        mode: u32,
        /// The caller's umask, for the record.
        umask: u32,
    },
    /// Read. Answer: `data`, shorter than asked only at the end of the file.
    Read {
        /// The handle.
        handle: FileHandle,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        size: u32,
        /// The caller, if locks are mandatory.
        lock_owner: Option<LockOwner>,
        /// The `O_*` flags of the handle.
        flags: i32,
    },
    /// Write. Answer: `written`.
    Write {
        /// The handle; with `from_cache` any handle that is open for writing.
        handle: FileHandle,
        /// First byte.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
        /// The caller, if locks are mandatory.
        lock_owner: Option<LockOwner>,
        /// The `O_*` flags of the handle.
        flags: i32,
        /// The page cache writes late; uid, gid and pid of the request are not the writer's.
        from_cache: bool,
        /// Clear the set-user-id bit, and the set-group-id bit of group-executable files.
        kill_suid_gid: bool,
    },
    /// Statistics of the file system. Answer: `statistics`.
    StatFs,
    /// The last reference to a handle is gone. Answer: `ok`; errors reach nobody.
    Release {
        /// The handle.
        handle: FileHandle,
        /// The `O_*` flags of the handle.
        flags: i32,
        /// Whose flock locks end, if `unlock_flock`.
        lock_owner: LockOwner,
        /// Stands for a flush too.
        flush: bool,
        /// The owner's flock lock on the file ends.
        unlock_flock: bool,
    },
    /// One descriptor of a handle is being closed. Answer: `ok`; the error is what close returns.
    /// The owner's POSIX locks on the file end. ENOSYS means: never ask again, close always succeeds.
    Flush {
        /// The handle.
        handle: FileHandle,
        /// Who closes.
        lock_owner: LockOwner,
    },
    /// Make a file durable. Answer: `ok`.
    Fsync {
        /// The handle.
        handle: FileHandle,
        /// Contents and size suffice.
        data_only: bool,
    },
    /// Set an extended attribute. Answer: `ok`.
    SetXattr {
        /// Its name, with the namespace.
        name: &'a OsStr,
        /// Its value.
        value: &'a [u8],
        /// `XATTR_CREATE`, `XATTR_REPLACE` or zero.
        flags: i32,
    },
    /// Read an extended attribute. Answer: `xattr`, which handles a `size` of zero and one too small.
    GetXattr {
        /// Its name, with the namespace.
        name: &'a OsStr,
        /// Room at the caller; zero asks for the length.
        size: u32,
    },
    /// List extended attributes. Answer: `xattr` with the names, each followed by a zero byte.
    ListXattr {
        /// Room at the caller; zero asks for the length.
        size: u32,
    },
    /// Remove an extended attribute. Answer: `ok`, or ENODATA if there is none.
    RemoveXattr {
        /// Its name, with the namespace.
        name: &'a OsStr,
    },
    /// Open a directory. Answer: `opened`; or ENOSYS once, upon which the kernel opens and closes all
    /// directories of the mount by itself, with handle zero and cached listings.
    OpenDirectory {
        /// `O_*` flags.
        flags: i32,
    },
    /// List a directory. Answer: `directory` with a plain buffer; an empty one is the end.
    ReadDirectory {
        /// The handle.
        handle: FileHandle,
        /// The cookie of the last entry that the caller has; zero at the start.
        offset: u64,
        /// Room for the answer in bytes.
        size: u32,
    },
    /// List a directory with attributes, filling the kernel's caches. Answer: `directory` with a plus buffer.
    ReadDirectoryPlus {
        /// The handle.
        handle: FileHandle,
        /// The cookie of the last entry that the caller has; zero at the start.
        offset: u64,
        /// Room for the answer in bytes.
        size: u32,
    },
    /// The last reference to a directory handle is gone. Answer: `ok`.
    ReleaseDirectory {
        /// The handle.
        handle: FileHandle,
    },
    /// Make a directory durable. Answer: `ok`.
    FsyncDirectory {
        /// The handle.
        handle: FileHandle,
        /// Contents suffice.
        data_only: bool,
    },
    /// Which lock stands in the way of this one? Answer: `lock`.
    GetLock {
        /// The handle.
        handle: FileHandle,
        /// Who asks.
        owner: LockOwner,
        /// The lock that it would like.
        lock: FileLock,
    },
    /// Take, change or drop a lock. Answer: `ok`; EAGAIN if held by another and not to wait.
    SetLock {
        /// The handle.
        handle: FileHandle,
        /// Who asks.
        owner: LockOwner,
        /// The lock; [`LockKind::Unlock`] drops.
        lock: FileLock,
        /// Whether to wait for others; a wait ends with EINTR when interrupted.
        wait: LockWait,
        /// Record lock or flock: the two do not see each other.
        scope: LockScope,
    },
    /// May the caller do this? Comes only without `default_permissions`. Answer: `ok` or EACCES.
    Access {
        /// `R_OK`, `W_OK`, `X_OK` or-ed, or `F_OK`.
        mask: i32,
    },
    /// A device control request. Answer: normally ENOTTY; `ioctl` otherwise.
    Ioctl {
        /// The handle.
        handle: FileHandle,
        /// The command number.
        command: u32,
        /// The argument, as a number.
        argument: u64,
        /// Data from the caller.
        input: &'a [u8],
        /// Room for data back.
        output_size: u32,
    },
    /// Readiness. Answer: ENOSYS, upon which the kernel takes the file as always ready.
    Poll {
        /// The handle.
        handle: FileHandle,
        /// `POLL*` bits of interest.
        events: u32,
    },
    /// Reserve, punch or zero a range. Answer: `ok`, or EOPNOTSUPP.
    Fallocate {
        /// The handle.
        handle: FileHandle,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// `FALLOC_FL_*` bits.
        mode: i32,
    },
    /// Find data or a hole. Answer: `position`, or ENXIO past the end.
    Seek {
        /// The handle.
        handle: FileHandle,
        /// From here.
        offset: u64,
        /// What to find.
        whence: SeekWhence,
    },
    /// Copy inside the file system. The request's inode is the source. Answer: `copied`.
    CopyFileRange {
        /// Handle of the source.
        handle: FileHandle,
        /// First byte of the source.
        offset: u64,
        /// The target.
        target: Inode,
        /// Handle of the target.
        target_handle: FileHandle,
        /// First byte in the target.
        target_offset: u64,
        /// Number of bytes.
        length: u64,
        /// None are defined yet.
        flags: u64,
    },
    /// Make the whole file system durable (`syncfs`). Answer: `ok`.
    SyncFileSystem,
    /// A request that this crate does not decode. Answer: ENOSYS, so that the kernel stops asking.
    Unsupported {
        /// Its number.
        opcode: u32,
    },
}

/// The changes that a setattr request asks for; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// New permission bits (with the kind of the file in the upper bits, unchanged).
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New length: truncation or extension with zeros.
    pub size: Option<u64>,
    /// New time of access.
    pub atime: Option<TimeChange>,
    /// New time of change of contents.
    pub mtime: Option<TimeChange>,
    /// New time of change of attributes; only sent with write-back caching.
    pub ctime: Option<Timestamp>,
    /// The handle through which the caller asks (ftruncate and the like).
    pub handle: Option<FileHandle>,
    /// The caller, if locks are mandatory.
    pub lock_owner: Option<LockOwner>,
    /// A truncation clears the set-user-id and set-group-id bits.
    pub kill_suid_gid: bool,
}

/// How a time is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeChange {
    /// To the present.
    Now,
    /// To this time.
    To(Timestamp),
}

/// What a lock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// Not held.
    Unlock,
}

/// A range of bytes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// First byte.
    pub start: u64,
    /// Last byte; `i64::MAX` means up to the end, however far it moves.
    pub end: u64,
}

impl LockRange {
    /// The whole file: what a flock covers.
    pub const WHOLE: Self = Self { start: 0, end: i64::MAX as u64 };

    /// True if a byte is in both.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// A lock as asked for or as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// The bytes.
    pub range: LockRange,
    /// Shared, exclusive, or none.
    pub kind: LockKind,
    /// The process that asks or holds.
    pub pid: u32,
}

/// Whether a lock request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Answer EAGAIN at once if another holds it.
    Try,
    /// Wait until it is free or the caller is interrupted.
    Block,
}

/// Which family of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockScope {
    /// POSIX and open-file-description record locks (`fcntl`).
    Record,
    /// Whole-file locks of `flock`.
    Flock,
}

/// What a seek looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekWhence {
    /// The next byte that is not in a hole.
    Data,
    /// The next hole, or the end.
    Hole,
    /// Another `SEEK_*` number.
    Other(u32),
}
