//! What applying a record did.

use wayfs_types::{ConflictKind, FileId, RecordId};

/// How a record met the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done as its writer meant it.
    AsMeant,
    /// The same had been done before by another (equal contents, one directory made twice): nothing is lost, nothing reported.
    Merged,
    /// It met another update; there is a report under `Key::Conflict(record)`. The tree may or may not have changed.
    Conflict(ConflictKind),
    /// Nothing to do and nothing lost: what it was about is gone or already so.
    NoEffect,
    /// This record (or a later one of its origin) took effect before; nothing was touched.
    Duplicate,
}

/// Where a record's content ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The file that holds it: the one named, or the conflict copy.
    pub file: FileId,
    /// The version under which it does. Not the record's own id if an equal content was there already.
    pub version: RecordId,
}

/// What applying a record did. Keys that changed are known to whoever implements [`crate::ViewMut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// How it went.
    pub outcome: Outcome,
    /// The file that it was about, after aliases and conflict copies were followed.
    pub file: Option<FileId>,
    /// For a create with content and for a store: where that content is.
    pub stored: Option<Stored>,
    /// A file that lost its last name.
    pub removed: Option<FileId>,
    /// A file that was made: new, or a conflict copy.
    pub made: Option<FileId>,
}

impl Effect {
    pub(crate) const fn new(outcome: Outcome) -> Self {
        Self { outcome, file: None, stored: None, removed: None, made: None }
    }

    pub(crate) const fn on(outcome: Outcome, file: FileId) -> Self {
        Self { outcome, file: Some(file), stored: None, removed: None, made: None }
    }

    pub(crate) const fn making(mut self, file: FileId) -> Self {
        self.made = Some(file);
        self
    }

    pub(crate) const fn removing(mut self, file: Option<FileId>) -> Self {
        self.removed = file;
        self
    }

    pub(crate) const fn storing(mut self, file: FileId, version: RecordId) -> Self {
        self.stored = Some(Stored { file, version });
        self
    }

    /// The kind of conflict that it met, if it did.
    pub const fn conflict(&self) -> Option<ConflictKind> {
        match self.outcome {
            Outcome::Conflict(kind) => Some(kind),
            Outcome::AsMeant | Outcome::Merged | Outcome::NoEffect | Outcome::Duplicate => None,
        }
    }
}
