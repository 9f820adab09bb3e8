//! What is shown of a file.

use wayfs_types::{FileId, RecordId};

/// What is told of a file, and of which version that is.
#[derive(Debug, Clone)]
pub(crate) struct Shown<T> {
    pub(crate) file: FileId,
    pub(crate) version: RecordId,
    pub(crate) what: T,
}
