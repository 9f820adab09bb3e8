//! Answers.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno as OsError;
use tracing::{debug, warn};

use crate::attributes::Fixed;
use crate::decode::Header;
use crate::device::Device;
use crate::interrupts::Interrupts;
use crate::uapi::opcode;
use crate::{
    Attributes, DirectoryBuffer, Entry, Errno, FileLock, FileSystemStatistics, LockKind, Opened, Operation, Unique,
};

/// Whether an answer reached the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The kernel has it.
    Delivered,
    /// The kernel did not take it: the caller is gone, or the mount is. What the answer would have
    /// granted (a lookup count, an open handle) was not granted, and no forget or release will come.
    Gone,
}

/// The right and the duty to answer one request, once.
///
/// Every method that answers consumes the reply. It may be moved to another thread and kept as long
/// as need be. Dropped without an answer it answers EIO, so that no caller ever hangs on a lost one.
/// Answering in a form that does not fit the request gives the caller EIO.
pub struct Reply {
    device: Arc<Device>,
    interrupts: Arc<Interrupts>,
    unique: Unique,
    opcode: u32,
    /// Bytes of data that the kernel has room for; `None` if the size follows from the request.
    room: Option<u32>,
    answered: bool,
}

impl Reply {
    pub(crate) fn new(
        device: Arc<Device>,
        interrupts: Arc<Interrupts>,
        header: &Header,
        operation: &Operation<'_>,
    ) -> Self {
        let room = match operation {
            Operation::Read { size, .. }
            | Operation::ReadDirectory { size, .. }
            | Operation::ReadDirectoryPlus { size, .. }
            | Operation::GetXattr { size, .. }
            | Operation::ListXattr { size } => Some(*size),
            _ => None,
        };
        Self { device, interrupts, unique: header.unique, opcode: header.opcode, room, answered: false }
    }

    /// The identity of the request, as in [`crate::Handler::interrupted`].
    #[must_use]
    pub fn unique(&self) -> Unique {
        self.unique
    }

    /// Fails the request.
    pub fn error(mut self, errno: Errno) -> Delivery {
        self.send(-errno.code(), &[])
    }

    /// Success, with nothing more to say.
    pub fn ok(mut self) -> Delivery {
        self.send(0, &[])
    }

    /// Success or failure, with nothing more to say.
    pub fn result(self, result: Result<(), Errno>) -> Delivery {
        match result {
            Ok(()) => self.ok(),
            Err(errno) => self.error(errno),
        }
    }

    /// Where a name leads: to lookup, mknod, mkdir, symlink and link.
    pub fn entry(mut self, entry: &Entry) -> Delivery {
        self.send(0, &[&entry.encode()])
    }

    /// Attributes, to be believed for `ttl`: to getattr and setattr.
    pub fn attributes(mut self, attributes: &Attributes, ttl: Duration) -> Delivery {
        match self.opcode {
            opcode::STATX => self.send(0, &[&attributes.encode_extended(ttl)]),
            _ => self.send(0, &[&attributes.encode_out(ttl)]),
        }
    }

    /// An open handle: to open and opendir.
    pub fn opened(mut self, opened: &Opened) -> Delivery {
        self.send(0, &[&opened.encode()])
    }

    /// A new file and its open handle: to create and tmpfile.
    pub fn created(mut self, entry: &Entry, opened: &Opened) -> Delivery {
        self.send(0, &[&entry.encode(), &opened.encode()])
    }

    /// Bytes: to read. What is beyond the size asked is cut off.
    pub fn data(self, bytes: &[u8]) -> Delivery {
        self.data_in_two(bytes, &[])
    }

    /// Bytes in two pieces (for ring buffers, and for chunks that meet inside a read): as [`Reply::data`].
    pub(crate) fn data_in_two(mut self, first: &[u8], second: &[u8]) -> Delivery {
        let room = self.room.map_or(usize::MAX, |room| usize::try_from(room).unwrap_or(usize::MAX));
        let first = &first[..first.len().min(room)];
        let second = &second[..second.len().min(room - first.len())];
        self.send(0, &[first, second])
    }

