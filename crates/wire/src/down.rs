//! What a parent says to its child.

use crate::parts::{
    Applied, AskId, DelegationId, FrameSerial, HaveList, HeldVersion, KeyImage, LockVerdict, Mark, Omitted, RecallId,
    ServerRoom, Stamp, Then, Verdict,
};
use serde::{Deserialize, Serialize};
use wayfs_types::request::{LockFamily, LockOwner, LockRange, LockRequest};
use wayfs_types::{CommitNumber, Facts, FileId, Life, OriginId, RecordId, Seal, WallTime};

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
        serial: FrameSerial,
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
        serial: FrameSerial,
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
        serial: RecallId,
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
    /// Another asks for a lock on a file whose locks were delegated to the child, which is to return them.
    RecallLocks {
        /// The file.
        file: FileId,
        /// Which kind of lock.
        family: LockFamily,
        /// As in [`LockVerdict::Delegated`].
        serial: DelegationId,
    },
}
