//! What the file system shows, in the form in which the kernel wants it.

use crate::files::Access;
use crate::files::kernel_way::{BackingId, KernelWay};
use crate::fs::attributes::{Attributes, FileKind};
use crate::fs::results::{Absent, Entry, ListingCache, Opened, OpenedDirectory};
use crate::fs::{HandleId, LockTest};
use wayfs_fuse::{FileHandle, FileLock, Inode, LockKind, LockRange, OpenFlags, Timestamp};
use wayfs_types::request as ask;
use wayfs_types::{FileId, WallTime};

/// The number under which the kernel knows a file.
pub(super) fn inode(file: FileId) -> Inode {
    Inode::new(file.inode_number())
}

/// A name and where it leads.
pub(super) fn entry(entry: &Entry) -> wayfs_fuse::Entry {
    wayfs_fuse::Entry {
        inode: inode(entry.file),
        // Numbers are never given twice.
        generation: 0,
        entry_ttl: entry.ttl,
        attributes_ttl: entry.ttl,
        attributes: attributes(&entry.attributes),
    }
}

/// A name that leads nowhere.
pub(super) fn absent(absent: Absent) -> wayfs_fuse::Entry {
    wayfs_fuse::Entry::negative(absent.ttl)
}

/// Attributes.
pub(super) fn attributes(shown: &Attributes) -> wayfs_fuse::Attributes {
    let mtime = timestamp(shown.mtime);
    wayfs_fuse::Attributes {
        inode: inode(shown.file),
        size: shown.size,
        blocks: shown.blocks,
        atime: mtime,
        mtime,
        ctime: timestamp(shown.ctime),
        btime: Some(timestamp(shown.btime)),
        mode: kind(shown.kind).mode_bits() | u32::from(shown.mode),
        links: shown.links,
        uid: shown.uid,
        gid: shown.gid,
        device: shown.device,
        block_size: shown.block_size,
    }
}

/// The kind of a file.
pub(super) fn kind(kind: FileKind) -> wayfs_fuse::FileKind {
    match kind {
        FileKind::Regular => wayfs_fuse::FileKind::Regular,
        FileKind::Directory => wayfs_fuse::FileKind::Directory,
        FileKind::Symlink => wayfs_fuse::FileKind::Symlink,
        FileKind::Pipe => wayfs_fuse::FileKind::Pipe,
        FileKind::Socket => wayfs_fuse::FileKind::Socket,
        FileKind::CharacterDevice => wayfs_fuse::FileKind::CharacterDevice,
        FileKind::BlockDevice => wayfs_fuse::FileKind::BlockDevice,
    }
}

/// An open file.
///
/// Nothing needs doing when a reader closes, and a flush would cost it a quarter of its time.
pub(super) fn opened(opened: &Opened) -> wayfs_fuse::Opened {
    let handle = handle(opened.handle);
    let quiet = if opened.access == Access::Read { OpenFlags::NOFLUSH } else { OpenFlags::EMPTY };
    match opened.way {
        KernelWay::Cached { keep: true } => wayfs_fuse::Opened::new(handle, quiet | OpenFlags::KEEP_CACHE),
        KernelWay::Cached { keep: false } => wayfs_fuse::Opened::new(handle, quiet),
        KernelWay::Direct(id) => wayfs_fuse::Opened::passthrough(handle, quiet | OpenFlags::DIRECT_IO, backing(id)),
        KernelWay::Passthrough(id) => wayfs_fuse::Opened::passthrough(handle, quiet, backing(id)),
    }
}

/// An open directory.
pub(super) fn opened_directory(opened: OpenedDirectory) -> wayfs_fuse::Opened {
    let flags = match opened.listing {
        ListingCache::None => OpenFlags::EMPTY,
        ListingCache::Anew => OpenFlags::CACHE_DIR,
        ListingCache::Kept => OpenFlags::CACHE_DIR | OpenFlags::KEEP_CACHE,
    };
    wayfs_fuse::Opened::new(handle(opened.handle), flags)
}

fn handle(handle: HandleId) -> FileHandle {
    FileHandle::new(handle.number())
}

/// A registered body file.
pub(super) fn backing(id: BackingId) -> wayfs_fuse::BackingId {
    wayfs_fuse::BackingId::new(id.number())
}

/// What a test for a lock found: what was asked for, if nothing stands in its way.
pub(super) fn tested(LockTest(found): LockTest, asked: FileLock) -> FileLock {
    let Some(held) = found else { return FileLock { kind: LockKind::Unlock, ..asked } };
    let kind = match held.kind {
        ask::LockKind::Read => LockKind::Read,
        ask::LockKind::Write => LockKind::Write,
    };
    let range = LockRange { start: held.range.start, end: held.range.end.min(LockRange::WHOLE.end) };
    FileLock { range, kind, pid: held.pid }
}

fn timestamp(time: WallTime) -> Timestamp {
    Timestamp { seconds: time.seconds(), nanoseconds: time.subsecond_nanos() }
}
