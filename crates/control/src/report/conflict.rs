//! Conflicts.

use crate::path_text;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wayfs_types::ConflictKind;

/// One side of a conflict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideReport {
    /// Who wrote it, by label.
    pub by: String,
    /// Version, as `origin.sequence`.
    pub version: String,
    /// Where it is now, from the volume's root.
    #[serde(with = "path_text::optional", default)]
    pub path: Option<PathBuf>,
    /// Bytes.
    #[serde(default)]
    pub size_bytes: u64,
    /// Modified, by its writer's clock.
    #[serde(default)]
    pub modified_unix_ms: i64,
}

/// A conflict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictReport {
    /// The record under which it is filed, as `origin.sequence`.
    pub id: String,
    /// Volume name.
    pub volume: String,
    /// What met.
    pub kind: ConflictKind,
    /// Where it happened, from the volume's root.
    #[serde(with = "path_text::optional", default)]
    pub path: Option<PathBuf>,
    /// The side that kept the name.
    pub winner: SideReport,
    /// The side that lost or met.
    pub other: SideReport,
    /// When it was written, by its writer's clock.
    pub unix_ms: i64,
    /// What happened, one sentence.
    pub summary: String,
}

/// Open conflicts, oldest first.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictsReport {
    /// They.
    pub conflicts: Vec<ConflictReport>,
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiffReport {
    /// The side that kept the name.
    pub winner: SideReport,
    /// The other side.
    pub other: SideReport,
    /// A unified diff made by the daemon. `None`: both sides are files in the mount, and the tool compares them.
    #[serde(default)]
    pub text: Option<String>,
}

/// A conflict that was (or would be) settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolvedConflict {
    /// Which.
    pub id: String,
    /// Where.
    #[serde(with = "path_text::optional", default)]
    pub path: Option<PathBuf>,
    /// What is done, one sentence.
    pub action: String,
}

/// A conflict that could not be settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolveFailure {
    /// Which.
    pub id: String,
    /// Why not.
    pub reason: String,
}

/// What `resolve` did.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolveReport {
    /// Only said, not done.
    pub dry_run: bool,
    /// Settled.
    pub resolved: Vec<ResolvedConflict>,
    /// Not settled.
    #[serde(default)]
    pub failed: Vec<ResolveFailure>,
}
