//! The vocabulary between a child and its parent.
//!
//! ```text
//!   child                                   parent
//!     Hello ──────────────────────────────▶  who I am, where I left off, whose records I carry
//!     ◀────────────────────────── Welcome    what you have of them, and whether I can resume
//!     Watch* Start ───────────────────────▶  what I look at; begin (and Refresh, for echoes that a broken session ate)
//!     ◀────────────────────────── Images*    what changed after my cursor; then whatever changes
//!     Received ───────────────────────────▶  (an answered callback)
//!     Records ────────────────────────────▶
//!     ◀──────────────────────────── Marks    how far each origin's records have come
//!     Ask ────────────────────────────────▶
//!     ◀─────────────────────────── Answer
//! ```

use serde::{Deserialize, Serialize};
use wayfs_types::request::{LockFamily, LockOwner, LockRange, LockRequest};
use wayfs_types::{
    Chain, ChainCheck, CommitNumber, Content, Digest, Facts, FileId, Image, Key, Life, Name, OriginId, Record,
    RecordId, Seal, VolumeId, WallTime,
};

/// Anything that travels in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From a child to its parent.
    Up(Up),
    /// From a parent to its child.
    Down(Down),
}

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

/// From a child to its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Up {
    /// First message of a session.
    Hello {
        /// The volume meant.
        volume: VolumeId,
        /// Where the child left off; `None` for a fresh one.
        resume: Option<Resume>,
        /// Origins of which the child's log holds records.
        origins: Vec<OriginId>,
        /// Sequence through which a former parent vouched for the child's own records and contents.
        safe: u64,
        /// The present life of the child's store.
        life: Life,
    },
    /// Directories (for their entries and the inodes in them) and inodes that the child looks at.
    Watch {
        /// Which.
        files: Vec<FileId>,
    },
    /// What it looks at no longer.
    Unwatch {
        /// Which.
        files: Vec<FileId>,
    },
    /// Keys that the child's records touched which the parent has, and the child's confirmed state
    /// has not: their images are part of the first cut.
    Refresh {
        /// The keys.
        keys: Vec<Key>,
    },
    /// All watches are told: begin to send images.
    Start,
    /// Records, in order within each origin.
    Records {
        /// The records.
        records: Vec<SentRecord>,
    },
    /// Images or an answer arrived and took effect.
    Received {
        /// The serial they carried; covers all before it.
        serial: u64,
    },
    /// A question.
    Ask {
        /// Chosen by the child, unique in the session.
        ask: AskId,
        /// What.
        question: Question,
        /// Records whose effect the child has seen on what it asks for: the answer must not be older.
        seen: Vec<RecordId>,
    },
    /// Contents of these versions are durable at the child.
    Have {
        /// The versions.
        versions: HaveList,
    },
    /// Somebody waits for *stable*: bring the contents of this origin's records home.
    Want {
        /// The origin.
        origin: OriginId,
        /// Up to this sequence.
        through: u64,
    },
    /// Take a lock.
    Lock {
        /// Chosen by the child.
        ask: AskId,
        /// What.
        request: LockRequest,
    },
    /// See what stands in a lock's way.
    TestLock {
        /// Chosen by the child.
        ask: AskId,
        /// What.
        request: LockRequest,
    },
    /// Release locks.
    Unlock {
        /// The file.
        file: FileId,
        /// Which world.
        family: LockFamily,
        /// Whose.
        owner: LockOwner,
        /// Where.
        range: LockRange,
    },
    /// The asker of a waiting lock gave up.
    LockCancel {
        /// Which.
        ask: AskId,
    },
    /// I am here.
    Ping {
        /// Counts up.
        number: u64,
    },
    /// Records as in [`Up::Records`], of which a station cancelled some: others of the same message stand for them.
    Cancelled {
        /// What belongs together, one span of an origin at most.
        spans: Vec<Span>,
        /// The records: all of the spans, and others.
        records: Vec<SentRecord>,
    },
    /// Of the child's own records up to here, which the parent has by another way, these contents nobody has called
    /// safe: they are still to be pushed.
    Holds {
        /// The last record that this tells of.
        through: u64,
        /// The versions, without those whose contents travel in their records.
        versions: Vec<HeldVersion>,
    },
    /// Contents that another server has, and the home has not, for all that the child knows. It (a client: of its own
    /// records, which the parent has; a station: somebody below it) keeps them and could give them.
    Lent {
        /// The versions.
        versions: Vec<LentVersion>,
    },
    /// Upon which history the records that follow in this session were written. Said of an origin before its first
    /// record of the session, and again where records are left out that the parent has.
    Chains {
        /// The record before, of each origin.
        chains: Vec<Applied>,
    },
    /// The history of an origin has forked: another is wanted in its place. A station passes it on; the home answers
    /// the same life of a store the same.
    Renew {
        /// The origin that forked: the child's own, or that of a child of a station.
        of: OriginId,
        /// The life of the store that wants it.
        life: Life,
    },
    /// What does the parent, or the home if it does not know, know of these versions? A child asks what it is not told
    /// by itself.
    Facts {
        /// Chosen by the child, unique in the session.
        ask: AskId,
        /// The versions.
        versions: Vec<AskedVersion>,
    },
    /// Everything that the home has ordered by now is wanted here: answered by [`Down::Caught`], after its images.
    Catch {
        /// Chosen by the child, unique in the session.
        ask: AskId,
    },
    /// Whether the child takes rights to change alone, and gives them back when it is asked. Until it says so it does not.
    TakesRights {
        /// Whether.
        takes: bool,
    },
    /// The right to change these, and what stands in them, alone: others are to look at them no more without asking.
    Claim {
        /// Chosen by the child, unique in the session.
        ask: AskId,
        /// Directories.
        files: Vec<FileId>,
    },
    /// Answers `GiveBack`: all that was done under the rights, or before the session, came before.
    GivenBack {
        /// Its number.
        serial: u64,
    },
    /// Neither the child nor anybody below it has the contents of these versions: they were damaged, or are gone.
    Gone {
        /// The versions.
        versions: HaveList,
        /// The writer of the versions says so itself: nobody is going to push them.
        writer: bool,
    },
    /// Seals of the writers, for the records of the message that follows: under the last record of each origin in it, under the last before
    /// one that begins a new life, and at both ends of what was cancelled.
    Seals {
        /// One for each such record.
        seals: Vec<Sealed>,
    },
    /// Take a lock that was granted in a former session: only if no other can have had it since.
    KeepLock {
        /// Chosen by the child.
        ask: AskId,
        /// What.
        request: LockRequest,
    },
    /// A station is about to give others, or gave them, what a client that left it may have taken along.
    GiveLock {
        /// Chosen by the station.
        ask: AskId,
        /// Who left it.
        client: OriginId,
        /// What others get; none: all that the client had from the station.
        wanted: Vec<LockRequest>,
    },
    /// Answers [`Down::GiveLock`].
    LockGiven {
        /// The question.
        ask: AskId,
        /// The client heard of it: what excludes what is wanted it has no more. If not, it cannot be reached by this way.
        told: bool,
        /// What the client has still of all that it took along from that server.
        left: Vec<LockRequest>,
    },
    /// A client came to a station with locks: whoever has something to tell it about them can do so now.
    BringsLocks {
        /// Who.
        client: OriginId,
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

/// A version whose contents a client keeps although another server has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentVersion {
    /// The version.
    pub held: HeldVersion,
    /// The server that has them; `None`: it never named itself.
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
}

