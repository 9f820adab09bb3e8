//! What messages are made of.

use serde::{Deserialize, Serialize};
use wayfs_types::request::LockRequest;
use wayfs_types::{
    Chain, ChainCheck, CommitNumber, Content, Digest, FileId, Image, Key, Life, Name, OriginId, Record, RecordId, Seal,
    WallTime,
};

/// Names one life of one replica's store: its origin, when the store was made, and which of its openings this is.
/// A cursor means something only to the store that issued it, and only as far as that life of it came: a store that
/// was put back to an older copy knows its own lives only up to the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The replica.
    pub origin: OriginId,
    /// When its store was made, by its own wall clock.
    pub born: WallTime,
    /// Drawn at random when the store was opened.
    pub life: Life,
}

impl Stamp {
    /// Whether both name the same store, in whichever of its lives.
    pub fn is_same_store(&self, other: &Self) -> bool {
        (self.origin, self.born) == (other.origin, other.born)
    }
}

/// How far an origin's records came somewhere, and the name of their history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The origin.
    pub origin: OriginId,
    /// The last sequence.
    pub through: u64,
    /// The running hash up to there.
    pub chain: Chain,
}

/// Where a child left off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// With which store.
    pub stamp: Stamp,
    /// The child has everything of its interest up to here.
    pub cursor: CommitNumber,
}

/// Ties an answer to its question within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskId(pub u64);

/// Counts the images and answers that a child is told in one session; the first has 1.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrameSerial(pub u64);

/// Names one call for rights within a session. 0: one that is not answered for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecallId(pub u64);

/// Names one delegation of a file's locks to a child. A later one has a greater number.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DelegationId(pub u64);

impl FrameSerial {
    /// The next frame.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl RecallId {
    /// The next call.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl DelegationId {
    /// The next delegation.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A list of content versions.
pub type HaveList = Vec<RecordId>;

/// A record on its way up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRecord {
    /// The record.
    pub record: Record,
    /// Whether the sender, or someone below it, has the contents it names. False after a
    /// move, when a former station took them over.
    pub held: bool,
}

/// What a client wants to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Question {
    /// The file under a name.
    Lookup {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
    },
    /// A file's inode.
    Attributes {
        /// The file.
        file: FileId,
    },
    /// Entries and their inodes in order of name.
    List {
        /// The directory.
        directory: FileId,
        /// Last name known; `None` from the start.
        after: Option<Name>,
        /// Most entries, at most 4096.
        limit: u32,
    },
}

/// A record, and its writer's signature over all that it wrote up to there in that life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The record.
    pub record: RecordId,
    /// The signature.
    pub seal: Seal,
}

/// A version that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedVersion {
    /// Its file.
    pub file: FileId,
    /// The version.
    pub version: RecordId,
}

/// What a child may go on to do with what it gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    /// Look at its cache: it will be asked before anything changes.
    Look,
    /// Look no more without asking: somebody else changes it alone.
    Ask,
}

/// A version whose contents a client still holds for its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldVersion {
    /// The version.
    pub version: RecordId,
    /// Its file, as the client knows it.
    pub file: FileId,
    /// What it holds.
    pub content: Content,
}

/// A version whose contents a client keeps until they are at the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentVersion {
    /// The version.
    pub held: HeldVersion,
    /// The server that has them; `None`: no other, as far as the sender knows. Then the home decides, whatever marks say.
    pub to: Option<OriginId>,
}

/// Records of one origin that stand for each other: to be taken all together, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Whose.
    pub origin: OriginId,
    /// The first sequence.
    pub from: u64,
    /// The last sequence.
    pub through: u64,
    /// The running hash at the last, over the records as their writer wrote them.
    pub chain: Chain,
}

/// A key and what it is now; `None`: nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyImage {
    /// The key.
    pub key: Key,
    /// Its image.
    pub image: Option<Image>,
}

/// Contents that were left out of an image: the receiver sent them itself, in a record that its log still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Which of the images of the message: an inode whose contents are empty inline ones.
    pub index: u32,
    /// Of the bytes.
    pub digest: Digest,
}

/// How far an origin's records have come, as the parent knows it. Each number is the
/// sequence up to which (inclusive) it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The origin.
    pub origin: OriginId,
    /// Taken into the parent's durable state.
    pub applied: u64,
    /// Also contents durable there, and others' callbacks answered.
    pub safe: u64,
    /// Ordered by the home.
    pub visible: u64,
    /// Contents at the home.
    pub stable: u64,
    /// Of the running hash at `applied`: a record that is acknowledged is the one that was sent.
    pub check: ChainCheck,
}

/// How a question was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The images say it.
    Found,
    /// There is no such entry or file.
    NotFound,
    /// A list: there may be more after the last name.
    More,
    /// A list: the directory ends here.
    End,
    /// The parent has not yet seen what the child has seen, and could not get it in time. The images say how it is there, which is no answer;
    /// there may be none.
    Behind,
    /// The parent does not hold the volume yet, or is overloaded.
    Unready,
}

/// Answers about locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockVerdict {
    /// It is yours.
    Granted,
    /// Another holds it.
    Refused,
    /// Nothing stands in its way.
    Free,
    /// This stands in its way.
    Held(LockRequest),
    /// Waiting would never end: the holders wait for the asker.
    Deadlock,
    /// Too many locks.
    Overload,
    /// It is the home's to give, and that cannot be reached from here.
    Unreachable,
    /// Nobody else has a lock of this family on the file: the child decides about all of them by itself, this one included,
    /// until it returns them.
    Delegated {
        /// Chosen by the parent, higher than any before.
        serial: DelegationId,
    },
}

/// The room of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRoom {
    /// Its part in the volume.
    pub is_home: bool,
    /// `USER@HOST`.
    pub label: String,
    /// Its room.
    pub room: Room,
    /// It is no disk: what a quota of the receiver leaves, as the server sees it.
    pub quota: Option<QuotaRoom>,
}

/// What is told of a quota beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRoom {
    /// The receiver's records are counted up to this sequence.
    pub through: u64,
    /// Files that it leaves; the largest number: it does not bound them.
    pub files_left: u64,
    /// The receiver's own, not the volume's.
    pub is_members: bool,
    /// What the receiver sent last went beyond its quotas, and nothing was removed since: it is not to send it again yet.
    pub is_refused: bool,
}

/// The room on a disk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// What there is none for.
    pub full: Full,
    /// Bytes left for contents.
    pub left: u64,
    /// Bytes of the disk.
    pub size: u64,
}

/// For what a disk has no room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Full {
    /// It has room.
    #[default]
    No,
    /// There is none for contents.
    Contents,
    /// Nor for metadata.
    Metadata,
    /// It is no disk, and what may be used is.
    Quota,
}
