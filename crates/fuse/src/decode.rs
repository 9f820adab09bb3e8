//! From the kernel's bytes to [`Operation`].
//!
//! The kernel is trusted to mean well, not to be the version that we expect: everything is
//! bounds-checked and nothing panics. Bytes after what we know are ignored, which is how the
//! protocol grows.

use crate::cursor::Cursor;
use crate::operation::{
    FileLock, LockKind, LockRange, LockScope, LockWait, Operation, RenameFlags, SeekWhence, SetAttributes, TimeChange,
};
use crate::uapi::{self, fattr, opcode};
use crate::{FileHandle, Inode, LockOwner, Timestamp, Unique};

/// Why bytes from the kernel make no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message ends before its last field.
    #[error("the message is {missing} bytes short")]
    Truncated {
        /// How many bytes are not there.
        missing: usize,
    },
    /// A string has no zero byte at its end.
    #[error("a string has no end")]
    Unterminated,
    /// A name has no bytes.
    #[error("a name is empty")]
    EmptyName,
    /// The header's length is not the length of the message.
    #[error("the header says {stated} bytes, there are {actual}")]
    WrongLength {
        /// In the header.
        stated: u32,
        /// As read.
        actual: usize,
    },
    /// The extensions are longer than the message.
    #[error("the extensions do not fit into the message")]
    Extensions,
    /// A lock is neither shared, exclusive, nor none.
    #[error("lock kind {0} is unknown")]
    LockKind(u32),
}

/// `fuse_in_header`: who asks what about which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) opcode: u32,
    pub(crate) unique: Unique,
    pub(crate) inode: Inode,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
    /// Bytes of extensions at the end of the message.
    extensions: usize,
}

impl Header {
    /// Reads the header of a whole message.
    pub(crate) fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(message);
        let stated = cursor.u32()?;
        let header = Self {
            opcode: cursor.u32()?,
            unique: Unique::new(cursor.u64()?),
            inode: Inode::new(cursor.u64()?),
            uid: cursor.u32()?,
            gid: cursor.u32()?,
            pid: cursor.u32()?,
            extensions: usize::from(cursor.u16()?) * 8,
        };
        cursor.skip(2)?;
        if usize::try_from(stated) != Ok(message.len()) {
            return Err(DecodeError::WrongLength { stated, actual: message.len() });
        }
        if message.len() - uapi::IN_HEADER < header.extensions {
            return Err(DecodeError::Extensions);
        }
        Ok(header)
    }

    /// The bytes of `message` between this header and the extensions.
    pub(crate) fn body<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        message.get(uapi::IN_HEADER..message.len().saturating_sub(self.extensions)).unwrap_or(&[])
    }
}

/// Decodes the body of a request that wants an answer.
pub(crate) fn decode<'a>(header: &Header, message: &'a [u8]) -> Result<Operation<'a>, DecodeError> {
    let mut body = Cursor::new(header.body(message));
    let body = &mut body;
    Ok(match header.opcode {
        opcode::LOOKUP => Operation::Lookup { name: body.name()? },
        // The two begin alike, and what more is asked for is always answered.
        opcode::GETATTR | opcode::STATX => get_attributes(body)?,
        opcode::SETATTR => set_attributes(body)?,
        opcode::READLINK => Operation::ReadLink,
        opcode::SYMLINK => Operation::Symlink { name: body.name()?, target: body.string()? },
        opcode::MKNOD => make_node(body)?,
        opcode::MKDIR => make_directory(body)?,
        opcode::UNLINK => Operation::Unlink { name: body.name()? },
        opcode::RMDIR => Operation::RemoveDirectory { name: body.name()? },
        opcode::RENAME | opcode::RENAME2 => rename(header.opcode, body)?,
        opcode::LINK => Operation::Link { inode: Inode::new(body.u64()?), new_name: body.name()? },
        opcode::OPEN => open(body)?,
        opcode::CREATE | opcode::TMPFILE => create(header.opcode, body)?,
        opcode::READ | opcode::READDIR | opcode::READDIRPLUS => read(header.opcode, body)?,
        opcode::WRITE => write(body)?,
        opcode::STATFS => Operation::StatFs,
        opcode::RELEASE => release(body)?,
        opcode::RELEASEDIR => Operation::ReleaseDirectory { handle: FileHandle::new(body.u64()?) },
        opcode::FSYNC | opcode::FSYNCDIR => fsync(header.opcode, body)?,
        opcode::FLUSH => flush(body)?,
        opcode::SETXATTR => set_xattr(body)?,
        opcode::GETXATTR => get_xattr(body)?,
        opcode::LISTXATTR => Operation::ListXattr { size: body.u32()? },
        opcode::REMOVEXATTR => Operation::RemoveXattr { name: body.name()? },
        opcode::OPENDIR => Operation::OpenDirectory { flags: body.u32()?.cast_signed() },
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => lock(header.opcode, body)?,
        opcode::ACCESS => Operation::Access { mask: body.u32()?.cast_signed() },
        opcode::IOCTL => ioctl(body)?,
        opcode::POLL => poll(body)?,
        opcode::FALLOCATE => fallocate(body)?,
        opcode::LSEEK => seek(body)?,
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => copy_file_range(body)?,
        opcode::SYNCFS => Operation::SyncFileSystem,
        other => Operation::Unsupported { opcode: other },
    })
}

