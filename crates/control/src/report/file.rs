//! Single files, the queue of what is under way, pins.

use super::LedgerReport;
use crate::path_text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use wayfs_types::Fact;
use wayfs_types::request::Level;

/// What a daemon knows of a fact.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// It holds.
    Yes,
    /// It does not hold yet.
    No,
    /// This daemon cannot tell.
    #[default]
    Unknown,
}

impl From<Fact> for Known {
    fn from(fact: Fact) -> Self {
        match fact {
            Fact::Holds(_) => Self::Yes,
            Fact::No => Self::No,
            Fact::Unknown => Self::Unknown,
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "not yet",
            Self::Unknown => "unknown here",
        })
    }
}

/// That bytes of a file are lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostReport {
    /// The version whose bytes are lost, as `origin.sequence`.
    pub version: String,
    /// Who wrote it, by label.
    #[serde(default)]
    pub by: Option<String>,
    /// Milliseconds since 1970 at which the home declared it lost.
    #[serde(default)]
    pub declared_unix_ms: Option<i64>,
    /// The file shows the last content that is whole. If not, reading it fails.
    pub shows_older: bool,
}

/// All about one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Path from the volume's root.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// Volume name.
    pub volume: String,
    /// Inode number.
    pub inode: u64,
    /// `file`, `directory`, `symlink`, …
    pub kind: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Version of the content, as `origin.sequence`.
    pub version: String,
    /// Who wrote that version, by label.
    #[serde(default)]
    pub written_by: Option<String>,
    /// The furthest level of which all facts are known to hold.
    pub state: Level,
    /// Whether record and all contents are durable at a server.
    pub safe: Known,
    /// The server that said so, by label; `None`: not known.
    #[serde(default)]
    pub safe_at: Option<String>,
    /// Since when it is safe, as far as this daemon saw it.
    #[serde(default)]
    pub safe_unix_ms: Option<i64>,
    /// Whether the home knows it.
    pub visible: Known,
    /// Since when the home knows it.
    #[serde(default)]
    pub visible_unix_ms: Option<i64>,
    /// Whether the home has record and contents.
    pub stable: Known,
    /// Since when the home has its contents.
    #[serde(default)]
    pub stable_unix_ms: Option<i64>,
    /// Clients: whose word *visible* and *stable* are: `home` over a session with it, else `station`; empty: nobody is connected.
    #[serde(default)]
    pub told_by: String,
    /// Clients: how old the home's own signed word is that it was there; `None`: none came since the mount began.
    #[serde(default)]
    pub home_word_age_ms: Option<u64>,
    /// That nobody has the bytes of its newest version; `None`: nothing of it is lost, as far as is known here.
    #[serde(default)]
    pub lost: Option<LostReport>,
    /// Why it is not further; empty when stable.
    #[serde(default)]
    pub waiting_for: String,
    /// Who has the contents, by label or as `here`, `parent`.
    #[serde(default)]
    pub holders: Vec<String>,
    /// Bytes of it in the local cache.
    pub cached_bytes: u64,
    /// Whether a pin keeps it.
    #[serde(default)]
    pub pinned: bool,
    /// Whether it is, or stands in, a directory in which the home decides at once.
    #[serde(default)]
    pub exclusive: bool,
    /// Open conflicts that it takes part in.
    #[serde(default)]
    pub conflicts: Vec<String>,
}

/// Something that has not come all the way yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueItem {
    /// Path from the volume's root, if the file still has one.
    #[serde(with = "path_text::optional", default)]
    pub path: Option<PathBuf>,
    /// Volume name.
    pub volume: String,
    /// The record, as `origin.sequence`.
    pub record: String,
    /// What it does (`store`, `create`, `rename`, …).
    pub operation: String,
    /// Bytes of contents it names.
    pub size_bytes: u64,
    /// Bytes of them that the parent has.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Milliseconds since it was written.
    pub age_ms: u64,
    /// The furthest level of which all facts hold.
    pub state: Level,
    /// Whether record and all contents are durable at a server.
    #[serde(default)]
    pub safe: Known,
    /// Whether the home knows it.
    #[serde(default)]
    pub visible: Known,
    /// Whether the home has record and contents.
    #[serde(default)]
    pub stable: Known,
    /// Whether it has not moved for longer than it should.
    #[serde(default)]
    pub stuck: bool,
    /// Why it waits; empty when it is on its way.
    #[serde(default)]
    pub reason: String,
}

/// The queue, oldest first.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueReport {
    /// The oldest items, as many as were asked for.
    pub items: Vec<QueueItem>,
    /// How many there are.
    pub items_total: u64,
    /// Bytes that have not come all the way: those of [`LedgerReport::home_lacks`].
    pub bytes_total: u64,
    /// The same as `status` shows.
    #[serde(default)]
    pub ledger: LedgerReport,
    /// Versions whose bytes nobody has any more, as `status` shows them: they wait for nothing, and are nowhere.
    #[serde(default)]
    pub versions_lost: u64,
}

/// How a `refresh` ended: well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefreshReport {
    /// The volume's name.
    pub volume: String,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// The path asked for, if it is there now.
    #[serde(with = "path_text::optional", default)]
    pub path: Option<PathBuf>,
}

/// How a `sync` ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncReport {
    /// Whether it is true: exit code 0 or 1.
    pub reached: bool,
    /// What was waited for.
    pub until: Level,
    /// Items not so far.
    #[serde(default)]
    pub remaining_items: u64,
    /// Bytes not so far.
    #[serde(default)]
    pub remaining_bytes: u64,
    /// Versions whose bytes nobody has and that nobody took off the list of conflicts, of what is waited for: at a mount, without a path
    /// or for a user who asks, those that were written there; else everybody's.
    #[serde(default)]
    pub lost: u64,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// Why not; empty when reached.
    #[serde(default)]
    pub reason: String,
}

/// A pinned tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PinReport {
    /// Path from the volume's root.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// Files at and below it.
    pub files: u64,
    /// Their bytes.
    pub total_bytes: u64,
    /// Bytes of them in the cache.
    pub cached_bytes: u64,
}

/// What is pinned.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct PinsReport {
    /// In order of path.
    pub pins: Vec<PinReport>,
}

/// How an unmount ended.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct UmountReport {
    /// Records that nobody else has yet; they wait in the durable log for the next mount.
    pub unsent_records: u64,
    /// Bytes that nobody else has yet.
    pub unsent_bytes: u64,
}
