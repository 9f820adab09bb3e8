//! Images: what goes down. The newest image of a key is all that matters.

use crate::AttrVersion;
use crate::{
    Chain, Content, FileId, KnownLives, Life, Limits, Name, NodeId, OriginId, RecordId, UserId, WallTime, XattrName,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an image is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Key {
    /// A file's inode.
    Inode(FileId),
    /// A directory entry.
    Entry(FileId, Name),
    /// A conflict report, by the record that lost (or, if a copy was made, by the record that made the copy).
    Conflict(RecordId),
    /// A writer of records: how far its log has taken effect.
    Origin(OriginId),
}

/// The state of one key; a key without an image does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Image {
    /// Of [`Key::Inode`].
    Inode(Arc<Inode>),
    /// Of [`Key::Entry`].
    Entry(Entry),
    /// Of [`Key::Conflict`].
    Conflict(Box<Conflict>),
    /// Of [`Key::Origin`].
    Origin(Arc<Origin>),
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link and its target, at most 4095 bytes.
    Symlink(Bytes),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device and its number.
    CharDevice(u32),
    /// A block device and its number.
    BlockDevice(u32),
}

/// One name of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The directory.
    pub parent: FileId,
    /// The name there.
    pub name: Name,
}

/// All that is known of a file but its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, `0..=0o7777`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// What it holds; empty but for regular files.
    pub content: Content,
    /// The record that gave it its content.
    pub version: RecordId,
    /// The record that last changed its attributes.
    pub attr_version: AttrVersion,
    /// Last change of content (of entries, for a directory).
    pub mtime: WallTime,
    /// Last change of anything.
    pub ctime: WallTime,
    /// Birth.
    pub btime: WallTime,
    /// Its names, in order, or of a file with many the [`Inode::LISTED_MAX`] that were there first. A directory has one, the
    /// root none. Empty for any other: the file is removed, and the image is a marker that lets a late store bring it back.
    pub places: Vec<Place>,
    /// For a marker: where it stood last. `None` while it has places.
    pub removed_from: Option<Place>,
    /// For an alias: the file that this id means now (two were made alike under one name, or a
    /// store went to another file). It has no places, `attr_version` is the version that the alias
    /// stands for, `version` the one of the other file that equals it.
    pub merged_into: Option<FileId>,
    /// Directories in this directory.
    pub subdirectories: u32,
    /// Extended attributes.
    pub xattrs: BTreeMap<XattrName, Bytes>,
    /// How many names it has beside those in `places`: only the entries of directories say which. Otherwise each link would
    /// write all names again.
    pub unlisted: u32,
}

impl Conflict {
    /// Whether it reports contents that are lost.
    pub fn is_loss(&self) -> bool {
        self.kind == ConflictKind::ContentLost
    }

    /// Whether it reports contents that are lost and in whose place there is nothing: reading the file fails.
    pub fn is_bare_loss(&self) -> bool {
        self.is_loss() && self.winner == self.record
    }
}

impl Inode {
    /// Most names of one file: as many as ext4 lets one have.
    pub const LINKS_MAX: usize = 65_000;
    /// Most names that an inode lists. More make each link dearer; fewer leave more files to questions about themselves rather
    /// than about the directories where they stand.
    pub const LISTED_MAX: usize = 4;
    /// Most bytes of all extended attributes of one file, names included.
    pub const XATTRS_LEN_MAX: usize = 64 * 1024;
    /// The extended attribute that makes a directory exclusive, whatever its value: what is changed there, and which locks are
    /// taken there, the home decides at once. Directories that are made in it have it, too.
    pub const EXCLUSIVE: &[u8] = b"user.wayfs.exclusive";

    /// Whether it is a directory in which the home decides at once.
    pub fn is_exclusive(&self) -> bool {
        self.is_directory() && self.xattrs.keys().any(|name| name.as_bytes() == Self::EXCLUSIVE)
    }

    /// `st_nlink`: names of a file; two and one per subdirectory for a directory.
    pub fn links(&self) -> u32 {
        match self.kind {
            Kind::Directory => 2 + self.subdirectories,
            Kind::File | Kind::Symlink(_) | Kind::Fifo | Kind::Socket | Kind::CharDevice(_) | Kind::BlockDevice(_) => {
                u32::try_from(self.places.len()).expect("bounded by LINKS_MAX").saturating_add(self.unlisted)
            }
        }
    }

