//! What was written to a file and is in no content yet.

use crate::ranges::RangeSet;
use std::ops::Range;

/// Writes that are in no content yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    /// What was written, holes that hide old bytes included.
    pub(crate) ranges: RangeSet,
    /// Smallest size that the file had meanwhile; `None` if it was never truncated.
    pub(crate) low_water: Option<u64>,
    /// All of it was written through handles that append (`O_APPEND`).
    pub(crate) is_appended: bool,
    /// Anything at all, be it only a time.
    pub(crate) is_any: bool,
}

impl Changes {
    /// All of a file that is `len` long.
    pub(crate) fn whole(len: u64) -> Self {
        Self { ranges: RangeSet::of(0..len), low_water: Some(0), is_any: true, is_appended: false }
    }

    /// All that was changed, with what came later, in a file that is `size` long now.
    pub(crate) fn followed_by(&self, later: &Self, size: u64) -> Self {
        let low_water = match (self.low_water, later.low_water) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let is_appended = self.is_appended && (later.is_appended || !later.is_any);
        let mut ranges = self.ranges.clone();
        ranges.remove(size..u64::MAX);
        ranges.absorb(&later.ranges, size);
        Self { ranges, low_water, is_any: true, is_appended }
    }

    /// Whether they are all of a file that is `len` long.
    pub(crate) fn are_whole(&self, len: u64) -> bool {
        self.is_any && self.ranges.contains(&(0..len))
    }

    pub(super) fn write(&mut self, range: Range<u64>) {
        self.ranges.insert(range);
        self.is_appended = false;
    }

    pub(super) fn cut(&mut self, size: u64) {
        self.ranges.remove(size..u64::MAX);
        self.low_water = Some(self.low_water.map_or(size, |low| low.min(size)));
        self.is_appended = false;
    }
}
