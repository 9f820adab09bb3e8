//! What a replica tells about itself: the words of status, queue and info.

use crate::api::Role;
use wayfs_types::{Conflict, Facts, FileId, OriginId, Record, RecordId, WallTime};

/// How far the current version of a file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionState {
    /// The version.
    pub version: RecordId,
    /// What this replica knows of it without asking anybody. Times are those at which it learnt of a fact; the last
    /// 1024 steps of each writer are kept.
    pub facts: Facts,
    /// The server that said at that time that it is safe there; `None`: not known, or it is this one.
    pub safe_at: Option<OriginId>,
}

/// Where a replica stands as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Its part in the volume.
    pub role: Role,
    /// A session with the parent is up, and the view is the parent's plus our own records.
    pub connected: bool,
    /// A session with the parent is up, perhaps still catching up.
    pub parent_up: bool,
    /// The last record of its own log; `None` before the first.
    pub last_record: Option<RecordId>,
    /// Last sequence of its own that is durable here.
    pub durable_through: u64,
    /// Last sequence of its own that is safe.
    pub safe_through: u64,
    /// Last sequence of its own that is visible.
    pub visible_through: u64,
    /// Last sequence of its own that is stable, with all before it.
    pub stable_through: u64,
    /// Records in the log that the parent has not confirmed: unsent and in flight.
    pub records_waiting: u64,
    /// Of these, sent and not yet confirmed.
    pub records_in_flight: u64,
    /// Bytes of contents that our parent does not have yet; they exist here only.
    pub bytes_at_risk: u64,
    /// Versions that these bytes belong to.
    pub versions_at_risk: u64,
    /// Client: bytes of contents that one server has and the home has not: kept here until it has.
    pub bytes_lent: u64,
    /// Client: versions that these bytes belong to.
    pub versions_lent: u64,
    /// Versions whose contents a child has and we do not.
    pub versions_missing: u64,
    /// The newest change of the view.
    pub commit: u64,
    /// Conflict reports open, as far as known here.
    pub conflicts_open: u64,
    /// Versions whose bytes nobody has: declared lost by the home, until somebody resolves the report, and (at a client)
    /// gone at their writer, which this is.
    pub versions_lost: u64,
    /// Requests that wait.
    pub requests_waiting: u64,
    /// Children with a live session.
    pub children: u64,
}

/// A record on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueItem {
    /// The record.
    pub record: Record,
    /// How far it is.
    pub facts: Facts,
    /// The file that it is about, if it is about one.
    pub file: Option<FileId>,
    /// The path of that file at present, if it has one that is known here.
    pub path: Option<String>,
    /// Bytes of the content it names.
    pub bytes: u64,
}

/// Contents on their way home, apart from their record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentWaiting {
    /// The version.
    pub version: RecordId,
    /// Its file.
    pub file: FileId,
    /// The path of that file at present, if it has one that is known here.
    pub path: Option<String>,
    /// Bytes of it.
    pub bytes: u64,
    /// Since when it waits, by the clocks of its writer and its servers, as near as is known: it may be longer. `None`: it is not known.
    pub since: Option<WallTime>,
    /// How far it is.
    pub facts: Facts,
    /// Bytes of it that the home has, as far as that was told.
    pub sent: u64,
    /// Whether its record is in the queue, too.
    pub is_queued: bool,
}

/// Contents that a server lacks, and somebody below it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentMissing {
    /// The version.
    pub version: RecordId,
    /// Its file.
    pub file: FileId,
    /// The path of that file at present, if it has one that is known here.
    pub path: Option<String>,
    /// Bytes of it.
    pub bytes: u64,
    /// Since when it waits, by the clocks of its writer and its servers, as near as is known: it may be longer. `None`: it is not known.
    pub since: Option<WallTime>,
    /// How far it is.
    pub facts: Facts,
    /// Who has it on record, and whether it has a session here: who is there before who is away.
    pub holders: Vec<(OriginId, bool)>,
}

/// A version whose bytes nobody has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostContent {
    /// The version; its origin is its writer.
    pub version: RecordId,
    /// Its file.
    pub file: FileId,
    /// The path of that file at present, if it has one that is known here.
    pub path: Option<String>,
    /// The home's report, by which `Resolve` takes it off the lists; `None`: the home has not decided yet.
    pub report: Option<RecordId>,
    /// When the home declared it lost, by the home's clock; or when its writer, which this is, noticed it.
    pub since: WallTime,
    /// The file shows the last content that is whole. If not, it cannot be read.
    pub shows_older: bool,
}

/// An open conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenConflict {
    /// What it is filed under; what `Resolve` names.
    pub id: RecordId,
    /// The report.
    pub conflict: Conflict,
}

/// A content that must stay in the chunk store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentInUse {
    /// Its file.
    pub file: FileId,
    /// Its version; `None`: a home keeps it in case that a newer one is lost.
    pub version: Option<RecordId>,
    /// The content.
    pub content: wayfs_types::Content,
    /// Whether this replica owes it to others: it must never be evicted. Else it is merely current.
    pub owed: bool,
}

/// One page of [`ContentInUse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentsPage {
    /// Contents of the view's files from after the file asked for, in order; on the first page those
    /// that are owed come before.
    pub contents: Vec<ContentInUse>,
    /// What to ask for the next page with; `None`: this was the last.
    pub next: Option<FileId>,
}