    /// Whether it has names that it does not list: who looks at it through one of those is told of its changes by the file.
    pub fn is_crowded(&self) -> bool {
        self.unlisted > 0
    }

    /// Whether this is the only name that it has.
    pub fn has_one_name(&self) -> bool {
        self.places.len() == 1 && !self.is_crowded()
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory)
    }

    /// Whether it is gone and only a marker or an alias is left.
    pub fn is_removed(&self) -> bool {
        self.removed_from.is_some() || self.merged_into.is_some()
    }
}

/// A directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What the name stands for.
    pub file: FileId,
    /// The record that put it there.
    pub version: RecordId,
}

/// What met (the conflict table of the design).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConflictKind {
    /// Two stores upon one version: the later is the copy.
    StoreStore,
    /// Two files made under one name: the later got the conflict name.
    CreateCreate,
    /// A store met a removal: the file stays.
    StoreUnlink,
    /// A removal met a directory with something inside: the directory stays.
    InsideRmdir,
    /// Two renames of one thing, or onto one name: the first won.
    RenameRename,
    /// A rename that would have made a cycle: refused.
    RenameCycle,
    /// Two changes of attributes: the later in order won.
    SetAttrSetAttr,
    /// The directory it needed is gone: the file was put into the nearest directory that is left.
    Homeless,
    /// Nobody has the bytes of a version any more ([`crate::Op::Lost`]). `record` is that version. `winner` is the record
    /// that brought the last whole content back, or the lost version itself if there is none.
    ContentLost,
    /// A record that its writer's limits forbid: it changed nothing, or what it brought was put where its writer may work.
    Limited,
}

/// A report that two updates met, kept until someone resolves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// What met.
    pub kind: ConflictKind,
    /// The file that kept its name.
    pub file: FileId,
    /// The file with the conflict name, if one was made.
    pub copy: Option<FileId>,
    /// The version that won, as far as one did.
    pub winner: RecordId,
    /// The record that lost or met.
    pub record: RecordId,
    /// Who wrote that record.
    pub user: UserId,
    /// When it was written, by its writer's clock.
    pub time: WallTime,
    /// Directory and name at which it happened.
    pub place: Option<Place>,
}

/// A writer of records as all replicas know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Sequence of its last record that took effect; 0 before the first.
    pub applied: u64,
    /// The running hash over its records up to that one.
    pub chain: Chain,
    /// Which of its numbers its writer gave in which life of its store.
    pub lives: KnownLives,
    /// `USER@HOST`, as conflict names carry it; at most 64 bytes of printable text without `/`.
    pub label: String,
    /// The machine's key: who may speak for this origin, anywhere in the volume.
    pub node: NodeId,
    /// What it was admitted as.
    pub admitted: Admitted,
    /// Set if it took the place of another origin of the same machine, whose history had forked.
    pub renews: Option<Renewal>,
    /// What it may do less than others.
    pub limits: Limits,
}

/// Why an origin was granted in place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Renewal {
    /// The origin before.
    pub of: OriginId,
    /// The life of the store that asked: the same life gets the same answer again, its clone another.
    pub life: Life,
}

impl Origin {
    /// A machine as it is admitted: it has written nothing, and has no limits.
    pub fn admitted(admitted: Admitted, node: NodeId, label: String) -> Self {
        let (applied, chain, lives) = (0, Chain::START, KnownLives::default());
        Self { applied, chain, lives, label, node, admitted, renews: None, limits: Limits::NONE }
    }

    /// Whether a record is among those that took effect: not behind the last one, nor in a gap between two lives, where only another
    /// copy of its writer's store can have written. Of lives so long ago that their gaps are not known: no.
    pub fn has(&self, sequence: u64) -> bool {
        sequence <= self.applied && self.lives.life_at(sequence).is_some()
    }

    /// The same with limits.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

/// What a machine is admitted as, and with which limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// As what.
    pub admitted: Admitted,
    /// What it may do less than others.
    pub limits: Limits,
}

impl From<Admitted> for Standing {
    fn from(admitted: Admitted) -> Self {
        Self { admitted, limits: Limits::NONE }
    }
}

/// What a machine was admitted to a volume as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Admitted {
    /// It is the home.
    Home,
    /// A station: gets everything, takes clients.
    Station,
    /// A client.
    Client,
    /// No longer (a stolen laptop): its sessions are refused. Records of it that a station has are taken, unless it is fenced
    /// ([`Limits::is_fenced`]).
    Revoked,
    /// A client that may only read: its records and contents are refused.
    Reader,
}
