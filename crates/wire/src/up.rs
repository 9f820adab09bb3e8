//! What a child says to its parent.

use crate::parts::{
    Applied, AskId, AskedVersion, DelegationId, FrameSerial, HaveList, HeldVersion, LentVersion, Question, RecallId,
    Resume, Sealed, SentRecord, Span,
};
use serde::{Deserialize, Serialize};
use wayfs_types::request::{LockFamily, LockOwner, LockRange, LockRequest};
use wayfs_types::{FileId, Key, Life, OriginId, RecordId, VolumeId};

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
        serial: FrameSerial,
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
        serial: RecallId,
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
    /// The child decides about a file's locks no more, of its own accord or since it was asked to ([`Down::RecallLocks`]).
    ReturnLocks {
        /// The file.
        file: FileId,
        /// Which kind of lock.
        family: LockFamily,
        /// As in [`LockVerdict::Delegated`].
        serial: DelegationId,
        /// What its programs have.
        held: Vec<LockRequest>,
    },
}
