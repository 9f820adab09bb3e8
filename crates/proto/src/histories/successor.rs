//! Whose place a home took, and what is to be known before.

use serde::{Deserialize, Serialize};
use wayfs_types::{CommitNumber, NodeId, OriginId};

/// Whose place a home took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Succession {
    /// The origin of the former home; [`OriginId::GENESIS`] if none was known.
    pub origin: OriginId,
    /// Its key; `None` if none was known.
    pub node: Option<NodeId>,
    /// The newest change of this store then.
    pub at: CommitNumber,
    /// Records that the former home had not confirmed.
    pub tentative: u64,
}

/// What is to be known of a station before it takes its home's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prospect {
    /// It has taken over the whole state of the home at least once, and is not in the middle of doing so again.
    pub is_whole: bool,
    /// Records that the home has not confirmed, as far as this station knows: they become part of the order.
    pub tentative: u64,
    /// Versions whose contents clients below this station have and it does not, and their bytes.
    pub missing: u64,
    /// Their bytes.
    pub missing_bytes: u64,
}
