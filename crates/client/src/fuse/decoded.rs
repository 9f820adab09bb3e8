//! The kernel's arguments in the types of the file system.

use crate::files::Seek;
use crate::fs::attribute_changes::{SetAttributes, TimeChange};
use crate::fs::attributes::FileKind;
use crate::fs::names::{NewMode, NewNode};
use crate::fs::{Credentials, HandleId, LockOwner, LockScope, LockWait, LockWish, Token};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wayfs_fuse::{FileHandle, FileLock, Inode, LockKind, LockRange, RenameFlags, Request, SeekWhence, Unique};
use wayfs_types::request::{self as ask, RenameTarget};
use wayfs_types::{FileId, FsError, WallTime};

/// The file behind an inode number.
pub(super) fn file_id(inode: Inode) -> Result<FileId, FsError> {
    FileId::from_inode_number(inode.number()).map_err(|_| FsError::Stale)
}

/// Who asks.
pub(super) fn credentials(request: &Request) -> Credentials {
    Credentials {
        token: token(request.unique()),
        uid: request.uid(),
        gid: request.gid(),
        pid: request.pid(),
        interrupt: Arc::<AtomicBool>::from(request.interrupt_flag()).into(),
    }
}

/// By which an operation can be interrupted.
pub(super) fn token(unique: Unique) -> Token {
    Token::new(unique.number())
}

pub(super) fn handle(handle: FileHandle) -> HandleId {
    HandleId::new(handle.number())
}

pub(super) fn owner(owner: wayfs_fuse::LockOwner) -> LockOwner {
    LockOwner::new(owner.number())
}

/// What is to be made by `mknod`.
pub(super) fn new_node(mode: NewMode, device: u32) -> NewNode {
    NewNode { kind: kind(mode.asked), mode, device }
}

fn kind(mode: u32) -> FileKind {
    match wayfs_fuse::FileKind::from_mode(mode) {
        wayfs_fuse::FileKind::Regular => FileKind::Regular,
        wayfs_fuse::FileKind::Directory => FileKind::Directory,
        wayfs_fuse::FileKind::Symlink => FileKind::Symlink,
        wayfs_fuse::FileKind::Pipe => FileKind::Pipe,
        wayfs_fuse::FileKind::Socket => FileKind::Socket,
        wayfs_fuse::FileKind::CharacterDevice => FileKind::CharacterDevice,
        wayfs_fuse::FileKind::BlockDevice => FileKind::BlockDevice,
    }
}

/// What becomes of what has the new name.
pub(super) fn rename_target(flags: RenameFlags) -> Result<RenameTarget, FsError> {
    match flags {
        RenameFlags::EMPTY => Ok(RenameTarget::Replace),
        RenameFlags::NOREPLACE => Ok(RenameTarget::MustBeFree),
        RenameFlags::EXCHANGE => Ok(RenameTarget::Exchange),
        _ => Err(FsError::Invalid),
    }
}

/// Access times are not kept, and the time of change of attributes is the file system's.
pub(super) fn set_attributes(changes: wayfs_fuse::SetAttributes) -> SetAttributes {
    SetAttributes {
        mode: changes.mode,
        uid: changes.uid,
        gid: changes.gid,
        size: changes.size,
        mtime: changes.mtime.map(time_change),
        handle: changes.handle.map(handle),
        kill_suid_gid: changes.kill_suid_gid,
    }
}

fn time_change(change: wayfs_fuse::TimeChange) -> TimeChange {
    match change {
        wayfs_fuse::TimeChange::Now => TimeChange::Now,
        wayfs_fuse::TimeChange::To(time) => TimeChange::To(WallTime::from_parts(time.seconds, time.nanoseconds)),
    }
}

pub(super) fn seek(whence: SeekWhence) -> Result<Seek, FsError> {
    match whence {
        SeekWhence::Data => Ok(Seek::Data),
        SeekWhence::Hole => Ok(Seek::Hole),
        SeekWhence::Other(_) => Err(FsError::Invalid),
    }
}

/// The kernel's end of everything is `i64::MAX`, the replica's `u64::MAX`.
pub(super) fn range(range: LockRange) -> ask::LockRange {
    let end = if range.end >= LockRange::WHOLE.end { u64::MAX } else { range.end };
    ask::LockRange { start: range.start, end }
}

pub(super) fn scope(scope: wayfs_fuse::LockScope) -> LockScope {
    match scope {
        wayfs_fuse::LockScope::Record => LockScope::Record,
        wayfs_fuse::LockScope::Flock => LockScope::Flock,
    }
}

/// A lock that is wanted; nothing, if one is to be let go.
pub(super) fn wish(
    lock: FileLock,
    owned_by: wayfs_fuse::LockOwner,
    family: wayfs_fuse::LockScope,
    wait: wayfs_fuse::LockWait,
) -> Option<LockWish> {
    let kind = match lock.kind {
        LockKind::Read => ask::LockKind::Read,
        LockKind::Write => ask::LockKind::Write,
        LockKind::Unlock => return None,
    };
    let wait = match wait {
        wayfs_fuse::LockWait::Try => LockWait::Try,
        wayfs_fuse::LockWait::Block => LockWait::Block,
    };
    Some(LockWish { owner: owner(owned_by), scope: scope(family), range: range(lock.range), kind, pid: lock.pid, wait })
}
