//! What a client's program does with locks: it asks for one, has it, counts under it, and lets go of it.

use wayfs_proto::PeerId;
use wayfs_types::request::{LockKind, LockOwner, LockRange};
use wayfs_types::{FileId, Time};

/// What a client's program does with locks: one at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum LockUse {
    /// Nothing.
    #[default]
    Idle,
    /// It opens a file that it reads when it has one.
    Opens(Wanted),
    /// It asked for one.
    Takes(Wanted),
    /// It was told that it has it.
    Has(Held),
    /// It asked to let go of it.
    Leaves(Held),
}

/// A lock that a program asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) file: FileId,
    pub(crate) owner: LockOwner,
    pub(crate) range: LockRange,
    pub(crate) kind: LockKind,
    /// The session in which it opened the file that it reads when it has the lock.
    pub(crate) opened: Option<PeerId>,
    /// When it asked.
    pub(crate) at: Time,
}

/// A lock that a program has, for all that it knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) wanted: Wanted,
    /// Who was given it meanwhile.
    pub(crate) met: Option<usize>,
    /// The server that gave it, and the session, if it had one that the server vouched for.
    pub(crate) given: Option<Given>,
    /// What it does under it.
    pub(crate) counting: Counting,
}

/// How far a program that has the lock has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Counting {
    #[default]
    Not,
    /// It was not answered yet.
    Asked(u64),
    /// The home has it.
    Done(u64),
}

/// By whom a lock was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) server: usize,
    pub(crate) session: PeerId,
}

impl Wanted {
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        let is_shared = self.kind == LockKind::Read && other.kind == LockKind::Read;
        let overlap = self.range.start <= other.range.end && other.range.start <= self.range.end;
        self.file == other.file && overlap && !is_shared
    }
}