fn get_attributes<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let flags = body.u32()?;
    body.skip(4)?;
    let handle = FileHandle::new(body.u64()?);
    Ok(Operation::GetAttributes { handle: (flags & uapi::GETATTR_FH != 0).then_some(handle) })
}

fn set_attributes<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let valid = body.u32()?;
    body.skip(4)?;
    let handle = FileHandle::new(body.u64()?);
    let size = body.u64()?;
    let lock_owner = LockOwner::new(body.u64()?);
    let seconds = [body.u64()?, body.u64()?, body.u64()?];
    let nanoseconds = [body.u32()?, body.u32()?, body.u32()?];
    let mode = body.u32()?;
    body.skip(4)?;
    let uid = body.u32()?;
    let gid = body.u32()?;

    let has = |bit: u32| valid & bit != 0;
    let time = |index: usize| Timestamp { seconds: seconds[index].cast_signed(), nanoseconds: nanoseconds[index] };
    let change = |set: u32, now: u32, index: usize| {
        if has(now) { Some(TimeChange::Now) } else { has(set).then(|| TimeChange::To(time(index))) }
    };
    Ok(Operation::SetAttributes(SetAttributes {
        mode: has(fattr::MODE).then_some(mode),
        uid: has(fattr::UID).then_some(uid),
        gid: has(fattr::GID).then_some(gid),
        size: has(fattr::SIZE).then_some(size),
        atime: change(fattr::ATIME, fattr::ATIME_NOW, 0),
        mtime: change(fattr::MTIME, fattr::MTIME_NOW, 1),
        ctime: has(fattr::CTIME).then(|| time(2)),
        handle: has(fattr::FH).then_some(handle),
        lock_owner: has(fattr::LOCKOWNER).then_some(lock_owner),
        kill_suid_gid: has(fattr::KILL_SUIDGID),
    }))
}

fn make_node<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let mode = body.u32()?;
    let device = body.u32()?;
    let umask = body.u32()?;
    body.skip(4)?;
    Ok(Operation::MakeNode { name: body.name()?, mode, umask, device })
}

fn make_directory<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let mode = body.u32()?;
    let umask = body.u32()?;
    Ok(Operation::MakeDirectory { name: body.name()?, mode, umask })
}

fn rename<'a>(opcode: u32, body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let new_parent = Inode::new(body.u64()?);
    let mut flags = RenameFlags::EMPTY;
    if opcode == opcode::RENAME2 {
        flags = RenameFlags::from_bits(body.u32()?);
        body.skip(4)?;
    }
    Ok(Operation::Rename { name: body.name()?, new_parent, new_name: body.name()?, flags })
}

fn open<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let flags = body.u32()?.cast_signed();
    let open_flags = body.u32()?;
    Ok(Operation::Open { flags, kill_suid_gid: open_flags & uapi::OPEN_KILL_SUIDGID != 0 })
}

fn create<'a>(opcode: u32, body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let flags = body.u32()?.cast_signed();
    let mode = body.u32()?;
    let umask = body.u32()?;
    let kill_suid_gid = body.u32()? & uapi::OPEN_KILL_SUIDGID != 0;
    if opcode == opcode::TMPFILE {
        return Ok(Operation::TemporaryFile { flags, mode, umask });
    }
    Ok(Operation::Create { name: body.name()?, flags, mode, umask, kill_suid_gid })
}

fn read<'a>(opcode: u32, body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    let offset = body.u64()?;
    let size = body.u32()?;
    let read_flags = body.u32()?;
    let owner = LockOwner::new(body.u64()?);
    let flags = body.u32()?.cast_signed();
    Ok(match opcode {
        opcode::READDIR => Operation::ReadDirectory { handle, offset, size },
        opcode::READDIRPLUS => Operation::ReadDirectoryPlus { handle, offset, size },
        _ => {
            let lock_owner = (read_flags & uapi::READ_LOCKOWNER != 0).then_some(owner);
            Operation::Read { handle, offset, size, lock_owner, flags }
        }
    })
}

fn write<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    let offset = body.u64()?;
    let size = body.u32()?;
    let write_flags = body.u32()?;
    let owner = LockOwner::new(body.u64()?);
    let flags = body.u32()?.cast_signed();
    body.skip(4)?;
    Ok(Operation::Write {
        handle,
        offset,
        data: sized(body, size)?,
        lock_owner: (write_flags & uapi::WRITE_LOCKOWNER != 0).then_some(owner),
        flags,
        from_cache: write_flags & uapi::WRITE_CACHE != 0,
        kill_suid_gid: write_flags & uapi::WRITE_KILL_SUIDGID != 0,
    })
}

