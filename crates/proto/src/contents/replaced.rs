//! Versions whose place another one took.

use serde::{Deserialize, Serialize};
use wayfs_types::{Content, FileId, RecordId, Top, WallTime};

/// What a file held before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Previous {
    pub(crate) file: FileId,
    pub(crate) content: Content,
    pub(crate) mtime: WallTime,
}

/// A content that is not here either, and that a later one took the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Older {
    /// The record under which it is missing.
    pub(crate) record: RecordId,
    /// When it was written.
    pub(crate) mtime: WallTime,
}

/// What a file held before a record was applied.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(super) file: FileId,
    /// The last content that is whole here.
    pub(super) previous: Option<Previous>,
    /// A newer one, which is not.
    pub(super) older: Option<Older>,
}

/// A version that left the view of the home.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Superseded {
    pub(super) version: RecordId,
    pub(super) top: Top,
    /// The version that stands there now, if its contents come apart.
    pub(super) by: Option<RecordId>,
}

impl Superseded {
    /// `None`: its content was no tree, so nobody waits for it.
    pub(crate) fn new(version: RecordId, content: &Content, by: Option<RecordId>) -> Option<Self> {
        Some(Self { version, top: content.top()?, by })
    }
}
