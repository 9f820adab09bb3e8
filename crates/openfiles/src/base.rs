//! The version of a file that its uncommitted bytes lie over.

use super::contents::Wanted;
use serde::{Deserialize, Serialize};
use wayfs_types::{Content, Digest, FileId, RecordId};

/// A version of a file whose bytes are to be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The file.
    pub file: FileId,
    /// The version.
    pub version: RecordId,
    /// What it holds.
    pub content: Content,
    /// Whose content that is, if not the version's own.
    pub lender: Option<Lender>,
}

/// Whose content a file has taken for its base, until it has a record of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lender {
    /// The file.
    pub file: FileId,
    /// The version that was copied.
    pub version: RecordId,
    /// What the borrower's own base version holds.
    pub own: Content,
}

impl Base {
    /// Chunks of it as others know them.
    pub(super) fn wanted(&self, digests: Vec<Digest>) -> Wanted {
        let (file, version) = match &self.lender {
            Some(lender) => (lender.file, lender.version),
            None => (self.file, self.version),
        };
        Wanted { file, version, digests }
    }

    /// What the version of the file that it is built upon holds.
    pub(super) fn own_content(&self) -> &Content {
        self.lender.as_ref().map_or(&self.content, |lender| &lender.own)
    }
}