/// `size` bytes; a size beyond the address space is just a truncated message.
fn sized<'a>(body: &mut Cursor<'a>, size: u32) -> Result<&'a [u8], DecodeError> {
    body.take(usize::try_from(size).unwrap_or(usize::MAX))
}

fn release<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    let flags = body.u32()?.cast_signed();
    let release_flags = body.u32()?;
    Ok(Operation::Release {
        handle,
        flags,
        lock_owner: LockOwner::new(body.u64()?),
        flush: release_flags & uapi::RELEASE_FLUSH != 0,
        unlock_flock: release_flags & uapi::RELEASE_FLOCK_UNLOCK != 0,
    })
}

fn fsync<'a>(opcode: u32, body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    let data_only = body.u32()? & uapi::FSYNC_FDATASYNC != 0;
    Ok(if opcode == opcode::FSYNC {
        Operation::Fsync { handle, data_only }
    } else {
        Operation::FsyncDirectory { handle, data_only }
    })
}

fn flush<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    body.skip(8)?;
    Ok(Operation::Flush { handle, lock_owner: LockOwner::new(body.u64()?) })
}

fn set_xattr<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let size = body.u32()?;
    let flags = body.u32()?.cast_signed();
    let name = body.name()?;
    Ok(Operation::SetXattr { name, value: sized(body, size)?, flags })
}

fn get_xattr<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let size = body.u32()?;
    body.skip(4)?;
    Ok(Operation::GetXattr { name: body.name()?, size })
}

fn lock<'a>(opcode: u32, body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    let owner = LockOwner::new(body.u64()?);
    let range = LockRange { start: body.u64()?, end: body.u64()? };
    let kind = lock_kind(body.u32()?)?;
    let lock = FileLock { range, kind, pid: body.u32()? };
    let scope = if body.u32()? & uapi::LK_FLOCK != 0 { LockScope::Flock } else { LockScope::Record };
    Ok(match opcode {
        opcode::GETLK => Operation::GetLock { handle, owner, lock },
        opcode::SETLK => Operation::SetLock { handle, owner, lock, wait: LockWait::Try, scope },
        _ => Operation::SetLock { handle, owner, lock, wait: LockWait::Block, scope },
    })
}

fn lock_kind(number: u32) -> Result<LockKind, DecodeError> {
    match i32::try_from(number) {
        Ok(libc::F_RDLCK) => Ok(LockKind::Read),
        Ok(libc::F_WRLCK) => Ok(LockKind::Write),
        Ok(libc::F_UNLCK) => Ok(LockKind::Unlock),
        _ => Err(DecodeError::LockKind(number)),
    }
}

fn ioctl<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    body.skip(4)?;
    let command = body.u32()?;
    let argument = body.u64()?;
    let input_size = body.u32()?;
    let output_size = body.u32()?;
    Ok(Operation::Ioctl { handle, command, argument, input: sized(body, input_size)?, output_size })
}

fn poll<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    body.skip(12)?;
    Ok(Operation::Poll { handle, events: body.u32()? })
}

fn fallocate<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    let offset = body.u64()?;
    let length = body.u64()?;
    Ok(Operation::Fallocate { handle, offset, length, mode: body.u32()?.cast_signed() })
}

fn seek<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    let handle = FileHandle::new(body.u64()?);
    let offset = body.u64()?;
    let number = body.u32()?;
    let whence = match i32::try_from(number) {
        Ok(libc::SEEK_DATA) => SeekWhence::Data,
        Ok(libc::SEEK_HOLE) => SeekWhence::Hole,
        _ => SeekWhence::Other(number),
    };
    Ok(Operation::Seek { handle, offset, whence })
}

fn copy_file_range<'a>(body: &mut Cursor<'a>) -> Result<Operation<'a>, DecodeError> {
    Ok(Operation::CopyFileRange {
        handle: FileHandle::new(body.u64()?),
        offset: body.u64()?,
        target: Inode::new(body.u64()?),
        target_handle: FileHandle::new(body.u64()?),
        target_offset: body.u64()?,
        length: body.u64()?,
        flags: body.u64()?,
    })
}

/// Calls `each` for every inode of a forget or batch-forget body.
///
/// # Errors
/// [`DecodeError::Truncated`] when the stated count is more than there is; what came before was called.
pub(crate) fn decode_forget(
    header: &Header,
    message: &[u8],
    mut each: impl FnMut(Inode, u64),
) -> Result<(), DecodeError> {
    let mut body = Cursor::new(header.body(message));
    if header.opcode == opcode::FORGET {
        each(header.inode, body.u64()?);
        return Ok(());
    }
    let count = body.u32()?;
    body.skip(4)?;
    for _ in 0..count {
        let inode = Inode::new(body.u64()?);
        each(inode, body.u64()?);
    }
    Ok(())
}

/// The request that an interrupt is about.
pub(crate) fn decode_interrupt(header: &Header, message: &[u8]) -> Result<Unique, DecodeError> {
    Cursor::new(header.body(message)).u64().map(Unique::new)
}

#[cfg(test)]
pub(crate) mod tests;
