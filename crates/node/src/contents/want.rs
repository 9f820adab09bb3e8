//! What is asked for, and why it was not had.

use crate::contents::ContentsError;
pub(crate) use wayfs_transfer::Want;
use wayfs_transfer::search::Failure;

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

impl FetchError {
    /// What a failure is called for whoever waits, if this was told of it.
    pub(super) fn of(failure: Failure, told: Option<&Self>) -> Self {
        match failure {
            Failure::NotHeld => Self::NotHeld,
            Failure::Unreachable => Self::Unreachable,
            Failure::TimedOut => Self::TimedOut,
            Failure::Refused | Failure::Local => told.expect("a refusal is told with its reason").clone(),
        }
    }
}

pub(super) type Fetched = Result<(), FetchError>;
