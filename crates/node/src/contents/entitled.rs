//! Which chunks a member that works in a part of the volume may have.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use wayfs_types::Digest;

/// Names of chunks remembered for a session; then it begins anew.
const REMEMBERED_MAX: usize = 1 << 18;

/// The chunks that a member with a part was found to be entitled to.
#[derive(Debug, Default)]
pub(crate) struct Entitled(Mutex<BTreeSet<Digest>>);

impl Entitled {
    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(digest)
    }

    pub(super) fn add(&self, digests: impl Iterator<Item = Digest>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.extend(digests);
    }
}
