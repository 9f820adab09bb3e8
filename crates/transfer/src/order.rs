//! A content that is to be at the parent.

use wayfs_types::{Content, FileId, RecordId};

/// A content that the engine wants at the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order<P> {
    /// The session with the parent: in the next one the engine orders anew.
    pub peer: P,
    /// The file.
    pub file: FileId,
    /// The version of it.
    pub version: RecordId,
    /// What that holds.
    pub content: Content,
}

/// Which push: one version in one session is pushed once at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PushId<P> {
    /// The session.
    pub peer: P,
    /// The version.
    pub version: RecordId,
}

impl<P: Copy> Order<P> {
    /// Its name.
    pub fn id(&self) -> PushId<P> {
        PushId { peer: self.peer, version: self.version }
    }
}
