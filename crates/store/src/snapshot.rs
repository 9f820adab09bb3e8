//! The tables as they were at one moment, read while the store goes on.

use crate::chain::{END_PREFIX, TABLE_PREFIX};
use crate::index::{Hold, Index};
use crate::stored::pair;
use std::sync::Arc;
use wayfs_types::StorageError;

/// All rows of a store after one of its batches.
///
/// Holds back the clean-up of old rows while it lives, so it is dropped as soon as it is read.
pub struct MetaSnapshot(Hold);

impl MetaSnapshot {
    pub(crate) fn new(index: &Arc<Index>) -> Self {
        Self(index.hold())
    }

    /// Every row, checked, in order of key.
    pub fn rows(&self) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>> {
        self.0.range(vec![TABLE_PREFIX]..vec![END_PREFIX]).map(pair)
    }
}

impl std::fmt::Debug for MetaSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetaSnapshot").finish_non_exhaustive()
    }
}
