//! What is asked for.

use wayfs_types::{Digest, FileId, RecordId};

/// A chunk or list node, and what it is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The file.
    pub file: FileId,
    /// The version of it.
    pub version: RecordId,
    /// The name of the chunk.
    pub digest: Digest,
}
