//! Where two contents differ, by the names of their pieces.

use crate::error::ContentError;
use crate::limits::DEPTH_MAX;
use crate::reader::ContentReader;
use std::ops::Range;

/// The ranges of a new content whose pieces do not stand at the same place in an old one, in order. What follows an
/// insertion or removal counts as changed: its place is another.
///
/// Costs what changed: nodes that both have at one place are not opened.
///
/// # Errors
/// [`ContentError::MissingNode`] and [`ContentError::BadNode`], of either.
pub fn changed_ranges(old: &ContentReader<'_>, new: &ContentReader<'_>) -> Result<Vec<Range<u64>>, ContentError> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < new.size() {
        if let Some(end) = same_until(old, new, at)? {
            at = end;
            continue;
        }
        let Some(chunk) = new.locate(0, at)? else { break };
        let end = chunk.end();
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end = end,
            Some(_) | None => ranges.push(at..end),
        }
        at = end;
    }
    Ok(ranges)
}

/// Where the largest piece ends that both have at a place.
fn same_until(old: &ContentReader<'_>, new: &ContentReader<'_>, at: u64) -> Result<Option<u64>, ContentError> {
    for level in (0..=DEPTH_MAX).rev() {
        if let Some(piece) = new.locate(level, at)?
            && piece.offset == at
            && old.locate(level, at)? == Some(piece)
        {
            return Ok(Some(piece.end()));
        }
    }
    Ok(None)
}
