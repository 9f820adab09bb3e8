//! Versions whose bytes are gone, and reports of it.

use serde::{Deserialize, Serialize};
use wayfs_types::{Conflict, Content, FileId, RecordId, WallTime};

/// A version that was declared lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) file: FileId,
    pub(crate) content: Content,
    /// The record that says so, and what stands in its place.
    pub(crate) report: RecordId,
    /// The file shows an older content since.
    pub(crate) is_replaced: bool,
    /// When it was written.
    pub(crate) mtime: WallTime,
}

/// A report of a loss that came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LossNews {
    pub(crate) file: FileId,
    /// The version whose bytes are lost.
    pub(crate) version: RecordId,
    /// The record that says so.
    pub(crate) report: RecordId,
    /// Whether an older content stands in its place.
    pub(crate) is_replaced: bool,
}

impl LossNews {
    pub(crate) fn of(id: RecordId, report: &Conflict) -> Self {
        Self { file: report.file, version: report.record, report: id, is_replaced: !report.is_bare_loss() }
    }
}

/// A version whose bytes are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vanished {
    pub(crate) file: FileId,
    pub(crate) content: Content,
    /// When that was noticed here, or heard.
    pub(crate) at: WallTime,
}
