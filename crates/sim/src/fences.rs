//! Which records a fence says do nothing: those that a member wrote and the home had not ordered when it was removed.

use std::collections::BTreeMap;
use wayfs_types::{Origin, OriginId, RecordId};

/// Members that were removed with a fence: each of their origins as the home had it then.
#[derive(Debug, Default)]
pub(crate) struct Fences(pub(crate) BTreeMap<OriginId, Origin>);

impl Fences {
    /// Whether a record is one of which a fence says that it does nothing.
    pub(crate) fn shut_out(&self, record: RecordId) -> bool {
        self.0.get(&record.origin()).is_some_and(|origin| !origin.has(record.sequence()))
    }

    /// Whether there are any.
    pub(crate) fn are_drawn(&self) -> bool {
        !self.0.is_empty()
    }
}
