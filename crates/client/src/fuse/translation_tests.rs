//! The translation, each way, without a kernel.

use super::decoded::{range, rename_target, seek, set_attributes, wish};
use super::errno::errno;
use super::kernel_form::{attributes, entry, opened, opened_directory, tested};
use crate::files::Access;
use crate::files::kernel_way::{BackingId, KernelWay};
use crate::fs::attribute_changes::TimeChange;
use crate::fs::attributes::{Attributes, FileKind};
use crate::fs::results::{Entry, ListingCache, Opened, OpenedDirectory};
use crate::fs::{ConflictingLock, Error, HandleId, LockTest};
use std::time::Duration;
use wayfs_fuse::{
    Errno, FileLock, LockKind, LockOwner, LockRange, LockScope, LockWait, OpenFlags, RenameFlags, SeekWhence, Timestamp,
};
use wayfs_types::request as ask;
use wayfs_types::request::RenameTarget;
use wayfs_types::{FileId, FsError, RecordId, WallTime};

fn shown(file: FileId) -> Attributes {
    Attributes {
        file,
        kind: FileKind::Symlink,
        mode: 0o4755,
        size: 7,
        blocks: 8,
        mtime: WallTime::from_parts(1, 2),
        ctime: WallTime::from_parts(3, 4),
        btime: WallTime::from_parts(-5, 6),
        links: 9,
        uid: 10,
        gid: 11,
        device: 12,
        block_size: 13,
    }
}

#[test]
fn an_entry_has_the_number_that_the_kernel_knows_and_the_attributes_of_the_file() {
    let (known, real) =
        (FileId::made_by(RecordId::try_from(7).unwrap()), FileId::made_by(RecordId::try_from(8).unwrap()));
    let ttl = Duration::from_secs(9);
    let told = entry(&Entry { file: known, attributes: shown(real), ttl });
    assert_eq!((told.inode.number(), told.attributes.inode.number()), (known.inode_number(), real.inode_number()));
    assert_eq!((told.entry_ttl, told.attributes_ttl, told.generation), (ttl, ttl, 0));
    let told = attributes(&shown(real));
    assert_eq!(told.mode, libc::S_IFLNK | 0o4755);
    assert_eq!((told.atime, told.mtime.seconds, told.ctime.nanoseconds), (told.mtime, 1, 4));
    assert_eq!(told.btime, Some(Timestamp { seconds: -5, nanoseconds: 6 }));
    assert_eq!((told.size, told.blocks, told.links, told.uid, told.gid), (7, 8, 9, 10, 11));
}

#[test]
fn the_way_of_a_handle_is_told_by_the_flags_that_the_kernel_knows() {
    let (handle, backing) = (HandleId::new(3), BackingId::new(5));
    let flags = |access, way| opened(&Opened { handle, access, way }).flags();
    assert_eq!(flags(Access::Write, KernelWay::Cached { keep: false }), OpenFlags::EMPTY);
    assert_eq!(flags(Access::Read, KernelWay::Cached { keep: true }), OpenFlags::NOFLUSH | OpenFlags::KEEP_CACHE);
    assert_eq!(flags(Access::Write, KernelWay::Passthrough(backing)), OpenFlags::PASSTHROUGH);
    assert_eq!(flags(Access::Write, KernelWay::Direct(backing)), OpenFlags::PASSTHROUGH | OpenFlags::DIRECT_IO);
    let listing = |listing| opened_directory(OpenedDirectory { handle, listing }).flags();
    assert_eq!(listing(ListingCache::None), OpenFlags::EMPTY);
    assert_eq!(listing(ListingCache::Anew), OpenFlags::CACHE_DIR);
    assert_eq!(listing(ListingCache::Kept), OpenFlags::CACHE_DIR | OpenFlags::KEEP_CACHE);
}

#[test]
fn the_end_of_everything_is_another_number_for_the_kernel() {
    assert_eq!(range(LockRange::WHOLE), ask::LockRange::WHOLE);
    assert_eq!(range(LockRange { start: 3, end: 9 }), ask::LockRange { start: 3, end: 9 });
    let asked = FileLock { range: LockRange { start: 1, end: 2 }, kind: LockKind::Write, pid: 4 };
    assert_eq!(tested(LockTest(None), asked), FileLock { kind: LockKind::Unlock, ..asked });
    let held = ConflictingLock { range: ask::LockRange { start: 1, end: u64::MAX }, kind: ask::LockKind::Read, pid: 6 };
    let range = LockRange { start: 1, end: LockRange::WHOLE.end };
    assert_eq!(tested(LockTest(Some(held)), asked), FileLock { range, kind: LockKind::Read, pid: 6 });
    let wish = |lock| wish(lock, LockOwner::new(1), LockScope::Record, LockWait::Block);
    assert_eq!(wish(asked).unwrap().kind, ask::LockKind::Write);
    assert!(wish(FileLock { kind: LockKind::Unlock, ..asked }).is_none(), "that is no lock");
}

#[test]
fn what_the_kernel_may_ask_and_we_do_not_know_is_refused() {
    assert_eq!(rename_target(RenameFlags::EMPTY), Ok(RenameTarget::Replace));
    assert_eq!(rename_target(RenameFlags::NOREPLACE), Ok(RenameTarget::MustBeFree));
    assert_eq!(rename_target(RenameFlags::EXCHANGE), Ok(RenameTarget::Exchange));
    assert_eq!(rename_target(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE), Err(FsError::Invalid));
    assert_eq!(rename_target(RenameFlags::WHITEOUT), Err(FsError::Invalid));
    assert_eq!(seek(SeekWhence::Other(9)), Err(FsError::Invalid));
    let time = Timestamp { seconds: 1, nanoseconds: 2 };
    let changes = wayfs_fuse::SetAttributes {
        mtime: Some(wayfs_fuse::TimeChange::To(time)),
        atime: Some(wayfs_fuse::TimeChange::Now),
        ..wayfs_fuse::SetAttributes::default()
    };
    assert_eq!(set_attributes(changes).mtime, Some(TimeChange::To(WallTime::from_parts(1, 2))));
}

#[test]
fn programs_know_refusals_by_their_numbers() {
    for (error, number) in [
        (Error::from(FsError::NotFound), libc::ENOENT),
        (FsError::Locked.into(), libc::EAGAIN),
        (FsError::Changed.into(), libc::ESTALE),
        (FsError::Quota.into(), libc::EDQUOT),
        (FsError::Interrupted.into(), libc::EINTR),
        (Error::BadHandle, libc::EBADF),
        (Error::NothingThere, libc::ENXIO),
        (Error::NoNumber, libc::EOVERFLOW),
        (Error::Disk(rustix::io::Errno::IO), libc::EIO),
    ] {
        assert_eq!(errno(error), Errno::from_code(number), "{error}");
    }
}
