//! What the user of a replica (the kernel, a tool) asks of it, and the answers.
//!
//! The engine turns a [`Change`] into a record with the bases that it sees at
//! that moment, so nobody above it handles versions except to store contents.

use crate::{AttrChange, Content, Facts, FileId, FsError, Inode, Kind, Name, RecordId, WallTime, XattrName};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Ties an answer to its request; chosen by the driver, unique while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request to the local replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The file under a name. Answer: [`Answer::File`], or `NotFound` (which may be cached: a callback breaks it).
    Lookup {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
    },
    /// A file's inode. Answer: [`Answer::File`].
    Attributes {
        /// The file.
        file: FileId,
    },
    /// Entries of a directory in order of name, from after a name. Answer: [`Answer::List`].
    List {
        /// The directory.
        directory: FileId,
        /// Last name seen; `None` from the start.
        after: Option<Name>,
        /// Most entries in the answer, `1..=4096`.
        limit: usize,
    },
    /// Changes something. Answer: [`Answer::Changed`], at once, from the local state.
    Change {
        /// On whose behalf (uid).
        user: u32,
        /// What.
        change: Change,
    },
    /// Answers [`Answer::Reached`] when everything this replica wrote so far (`record` and before, if given) is so far.
    Wait {
        /// Up to this record of ours; `None`: up to the newest.
        record: Option<RecordId>,
        /// How far.
        until: Level,
    },
    /// What is known of these versions; what is not known here is asked of the parent. Answer: [`Answer::Facts`], at the
    /// latest at the deadline, with what is known by then.
    Facts {
        /// File and version, at most 1024.
        versions: Vec<(FileId, RecordId)>,
    },
    /// Catches up with the home: all that it had ordered when this was asked is seen here afterwards. Answer:
    /// [`Answer::Done`], or `Unreachable` if the home cannot be asked.
    Refresh,
    /// Takes a lock. Answer: [`Answer::Done`], or `Locked`.
    Lock(LockRequest),
    /// What would stand in a lock's way. Answer: [`Answer::Lock`].
    TestLock(LockRequest),
    /// Releases what an owner holds in a range. Answer: [`Answer::Done`].
    Unlock {
        /// The file.
        file: FileId,
        /// Flock and fcntl locks do not see each other.
        family: LockFamily,
        /// Whose.
        owner: LockOwner,
        /// Where.
        range: LockRange,
    },
}

/// A change asked for locally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Makes anything but a directory.
    Create {
        /// Directory.
        parent: FileId,
        /// Name.
        name: Name,
        /// What; not a directory.
        kind: Kind,
        /// Permission bits.
        mode: u16,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// Makes a regular file that holds something from the start: nobody ever sees it empty.
    Publish {
        /// Directory.
        parent: FileId,
        /// Name.
        name: Name,
        /// Permission bits.
        mode: u16,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// The content. Its chunks are already in the local chunk store.
        content: Content,
    },
    /// Makes a directory.
    Mkdir {
        /// Directory.
        parent: FileId,
        /// Name.
        name: Name,
        /// Permission bits.
        mode: u16,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// Gives a file one more name.
    Link {
        /// The file.
        file: FileId,
        /// Directory of the new name.
        parent: FileId,
        /// The new name.
        name: Name,
    },
    /// Takes a name away. The answer holds the inode as it is afterwards (a marker if that was the last name).
    Unlink {
        /// Directory.
        parent: FileId,
        /// Name.
        name: Name,
    },
    /// Removes an empty directory.
    Rmdir {
        /// Directory it is in.
        parent: FileId,
        /// Its name.
        name: Name,
    },
    /// Moves a name.
    Rename {
        /// Directory it leaves.
        from_parent: FileId,
        /// Name it leaves.
        from_name: Name,
        /// Directory it goes to.
        to_parent: FileId,
        /// Name it gets.
        to_name: Name,
        /// What if the target name is taken.
        target: RenameTarget,
    },
    /// Changes attributes.
    SetAttr {
        /// The file.
        file: FileId,
        /// What changes.
        change: AttrChange,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// The file.
        file: FileId,
        /// Which.
        name: XattrName,
        /// The value; `None` removes (`NoAttribute` if it is not there).
        value: Option<Bytes>,
        /// What if it is or is not there.
        presence: XattrPresence,
    },
    /// Gives a file a new content. A `base` that is no longer current is no error: it is a conflict, settled by the rules.
    Store {
        /// The file.
        file: FileId,
        /// Version that the new content was built upon.
        base: RecordId,
        /// The content. Its chunks are already in the local chunk store.
        content: Content,
        /// Modification time.
        mtime: WallTime,
    },
    /// Gives a file a new content that is its newest one with more at the end. A `base` that is no longer current is
    /// refused with `Changed`, so that the asker appends to what is there then.
    Append {
        /// The file.
        file: FileId,
        /// Version that the new content was built upon.
        base: RecordId,
        /// The content. Its chunks are already in the local chunk store.
        content: Content,
        /// Modification time.
        mtime: WallTime,
    },
    /// Marks a conflict as resolved.
    Resolve {
        /// The report's record.
        conflict: RecordId,
    },
}

/// What a rename does with a taken target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameTarget {
    /// Replaces it, as POSIX has it.
    Replace,
    /// Fails with `Exists`.
    MustBeFree,
    /// Gives it the name that is left: the two change places. Fails with `NotFound` if the target name is free.
    Exchange,
}

