//! What is asked for, and why it was not had.

use crate::contents::ContentsError;
use wayfs_types::{Digest, FileId, RecordId};

/// Why a chunk could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Whoever has it cannot be reached.
    #[error("whoever holds these contents cannot be reached")]
    Unreachable,
    /// Nothing of it came for too long.
    #[error("these contents did not come in time")]
    TimedOut,
    /// Nobody on record has it: an old version, perhaps.
    #[error("nobody holds these contents any more")]
    NotHeld,
    /// The local chunk store.
    #[error("{0}")]
    Local(#[from] ContentsError),
    /// A peer answered nonsense.
    #[error("the other side failed: {0}")]
    Refused(String),
}

/// A chunk, and what it is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) file: FileId,
    pub(crate) version: RecordId,
    pub(crate) digest: Digest,
}

pub(super) type Fetched = Result<(), FetchError>;
