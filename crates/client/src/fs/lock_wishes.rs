//! What programs ask of locks.

use super::ids::{HandleId, LockOwner};
use wayfs_types::FileId;
use wayfs_types::request as ask;

/// Which family of locks. The two do not see each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockScope {
    /// Record locks of `fcntl`, of processes and of open files.
    Record,
    /// Locks of whole files, of `flock`.
    Flock,
}

/// Whether a lock is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    /// If another holds it, that is the answer.
    Try,
    /// Until it is free or the caller gets a signal.
    Block,
}

/// A lock that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct LockWish {
    /// Whose it is to be.
    pub owner: LockOwner,
    /// Its family.
    pub scope: LockScope,
    /// The bytes; a `flock` is about all.
    pub range: ask::LockRange,
    /// Shared or exclusive.
    pub kind: ask::LockKind,
    /// The process that others are told of; zero if that is the caller.
    pub pid: u32,
    /// Whether to wait for it.
    pub wait: LockWait,
}

/// What is let go.
#[derive(Debug, Clone, Copy)]
pub struct Unlock {
    /// Whose locks.
    pub owner: LockOwner,
    /// Of which family.
    pub scope: LockScope,
    /// The bytes.
    pub range: ask::LockRange,
}

/// The lock that stands in the way of one that is wanted, if any does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockTest(pub Option<ConflictingLock>);

/// A lock of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictingLock {
    /// The bytes.
    pub range: ask::LockRange,
    /// Shared or exclusive.
    pub kind: ask::LockKind,
    /// The process that holds it.
    pub pid: u32,
}

/// Where a lock is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockPlace {
    pub(crate) file: FileId,
    pub(crate) handle: HandleId,
}