/// The flags of `setxattr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrPresence {
    /// Either.
    Any,
    /// Must not be there yet (`Exists`).
    MustBeNew,
    /// Must be there (`NoAttribute`).
    MustExist,
}

/// What somebody waits for. Ordered: each implies the ones before it, so a wait is over when all these facts hold. What is
/// known of a version are three facts, [`crate::Facts`], which come in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// In the writer's durable log, nowhere else.
    Modified,
    /// Record and contents durable at the station.
    Safe,
    /// Safe, and the home has ordered the record.
    Visible,
    /// Safe and visible, and the home has the contents.
    Stable,
}

/// Flock and fcntl locks are two worlds, and claims a third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockFamily {
    /// `fcntl` record locks (and open-file-description locks).
    Posix,
    /// `flock`: always the whole file.
    Flock,
    /// The engine's own: who changes something in an exclusive directory holds it there meanwhile. Programs cannot ask for it.
    Claim,
}

/// Who holds a lock within one client: the kernel's lock owner number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockOwner(pub u64);

/// Bytes `start..=end`; `u64::MAX` as end means to the end of the file however it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockRange {
    /// First byte.
    pub start: u64,
    /// Last byte, at least `start`.
    pub end: u64,
}

impl LockRange {
    /// The whole file.
    pub const WHOLE: Self = Self { start: 0, end: u64::MAX };
}

/// Shared or exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

/// A lock wanted, held or tested for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRequest {
    /// The file.
    pub file: FileId,
    /// Which world.
    pub family: LockFamily,
    /// Who.
    pub owner: LockOwner,
    /// Process, for `F_GETLK`.
    pub pid: u32,
    /// Where.
    pub range: LockRange,
    /// How.
    pub kind: LockKind,
    /// Wait until it is free (the request's deadline still holds), or answer `Locked` at once.
    pub wait: bool,
}

/// Answers to requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A file and its inode.
    File(FileId, Arc<Inode>),
    /// Entries in order of name.
    List {
        /// Name, file, inode.
        entries: Vec<(Name, FileId, Arc<Inode>)>,
        /// Whether the directory ends here.
        end: bool,
    },
    /// A change was made and is in the log.
    Changed {
        /// Its record.
        record: RecordId,
        /// The file it was about.
        file: FileId,
        /// Its inode afterwards (of a removed file: the marker; of a purged one: as it was last).
        inode: Arc<Inode>,
        /// A file that lost its last name to it (unlink, rename over).
        removed: Option<Removed>,
    },
    /// What stands in a lock's way, if anything.
    Lock(Option<LockRequest>),
    /// What is known of versions, in the order of the question.
    Facts(Vec<Facts>),
    /// It is so far.
    Reached,
    /// Done, nothing to say.
    Done,
}

/// A file that lost its last name, as it was before: whoever has it open, or was about to open it, goes on with that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The file.
    pub file: FileId,
    /// What it was, but for its names.
    pub inode: Arc<Inode>,
}

/// How a request ends.
pub type Outcome = Result<Answer, FsError>;
