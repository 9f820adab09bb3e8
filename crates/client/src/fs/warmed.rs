//! Which directories were fetched whole.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use wayfs_types::FileId;

/// Directories remembered as warmed; past it, all are forgotten and may be warmed again.
const WARMED_MAX: usize = 65_536;

/// Directories that were fetched, or are being fetched.
#[derive(Debug, Default)]
pub(super) struct Warmed(Mutex<BTreeSet<FileId>>);

impl Warmed {
    /// Whether this is the first time.
    pub(super) fn begin(&self, directory: FileId) -> bool {
        let mut warmed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warmed.len() >= WARMED_MAX {
            warmed.clear();
        }
        warmed.insert(directory)
    }

    /// It did not work out: another time.
    pub(super) fn forget(&self, directory: FileId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&directory);
    }
}
