//! The gaps in the numbers of our own, as memory keeps them.

use std::collections::BTreeMap;

/// Last number before a gap, and the first after it.
pub(crate) type Gap = (u64, u64);

/// The gaps of the present origin.
#[derive(Debug, Default)]
pub(crate) struct Gaps(pub(super) BTreeMap<u64, u64>);

impl Gaps {
    pub(crate) fn insert(&mut self, (after, from): Gap) {
        self.0.insert(after, from);
    }

    pub(super) fn around(&self, sequence: u64) -> Option<Gap> {
        let (after, from) = self.0.range(..sequence).next_back()?;
        (sequence < *from).then_some((*after, *from))
    }
}
