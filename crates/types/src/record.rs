//! Records: what goes up.

use crate::AttrVersion;
use crate::{Content, FileId, Kind, Life, Name, RecordId, UserId, WallTime, XattrName};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One mutating operation in an origin's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Who wrote it, and where in that log. Also the id of what it makes.
    pub id: RecordId,
    /// When, by the writer's wall clock. For display and `stat` only.
    pub time: WallTime,
    /// For whom.
    pub user: UserId,
    /// What.
    pub op: Op,
}

impl Record {
    /// The sequence of its origin that must have come before it; zero: none.
    pub fn follows(&self) -> u64 {
        let before = self.id.sequence() - 1;
        if let Op::Skip { after, .. } = self.op { after.min(before) } else { before }
    }
}

/// What an operation replaced: the file that stood under the target name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// The file that stood there.
    pub file: FileId,
    /// Its content version as the writer knew it.
    pub version: RecordId,
}

/// The operations. Fields called `base` and `version` are what the writer saw:
/// if they no longer hold where the record arrives, it is a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Makes a file that is not a directory: regular, symbolic link, fifo, socket, device.
    /// Its id is the record's. The name was free.
    Create {
        /// Directory it is made in.
        parent: FileId,
        /// Name there.
        name: Name,
        /// What it is; never [`Kind::Directory`].
        kind: Kind,
        /// Permission bits, `0..=0o7777`.
        mode: u16,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// What a regular file holds from the start (a later store folded in by log cancellation).
        content: Content,
    },
    /// Makes a directory; its id is the record's. The name was free.
    Mkdir {
        /// Directory it is made in.
        parent: FileId,
        /// Name there.
        name: Name,
        /// Permission bits.
        mode: u16,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// Gives a file (never a directory) one more name. The name was free.
    Link {
        /// The file.
        file: FileId,
        /// Directory of the new name.
        parent: FileId,
        /// The new name.
        name: Name,
    },
    /// Takes a name from a file that is not a directory.
    Unlink {
        /// Directory of the name.
        parent: FileId,
        /// The name.
        name: Name,
        /// File that had it.
        file: FileId,
        /// Content version that the remover saw.
        version: RecordId,
    },
    /// Removes an empty directory.
    Rmdir {
        /// Directory of the name.
        parent: FileId,
        /// The name.
        name: Name,
        /// Directory that had it.
        file: FileId,
    },
    /// Moves a name, perhaps over another.
    Rename {
        /// Directory it leaves.
        from_parent: FileId,
        /// Name it leaves.
        from_name: Name,
        /// What is moved.
        file: FileId,
        /// Directory it goes to.
        to_parent: FileId,
        /// Name it gets.
        to_name: Name,
        /// What stood there; `None`: the name was free.
        replaced: Option<Replaced>,
    },
    /// Changes attributes.
    SetAttr {
        /// The file.
        file: FileId,
        /// Attribute version that the writer saw.
        base: AttrVersion,
        /// What changes.
        change: AttrChange,
    },
    /// Sets (`Some`) or removes (`None`) an extended attribute.
    SetXattr {
        /// The file.
        file: FileId,
        /// Which.
        name: XattrName,
        /// Its value; at most 64 KiB.
        value: Option<Bytes>,
    },
    /// Gives a regular file a new content. Truncation is a store, too.
    Store {
        /// The file.
        file: FileId,
        /// Content version that the writer built upon.
        base: RecordId,
        /// What it holds now.
        content: Content,
        /// Its modification time.
        mtime: WallTime,
    },
    /// Marks a conflict as resolved: its report goes away.
    Resolve {
        /// The report, by the record it is filed under.
        conflict: RecordId,
    },
    /// Nothing: keeps the place of a record that log cancellation took away.
    Touch,
    /// Nothing: the first record of a life of a client's store, whose disk may have lost its newest ones, which it had sent ahead.
    /// Sequences between `after` and this record's own are given up where they did not arrive.
    Skip {
        /// The last sequence that the writer is sure of.
        after: u64,
        /// The life of the writer's store that begins with this record: no two copies of a store write the same.
        life: Life,
    },
    /// The home's word that nobody has the bytes of a version. If it is the current one of its file, this record takes
    /// its place, with the last content that is whole, or with none that can be read.
    Lost {
        /// The file.
        file: FileId,
        /// The version whose bytes are lost.
        version: RecordId,
        /// The last content of the file that is whole; `None`: there is none.
        instead: Option<Content>,
        /// The modification time of that content.
        mtime: WallTime,
    },
    /// Two names change places: what stood under the one stands under the other, both or neither.
    Exchange {
        /// Directory of the first name.
        from_parent: FileId,
        /// The first name.
        from_name: Name,
        /// What stood there.
        file: FileId,
        /// Directory of the second name.
        to_parent: FileId,
        /// The second name.
        to_name: Name,
        /// What stood there.
        other: FileId,
    },
}

impl Op {
    /// What it is called in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Mkdir { .. } => "mkdir",
            Self::Link { .. } => "link",
            Self::Unlink { .. } => "unlink",
            Self::Rmdir { .. } => "rmdir",
            Self::Rename { .. } => "rename",
            Self::Exchange { .. } => "exchange",
            Self::SetAttr { .. } => "setattr",
            Self::SetXattr { .. } => "setxattr",
            Self::Store { .. } => "store",
            Self::Resolve { .. } => "resolve",
            Self::Touch | Self::Skip { .. } => "nothing",
            Self::Lost { .. } => "lost",
        }
    }
}

/// Attributes to change; `None` stays.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttrChange {
    /// Permission bits, `0..=0o7777`.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Modification time.
    pub mtime: Option<WallTime>,
}
