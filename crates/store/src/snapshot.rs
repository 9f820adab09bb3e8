//! The tables as they were at one moment, read while the store goes on.

use crate::chain::{END_PREFIX, TABLE_PREFIX};
use crate::checked_value;
use crate::disk_meta::read_error;
use fjall::{Keyspace, Readable, Snapshot};
use wayfs_types::StorageError;

/// All rows of a store after one of its batches.
///
/// Holds back the engine's clean-up of old rows while it lives, so it is dropped as soon as it is read.
pub struct MetaSnapshot {
    pub(crate) snapshot: Snapshot,
    pub(crate) tables: Keyspace,
}

impl MetaSnapshot {
    /// Every row, checked, in order of key.
    pub fn rows(&self) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>> {
        self.snapshot.range(&self.tables, [TABLE_PREFIX]..[END_PREFIX]).map(|guard| {
            let (key, sealed) = guard.into_inner().map_err(read_error)?;
            let value = checked_value::open(&key, &sealed)?.to_vec();
            Ok((key.get(1..).unwrap_or_default().to_vec(), value))
        })
    }
}

impl std::fmt::Debug for MetaSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetaSnapshot").finish_non_exhaustive()
    }
}
