//! Reading, writing, allocating, seeking.

use super::Error;
use super::caller::Caller;
use super::core::FileSystem;
use super::ids::HandleId;
use super::reply::{Reply, RespondWith};
use super::results::{Position, Statistics, Written};
use crate::files::open_file::{Extend, OpenFile};
use crate::files::{Access, OperationError, Seek, WaitPolicy};
use bytes::Bytes;
use std::sync::Arc;
use wayfs_proto::Room;
use wayfs_types::FsError;

/// Longest name, for `statfs`.
const NAME_MAX: u32 = wayfs_types::Name::LEN_MAX as u32;

/// A write of the kernel without its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteRequest {
    pub(crate) handle: HandleId,
    pub(crate) offset: u64,
    pub(crate) flags: i32,
    pub(crate) kill_suid_gid: bool,
    pub(crate) from_cache: bool,
}

/// What a `fallocate` asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocateRequest {
    pub(crate) handle: HandleId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) mode: i32,
}

impl FileSystem {
    pub(crate) fn read<R: RespondWith<Bytes>>(
        self: &Arc<Self>,
        caller: &Caller,
        handle: HandleId,
        offset: u64,
        size: u32,
        reply: Reply<R>,
    ) {
        let Some(open) = self.handles.file(handle) else { return reply.refuse(Error::BadHandle) };
        let range = offset..offset.saturating_add(u64::from(size));
        match self.files.read(&open.file, range.clone(), WaitPolicy::None) {
            Ok(bytes) => reply.give(bytes),
            Err(OperationError::Failed(error)) => reply.refuse(error),
            Err(OperationError::WouldBlock) => self.on_worker(&self.readers, caller, reply, move |fs, slot| {
                let outcome = fs.files.read(&open.file, range, fs.read_patience());
                let Some(reply) = slot.take() else { return };
                match outcome {
                    Ok(bytes) => reply.give(bytes),
                    Err(slow) => reply.refuse(slow.into_error()),
                }
            }),
        }
    }

    pub(crate) fn write<R: RespondWith<Written>>(
        self: &Arc<Self>,
        caller: &Caller,
        place: WriteRequest,
        data: &[u8],
        reply: Reply<R>,
    ) {
        let Some(open) = self.handles.file(place.handle) else { return reply.refuse(Error::BadHandle) };
        if open.access != Access::Write {
            return reply.refuse(Error::BadHandle);
        }
        if self.is_of_lost_memory(open.file.id()) {
            return reply.refuse(FsError::Io);
        }
        if !self.has_room(data.len() as u64) {
            return reply.refuse(FsError::NoSpace);
        }
        // Late writes of the page cache say where they belong even if the handle appends.
        let appends = place.flags & libc::O_APPEND != 0 && !place.from_cache;
        let offset = (!appends).then_some(place.offset);
        if !self.is_within_quota(&open.file, offset, data.len() as u64) {
            return reply.refuse(FsError::Quota);
        }
        match self.files.write(&open.file, offset, data, self.user(caller)) {
            Ok(at) => {
                if at != place.offset {
                    // The kernel did not know where the file ends (another machine wrote on, or one program emptied it
                    // while another wrote): the pages that it keeps of what was appended are in the wrong place. It
                    // holds some of them until it has the answer, so it is told on another thread.
                    self.files.pages_are_wrong(open.file.id());
                    self.forget_pages(open.file.id());
                }
                if place.kill_suid_gid
                    && let Some(inode) = self.engine.inode(open.file.id())
                {
                    self.drop_set_id_bits(caller, open.file.id(), &inode);
                }
                reply.give(Written(data.len()));
            }
            Err(error) => reply.refuse(error),
        }
    }

