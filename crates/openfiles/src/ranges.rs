//! Sets of byte ranges: what is present, what was written.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint, non-empty, never touching ranges of bytes, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start to end. Two entries never meet: they would have been joined.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// No bytes.
    pub const fn new() -> Self {
        Self { ranges: BTreeMap::new() }
    }

    /// One range, or nothing if it is empty.
    pub fn of(range: Range<u64>) -> Self {
        let mut set = Self::new();
        set.insert(range);
        set
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// Bytes in all ranges.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        // Sequential writes extend the last range: the common case takes one look.
        while let Some((&low, &high)) = self.ranges.range(..=end).next_back() {
            if high < start {
                break;
            }
            start = start.min(low);
            end = end.max(high);
            self.ranges.remove(&low);
        }
        self.ranges.insert(start, end);
    }

    /// Takes a range away.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        while let Some((&low, &high)) = self.ranges.range(..range.end).next_back() {
            if high <= range.start {
                break;
            }
            self.ranges.remove(&low);
            if high > range.end {
                self.ranges.insert(range.end, high);
            }
            if low < range.start {
                self.ranges.insert(low, range.start);
                break;
            }
        }
    }

    /// The first range that ends after a byte.
    pub fn following(&self, byte: u64) -> Option<Range<u64>> {
        let around = self.ranges.range(..=byte).next_back().filter(|(_, end)| **end > byte);
        around.or_else(|| self.ranges.range(byte..).next()).map(|(start, end)| *start..*end)
    }

    /// Whether every byte of a range is in the set.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        if range.start >= range.end {
            return true;
        }
        self.ranges.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// The parts of a range that are not in the set, in order.
    pub fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        if let Some((_, &end)) = self.ranges.range(..=at).next_back() {
            at = at.max(end);
        }
        for (&low, &high) in self.ranges.range(range.start..range.end.max(range.start)) {
            if low > at {
                gaps.push(at..low);
            }
            at = at.max(high);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// Adds all ranges of another set, cut at `size`.
    pub(crate) fn absorb(&mut self, other: &Self, size: u64) {
        for range in other.iter() {
            self.insert(range.start..range.end.min(size));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(Range<u64>),
        Remove(Range<u64>),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0u64..64, 0u64..16, any::<bool>()).prop_map(|(start, len, insert)| {
            let range = start..start + len;
            if insert { Step::Insert(range) } else { Step::Remove(range) }
        })
    }

    proptest! {
        #[test]
        fn a_range_set_is_a_set_of_bytes(steps in proptest::collection::vec(step(), 0..60), ask in 0u64..70, len in 0u64..20) {
            let mut set = RangeSet::new();
            let mut model = [false; 100];
            for step in steps {
                match step {
                    Step::Insert(range) => {
                        model[range.start as usize..range.end as usize].fill(true);
                        set.insert(range);
                    }
                    Step::Remove(range) => {
                        model[range.start as usize..range.end as usize].fill(false);
                        set.remove(range);
                    }
                }
                for (byte, is_in) in model.iter().enumerate() {
                    let byte = byte as u64;
                    prop_assert_eq!(set.contains(&(byte..byte + 1)), *is_in);
                }
                prop_assert_eq!(set.len(), model.iter().filter(|is_in| **is_in).count() as u64);
                let ends: Vec<_> = set.iter().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].end < pair[1].start), "joined: {:?}", ends);
            }
            let asked = ask..ask + len;
            let gaps = RangeSet { ranges: set.gaps(&asked).into_iter().map(|gap| (gap.start, gap.end)).collect() };
            for byte in asked.clone() {
                prop_assert_eq!(gaps.contains(&(byte..byte + 1)), !model[byte as usize]);
            }
            prop_assert_eq!(set.contains(&asked), gaps.is_empty());
            prop_assert_eq!(set.following(ask), set.iter().find(|range| range.end > ask));
        }
    }
}
