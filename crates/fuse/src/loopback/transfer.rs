//! Requests that move the bytes of open files.

use rustix::fs::{FallocateFlags, SeekFrom};

use super::Loopback;
use super::names::drop_set_id_bits;
use crate::{Errno, FileHandle, Operation, Reply, Request, SeekWhence};

/// The largest read answered at once; the kernel does not ask for more.
const READ_MAX: usize = 1 << 20;

impl Loopback {
    pub(super) fn handle_transfer(&self, request: &Request, reply: Reply) {
        match request.operation() {
            Operation::Read { handle, offset, size, .. } => {
                match self.read(handle, offset, size) {
                    Ok(data) => reply.data(&data),
                    Err(errno) => reply.error(errno),
                };
            }
            Operation::Write { handle, offset, data, kill_suid_gid, .. } => {
                let kill_set_id = |len| if kill_suid_gid { self.kill_set_id(handle).map(|()| len) } else { Ok(len) };
                match self.write(handle, offset, data).and_then(kill_set_id) {
                    Ok(len) => reply.written(len),
                    Err(errno) => reply.error(errno),
                };
            }
            Operation::Fsync { handle, data_only } => {
                reply.result(if data_only { self.fdatasync(handle) } else { self.fsync(handle) });
            }
            Operation::Fallocate { handle, offset, length, mode } => {
                let result = self.handles.file(handle).and_then(|file| {
                    let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
                    Ok(rustix::fs::fallocate(&file.fd, flags, offset, length)?)
                });
                reply.result(result);
            }
            Operation::Seek { handle, offset, whence } => {
                match self.seek(handle, offset, whence) {
                    Ok(position) => reply.position(position),
                    Err(errno) => reply.error(errno),
                };
            }
            Operation::CopyFileRange { handle, offset, target_handle, target_offset, length, .. } => {
                let from = Position { handle, offset };
                let to = Position { handle: target_handle, offset: target_offset };
                match self.copy(from, to, length) {
                    Ok(len) => reply.copied(len),
                    Err(errno) => reply.error(errno),
                };
            }
            _ => {
                reply.error(Errno::NOSYS);
            }
        }
    }

    fn read(&self, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let file = self.handles.file(handle)?;
        let mut data = vec![0; usize::try_from(size).unwrap_or(READ_MAX).min(READ_MAX)];
        let mut len = 0;
        while len < data.len() {
            let read = rustix::io::pread(&file.fd, &mut data[len..], offset + len as u64)?;
            if read == 0 {
                break;
            }
            len += read;
        }
        data.truncate(len);
        Ok(data)
    }

    fn write(&self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let file = self.handles.file(handle)?;
        let len = rustix::io::pwrite(&file.fd, data, offset)?;
        u32::try_from(len).map_err(|_| Errno::IO)
    }

    fn kill_set_id(&self, handle: FileHandle) -> Result<(), Errno> {
        drop_set_id_bits(&self.handles.file(handle)?.node)
    }

    fn fsync(&self, handle: FileHandle) -> Result<(), Errno> {
        Ok(rustix::fs::fsync(&self.handles.file(handle)?.fd)?)
    }

    fn fdatasync(&self, handle: FileHandle) -> Result<(), Errno> {
        Ok(rustix::fs::fdatasync(&self.handles.file(handle)?.fd)?)
    }

    fn seek(&self, handle: FileHandle, offset: u64, whence: SeekWhence) -> Result<u64, Errno> {
        let file = self.handles.file(handle)?;
        let target = match whence {
            SeekWhence::Data => SeekFrom::Data(offset),
            SeekWhence::Hole => SeekFrom::Hole(offset),
            SeekWhence::Other(_) => return Err(Errno::INVAL),
        };
        Ok(rustix::fs::seek(&file.fd, target)?)
    }

    fn copy(&self, from: Position, to: Position, length: u64) -> Result<u64, Errno> {
        let source = self.handles.file(from.handle)?;
        let target = self.handles.file(to.handle)?;
        let (mut from, mut to) = (from.offset, to.offset);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(1 << 30);
        let copied = rustix::fs::copy_file_range(&source.fd, Some(&mut from), &target.fd, Some(&mut to), length)?;
        u64::try_from(copied).map_err(|_| Errno::IO)
    }
}

/// A place in an open file.
#[derive(Clone, Copy)]
struct Position {
    handle: FileHandle,
    offset: u64,
}