    /// Free bytes of the disk, if it says.
    pub(super) fn free(&self) -> Option<u64> {
        let statistics = rustix::fs::statvfs(self.files.directory()).ok()?;
        Some(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }

    /// Whether the disk has room for a write; makes some if it can.
    pub(super) fn has_room(&self, len: u64) -> bool {
        let free = || self.free();
        self.space.take(len, free)
            || (self.files.make_room() && self.space.take(len, free))
            // Clean copies give way; each byte may be needed twice, as above.
            || (self.engine.make_room(self.settings.free_min.saturating_add(len.saturating_mul(2)))
                && self.space.take(len, free))
            || (self.files.wait_for_room() && self.space.take(len, free))
    }

    /// Whether a write stays within the quotas that this machine was told of.
    fn is_within_quota(&self, file: &OpenFile, offset: Option<u64>, len: u64) -> bool {
        let size = file.overlay().size;
        let end = offset.unwrap_or(size).saturating_add(len);
        end <= size || self.engine.has_quota_for(file.id(), end)
    }

    pub(crate) fn allocate<R: RespondWith<()>>(
        &self,
        caller: &Caller,
        AllocateRequest { handle, offset, len, mode }: AllocateRequest,
        reply: Reply<R>,
    ) {
        let Some(open) = self.handles.file(handle) else { return reply.refuse(Error::BadHandle) };
        if open.access != Access::Write {
            return reply.refuse(Error::BadHandle);
        }
        if self.is_of_lost_memory(open.file.id()) {
            return reply.refuse(FsError::Io);
        }
        let Some(end) = offset.checked_add(len) else { return reply.refuse(FsError::FileTooLarge) };
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let outcome = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            // Space is not set aside, but refused now if it is not there.
            0 if !self.has_room(len) => Err(FsError::NoSpace),
            0 if keeps_size || open.file.overlay().size >= end => Ok(()),
            0 => self.files.truncate(&open.file, end, 0),
            libc::FALLOC_FL_PUNCH_HOLE if keeps_size => self.files.zero(&open.file, offset..end, Extend::No),
            libc::FALLOC_FL_ZERO_RANGE => {
                let extend = if keeps_size { Extend::No } else { Extend::Yes };
                self.files.zero(&open.file, offset..end, extend)
            }
            _ => Err(FsError::Unsupported),
        };
        // The kernel leaves this to us and does not say so with such a request.
        if outcome.is_ok()
            && caller.uid != 0
            && let Some(inode) = self.engine.inode(open.file.id())
        {
            self.drop_set_id_bits(caller, open.file.id(), &inode);
        }
        reply.finish(outcome);
    }

    pub(crate) fn seek<R: RespondWith<Position>>(
        self: &Arc<Self>,
        caller: &Caller,
        handle: HandleId,
        offset: u64,
        seek: Seek,
        reply: Reply<R>,
    ) {
        let Some(open) = self.handles.file(handle) else { return reply.refuse(Error::BadHandle) };
        match self.files.seek(&open.file, offset, seek, WaitPolicy::None) {
            Err(OperationError::WouldBlock) => self.on_worker(&self.readers, caller, reply, move |fs, slot| {
                let outcome = fs.files.seek(&open.file, offset, seek, fs.read_patience());
                if let Some(reply) = slot.take() {
                    answer_seek(reply, outcome);
                }
            }),
            outcome => answer_seek(reply, outcome),
        }
    }

    /// The numbers of the disk with the least room between here and the home: what is written must come to all of them.
    pub(crate) fn statistics<R: RespondWith<Statistics>>(&self, reply: Reply<R>) {
        match rustix::fs::statvfs(self.files.directory()) {
            Ok(disk) => reply.give(with_room_above(&disk, self.engine.room_above())),
            Err(error) => reply.refuse(Error::Disk(error)),
        }
    }
}

fn answer_seek<R: RespondWith<Position>>(reply: Reply<R>, outcome: Result<Option<u64>, OperationError>) {
    match outcome {
        Ok(Some(at)) => reply.give(Position(at)),
        Ok(None) => reply.refuse(Error::NothingThere),
        Err(slow) => reply.refuse(slow.into_error()),
    }
}

fn with_room_above(disk: &rustix::fs::StatVfs, above: Option<(Room, u64)>) -> Statistics {
    let fragment = disk.f_frsize.max(1);
    let own = Statistics {
        blocks: disk.f_blocks,
        blocks_free: disk.f_bfree,
        blocks_available: disk.f_bavail,
        files: disk.f_files,
        files_free: disk.f_ffree,
        block_size: 128 * 1024,
        name_len_max: NAME_MAX,
        fragment_size: u32::try_from(fragment).unwrap_or(4096),
    };
    let Some((above, files_left)) = above else { return own };
    let files_free = own.files_free.min(files_left);
    // Files here are those that are used and those that are free.
    let files = own.files - own.files_free.min(own.files) + files_free;
    let own = Statistics { files, files_free, ..own };
    if above.left / fragment >= disk.f_bavail {
        return own;
    }
    let left = above.left / fragment;
    Statistics { blocks: above.size / fragment, blocks_free: left, blocks_available: left, ..own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_with_the_least_room_is_the_one_that_is_told() {
        let disk = rustix::fs::statvfs("/").unwrap();
        let own = with_room_above(&disk, None);
        let room = |left: u64| Room { full: wayfs_proto::Full::No, left, size: 1 << 30 };
        assert_eq!(with_room_above(&disk, Some((room(u64::MAX), u64::MAX))), own);
        let full = with_room_above(&disk, Some((room(0), u64::MAX)));
        assert_eq!((full.blocks * disk.f_frsize, full.blocks_available, full.files), (1 << 30, 0, own.files));
        assert_eq!(with_room_above(&disk, Some((room(u64::MAX), 0))).files_free, 0, "a quota of files");
    }
}