/// From a parent to its child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// Answers `Hello`.
    Welcome {
        /// Whose cursors these are.
        stamp: Stamp,
        /// The parent's newest change.
        current: CommitNumber,
        /// The child's cursor is good. If not, a client takes its cache for unverified, and a
        /// station expects the whole state and drops what is not in it.
        resume: bool,
        /// What the parent has of the origins named in `Hello`.
        applied: Vec<Applied>,
        /// To a client: the last numbers of its own origin before each gap that the parent knows of, oldest first. If another copy
        /// of its store wrote the newest that the parent has, they tell what that has of this one's.
        ends: Vec<u64>,
        /// The child was told more by this store than the store knows: it was put back to an older copy. Or, to a client
        /// that comes from another server: that happened lately, and what it saw there may be lost.
        went_back: bool,
    },
    /// Newer images.
    Images {
        /// Counts images and answers in this session.
        serial: u64,
        /// Everything of the child's interest up to here is told, once `more` is false.
        through: CommitNumber,
        /// More parts of this cut follow.
        more: bool,
        /// Keys and what they are now.
        images: Vec<KeyImage>,
        /// What is left out of them.
        omitted: Vec<Omitted>,
    },
    /// Answers a question; of the same cut as the images before it.
    Answer {
        /// Counts images and answers in this session.
        serial: u64,
        /// The question.
        ask: AskId,
        /// How it ended.
        verdict: Verdict,
        /// Everything of the child's interest up to here was told before or is in this answer.
        through: CommitNumber,
        /// What it is about.
        images: Vec<KeyImage>,
    },
    /// How far records have come.
    Marks {
        /// One for each origin that moved.
        marks: Vec<Mark>,
    },
    /// The home has the contents of these versions, or nobody needs them any more.
    Stable {
        /// The versions.
        versions: HaveList,
    },
    /// Somebody waits for these contents: push them up.
    Want {
        /// The versions.
        versions: HaveList,
    },
    /// Callbacks of others were broken because of this version.
    Shared {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
    },
    /// Answers `Lock` and `TestLock`.
    LockAnswer {
        /// The question.
        ask: AskId,
        /// How it ended.
        verdict: LockVerdict,
    },
    /// Answers `Ping`.
    Pong {
        /// Its number.
        number: u64,
        /// Everything of the child's interest up to here was told; `None` while something is on its way.
        through: Option<CommitNumber>,
        /// How long ago the parent heard the home, in milliseconds: zero from the home itself. `None`: not since it began.
        home_ms: Option<u64>,
    },
    /// Another copy of the child's store came after this one: the two are to part.
    Forked,
    /// Answers `Renew`.
    Renewed {
        /// The origin that forked.
        of: OriginId,
        /// The life of the store that asked.
        life: Life,
        /// The origin in its place.
        origin: OriginId,
        /// The home's signature under that origin and the machine's key: a home that forgets the origin wants to see it.
        admission: Option<Seal>,
    },
    /// Answers [`Up::Facts`].
    Facts {
        /// The question.
        ask: AskId,
        /// What is known, in the order of the question. Times are by the clock of whoever knows.
        facts: Vec<Facts>,
    },
    /// Answers [`Up::Catch`].
    Caught {
        /// The question.
        ask: AskId,
        /// Whether the home was asked, and all that it had then was told before. If not, it cannot be reached from here.
        reached: bool,
    },
    /// Of the contents of this version so many bytes are at the home, or at the parent's parent: for those who look.
    Sent {
        /// The version.
        version: RecordId,
        /// Bytes.
        bytes: u64,
    },
    /// Nobody else looks at these: the child may change them, and what stands in them, without waiting for anybody.
    Alone {
        /// Directories.
        files: Vec<FileId>,
    },
    /// Answers `Claim`: all is told that was done before, and nobody else looks.
    Claimed {
        /// The claim.
        ask: AskId,
    },
    /// Somebody else looks at these, or is to change them alone. Of none: others wait for what the child did before this session.
    GiveBack {
        /// Chosen by the parent, unique in the session.
        serial: u64,
        /// Directories.
        files: Vec<FileId>,
        /// What the child may do afterwards.
        then: Then,
    },
    /// How much room there is from here on up; nearest first. Told when it changes by much.
    Rooms {
        /// One for each server whose word is known.
        rooms: Vec<ServerRoom>,
    },
    /// Nobody on record has the contents of these versions: whoever has them says so by `Have` or `Lent`, a writer that
    /// has them not by `Gone`.
    Seek {
        /// The versions.
        versions: Vec<HeldVersion>,
    },
    /// A lock that the home had given ended while it could not be reached: another may have had it since.
    LockLost {
        /// The file.
        file: FileId,
        /// Which kind of lock.
        family: LockFamily,
        /// Whose.
        owner: LockOwner,
        /// Where.
        range: LockRange,
    },
    /// The home's own word that it is there; stations pass it on as it came.
    HomeWord {
        /// The home's newest change then.
        position: CommitNumber,
        /// When it signed this, by its clock.
        at: WallTime,
        /// Its signature.
        seal: Seal,
    },
    /// A server that a client left is about to give others, or gave them, what the client may have taken along. To the client, or to
    /// a station that may know it.
    GiveLock {
        /// Chosen by the parent.
        ask: AskId,
        /// The server that the client left.
        from: OriginId,
        /// The client.
        client: OriginId,
        /// What others get; none: all that the client had from the server.
        wanted: Vec<LockRequest>,
    },
    /// Answers [`Up::GiveLock`].
    LockGiven {
        /// The question.
        ask: AskId,
        /// As in [`Up::LockGiven`].
        told: bool,
        /// As in [`Up::LockGiven`].
        left: Vec<LockRequest>,
    },
    /// A client came somewhere else with locks, as in [`Up::BringsLocks`].
    BringsLocks {
        /// Who.
        client: OriginId,
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
