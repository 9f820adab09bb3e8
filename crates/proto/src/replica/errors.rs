//! Why a replica cannot be opened, why an origin cannot be granted, and why an input had no effect.

use crate::api::PeerId;
use wayfs_types::StorageError;

/// Why a replica cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The store holds another volume, origin or role than the settings say.
    #[error("this store belongs to {0}: open it with the settings it was made with")]
    Foreign(String),
}

/// Why an origin cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Only the home grants.
    #[error("only the home of a volume admits to it")]
    NotHome,
    /// All 8,388,607 are taken.
    #[error("no origin is left to grant")]
    Exhausted,
    /// The label is empty, longer than 64 bytes, or holds `/` or control characters.
    #[error("a label is 1 to 64 bytes of printable text without a slash")]
    Label,
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why an input had no effect.
#[derive(Debug)]
pub(crate) enum StepError {
    /// The store failed.
    Storage(StorageError),
    /// The peer broke the protocol.
    Peer(PeerId, String),
}

impl From<StorageError> for StepError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