    /// The target of a symbolic link: to readlink.
    pub fn link_target(mut self, target: &OsStr) -> Delivery {
        self.send(0, &[target.as_bytes()])
    }

    /// The number of bytes written: to write.
    pub fn written(mut self, len: u32) -> Delivery {
        self.send(0, &[&padded_u32(len)])
    }

    /// The number of bytes copied: to copy_file_range.
    pub fn copied(mut self, len: u64) -> Delivery {
        if self.opcode == opcode::COPY_FILE_RANGE_64 {
            return self.send(0, &[&len.to_ne_bytes()]);
        }
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.send(0, &[&padded_u32(len)])
    }

    /// Statistics: to statfs.
    pub fn statistics(mut self, statistics: &FileSystemStatistics) -> Delivery {
        self.send(0, &[&statistics.encode()])
    }

    /// A value, or a list of names each ended by a zero byte: to getxattr and listxattr.
    ///
    /// Gives the length alone if the caller has no room at all, and ERANGE if it has too little.
    pub fn xattr(mut self, value: &[u8]) -> Delivery {
        let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
        match self.room {
            Some(0) => self.send(0, &[&padded_u32(len)]),
            Some(room) if room < len => self.error(Errno::RANGE),
            Some(_) | None => self.send(0, &[value]),
        }
    }

    /// Names: to readdir and readdirplus. An empty buffer ends the listing.
    pub fn directory(mut self, buffer: &DirectoryBuffer) -> Delivery {
        self.send(0, &[buffer.as_bytes()])
    }

    /// The lock that stands in the way, or one of kind [`LockKind::Unlock`]: to getlk.
    pub fn lock(mut self, lock: &FileLock) -> Delivery {
        let kind = match lock.kind {
            LockKind::Read => libc::F_RDLCK,
            LockKind::Write => libc::F_WRLCK,
            LockKind::Unlock => libc::F_UNLCK,
        };
        let mut out = Fixed::<24>::new();
        out.u64(lock.range.start).u64(lock.range.end);
        out.u32(kind.cast_unsigned()).u32(lock.pid);
        self.send(0, &[&out.finish()])
    }

    /// A position: to lseek.
    pub fn position(mut self, offset: u64) -> Delivery {
        self.send(0, &[&offset.to_ne_bytes()])
    }

    /// The outcome of a control request with data for the caller: to ioctl.
    pub fn ioctl(mut self, result: i32, output: &[u8]) -> Delivery {
        let mut out = Fixed::<16>::new();
        out.u32(result.cast_unsigned()).u32(0).u32(0).u32(0);
        self.send(0, &[&out.finish(), output])
    }

    fn send(&mut self, error: i32, parts: &[&[u8]]) -> Delivery {
        self.answered = true;
        self.interrupts.finish(self.unique);
        match self.device.send(self.unique.number(), error, parts) {
            Ok(()) => Delivery::Delivered,
            Err(OsError::NOENT | OsError::NODEV | OsError::CONNABORTED | OsError::PIPE) => {
                debug!(unique = %self.unique, opcode = self.opcode, "answer found nobody waiting");
                Delivery::Gone
            }
            Err(error) => {
                warn!(unique = %self.unique, opcode = self.opcode, %error, "kernel refused an answer");
                Delivery::Gone
            }
        }
    }
}

/// A u32 and four bytes of padding, a form that several answers have.
fn padded_u32(value: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&value.to_ne_bytes());
    bytes
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            debug!(unique = %self.unique, opcode = self.opcode, "request dropped without an answer");
            self.send(-Errno::IO.code(), &[]);
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("unique", &self.unique).field("opcode", &self.opcode).finish_non_exhaustive()
    }
}
