//! Volumes, tickets, members.

use crate::report::VolumeRole;
use serde::{Deserialize, Serialize};

/// A volume at a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeReport {
    /// Volume id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What this server is in it.
    pub role: VolumeRole,
    /// Members admitted and not revoked.
    pub members: u64,
    /// Bytes in its chunk store.
    pub stored_bytes: u64,
    /// When this server got it.
    #[serde(default)]
    pub created_unix_ms: Option<i64>,
}

/// Volumes in order of name.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumesReport {
    /// They.
    pub volumes: Vec<VolumeReport>,
}

/// A fresh ticket. A secret: whoever has it first may join.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketReport {
    /// The ticket's text.
    pub ticket: String,
    /// Volume name.
    pub volume: String,
    /// What it admits (`client`, `station`, `reader`).
    pub role: crate::TicketRole,
    /// Until when.
    pub expires_unix_ms: i64,
}

impl std::fmt::Debug for TicketReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A ticket in a log would be a key under the doormat.
        f.debug_struct("TicketReport").field("volume", &self.volume).field("role", &self.role).finish_non_exhaustive()
    }
}

/// A member of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its origin number.
    pub origin: u32,
    /// `USER@HOST`.
    pub label: String,
    /// Node id: its public key, whole.
    pub node: String,
    /// `home`, `station`, `client`, `reader` (a client that may only read) or `revoked`.
    pub role: String,
    /// Records of it that took effect.
    pub records_applied: u64,
    /// Whether it has a session here.
    #[serde(default)]
    pub connected: bool,
    /// When it was last heard here.
    #[serde(default)]
    pub seen_unix_ms: Option<i64>,
    /// What it may do less than others.
    #[serde(default)]
    pub limits: crate::TicketLimits,
    /// What it takes up, and may.
    #[serde(default)]
    pub usage: UsageReport,
}

/// What is taken up of a volume, and what may be.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// Bytes of contents.
    pub bytes: u64,
    /// Files, directories and everything else that has a name.
    pub files: u64,
    /// Bytes that may be used; `None`: no quota.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// Files that may be there.
    #[serde(default)]
    pub files_max: Option<u64>,
}

/// Members in order of origin.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct MembersReport {
    /// They.
    pub members: Vec<MemberReport>,
    /// All together.
    #[serde(default)]
    pub usage: UsageReport,
}

/// What deleting a volume takes away.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteReport {
    /// Volume name.
    pub name: String,
    /// Volume id.
    pub id: String,
    /// Files, directories not counted.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Who was admitted and not revoked, the home included.
    pub members: Vec<MemberReport>,
    /// Whether it was deleted, or only looked at.
    pub deleted: bool,
}

/// What a station has, and what is missing when it takes the place of its home.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromoteReport {
    /// Volume name.
    pub name: String,
    /// Volume id.
    pub id: String,
    /// Whether it has all metadata that the home had told it, and is not in the middle of taking it over.
    pub is_whole: bool,
    /// Records that the home had not confirmed, as far as is known here; they become part of the order.
    pub unconfirmed_records: u64,
    /// Files whose contents do not lie here whole.
    pub missing_files: u64,
    /// Their bytes.
    pub missing_bytes: u64,
    /// The first thousand of them, by path.
    pub missing_paths: Vec<String>,
    /// Whether it is the home now, or was only looked at.
    pub promoted: bool,
    /// What to do next; empty if it was only looked at.
    #[serde(default)]
    pub next_steps: Vec<String>,
}

/// Contents that only machines have which are away, and that are given up.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUpReport {
    /// Volume name.
    pub volume: String,
    /// Whether they are declared lost, or were only looked at.
    pub declared: bool,
    /// One for each version.
    pub contents: Vec<GivenUpContent>,
    /// Versions that are not declared lost after all: somebody who was asked has them, there was no room for them here, or not everybody
    /// was asked within a minute.
    #[serde(default)]
    pub left: usize,
}

/// One version that is given up.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUpContent {
    /// Path of its file from the volume's root; `None`: the file was removed or replaced.
    pub path: Option<String>,
    /// The version, as `origin.sequence`.
    pub version: String,
    /// Bytes.
    pub bytes: u64,
    /// Machines that may have it, by label.
    pub waits_for: Vec<String>,
    /// The last whole content of the file takes its place. If not, the file cannot be read.
    pub has_older: bool,
}

/// What an import or export copied.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReport {
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes.
    pub bytes: u64,
    /// What was left out, and why, one line each; at most 1000.
    #[serde(default)]
    pub skipped: Vec<String>,
}

/// What a backup holds.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// Volume name.
    pub volume: String,
    /// When the tables were read: changes from then on are not in it.
    pub made_unix_ms: i64,
    /// Chunks of contents in it, and their bytes.
    pub chunks: u64,
    /// Their bytes.
    pub chunk_bytes: u64,
    /// Chunks that were not there from an earlier backup.
    pub written_chunks: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Chunks of an earlier backup that nothing needs any more.
    pub removed_chunks: u64,
    /// Chunks that are damaged at the home; they are not in it.
    pub damaged_chunks: u64,
    /// Versions whose contents the home does not have: stations or clients hold them.
    pub versions_missing: u64,
}

/// What was restored from a backup.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// Volume name.
    pub volume: String,
    /// Volume id.
    pub id: String,
    /// When the backup was made.
    pub made_unix_ms: i64,
    /// Rows of the replica's tables.
    pub rows: u64,
    /// Chunks of contents.
    pub chunks: u64,
    /// Their bytes.
    pub chunk_bytes: u64,
    /// Chunks that the backup should hold and that are damaged or missing in it.
    pub damaged_chunks: u64,
    /// Versions whose contents the home did not have when the backup was made.
    pub versions_missing: u64,
}
