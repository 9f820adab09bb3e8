//! Which bytes of a file an edit touched, tidied.

use crate::new_bytes::Sizes;
use std::ops::Range;

/// Sorts ranges, cuts them at `size`, drops empty ones and joins those that meet.
pub(crate) fn tidy(ranges: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> =
        ranges.iter().map(|range| range.start..range.end.min(size)).filter(|range| range.start < range.end).collect();
    sorted.sort_by_key(|range| range.start);
    let mut tidied: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match tidied.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            Some(_) | None => tidied.push(range),
        }
    }
    tidied
}

/// The ranges whose chunks must be cut again: what was written, and where the size changed.
///
/// The last chunk of a file ends where the file ends, not where its content says:
/// it is cut again whenever the end moves.
pub(crate) fn touched(dirty: &[Range<u64>], Sizes { old, new }: Sizes) -> Vec<Range<u64>> {
    let mut ranges = dirty.to_vec();
    if new > old {
        ranges.push(old.saturating_sub(1)..new);
    } else if new < old {
        ranges.push(new.saturating_sub(1)..new);
    }
    tidy(&ranges, new)
}
