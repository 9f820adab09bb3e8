//! How far ahead of a program that reads in order its bytes are asked for.
//!
//! A read that has to wait asks for [`LEN_MIN`] beyond it. Who goes on in order is worth more: four times what it has read
//! so, up to what the line has under way. Nobody is asked twice for the same bytes while the reading goes on.

use std::ops::Range;

/// Bytes asked for beyond a read that had to wait: eight chunks of average length, enough to keep a path of 50 ms busy at 40 MB/s.
const LEN_MIN: u64 = 2 << 20;
/// Bytes asked for in proportion to those that were read in order.
const GROWTH: u64 = 4;
/// Distance from where the last read ended at which one still goes on from it: the kernel's own reading ahead comes out of order.
const SLACK: u64 = 1 << 20;
/// Part of what is asked for ahead that is asked for at once: not a question for each read.
const STEPS: u64 = 4;

/// The reading of one file.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Where the last read ended.
    end: u64,
    /// Bytes read in order up to there.
    run: u64,
    /// Where the bytes end that were asked for; 0: none were.
    asked: u64,
}

/// How far one may be ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Where the file ends.
    pub(super) size: u64,
    /// Bytes that the line has under way.
    pub(super) window: u64,
}

impl ReadAhead {
    /// Whether a read had to wait that others may go on from.
    pub(super) fn is_begun(&self) -> bool {
        self.asked > 0
    }

    /// A read that had to wait: which bytes are to be asked for.
    pub(super) fn waited(&mut self, read: &Range<u64>, limits: Limits) -> Range<u64> {
        self.note(read);
        if self.asked < read.end {
            self.asked = read.end;
        }
        self.next(limits)
    }

    /// A read that found its bytes here. Nothing is asked for unless it goes on from one that had to wait.
    pub(super) fn went_on(&mut self, read: &Range<u64>, limits: Limits) -> Range<u64> {
        self.note(read);
        if self.is_begun() { self.next(limits) } else { 0..0 }
    }

    fn note(&mut self, read: &Range<u64>) {
        if read.start.abs_diff(self.end) <= SLACK {
            self.run += read.end.saturating_sub(self.end);
            self.end = self.end.max(read.end);
        } else {
            *self = Self { end: read.end, run: 0, asked: 0 };
        }
    }

    fn next(&mut self, Limits { size, window }: Limits) -> Range<u64> {
        let len = (GROWTH * self.run).min(window).max(LEN_MIN);
        let until = self.end.saturating_add(len).min(size);
        let from = self.asked;
        let is_worth_it = until.saturating_sub(from) >= len / STEPS || until == size;
        if from >= until || !is_worth_it {
            return 0..0;
        }
        self.asked = until;
        from..until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SIZE: u64 = 1 << 30;
    /// Those of a wide line.
    const WIDE: Limits = Limits { size: SIZE, window: 16 * MIB };
    const READ: u64 = 128 << 10;

    /// Reads from the beginning in order, each read having to wait if `waits`; answers what was asked for.
    fn in_order(ahead: &mut ReadAhead, until: u64, limits: Limits) -> Vec<Range<u64>> {
        let reads = (0..until / READ).map(|read| read * READ..(read + 1) * READ);
        let asked = reads
            .enumerate()
            .map(|(number, read)| if number == 0 { ahead.waited(&read, limits) } else { ahead.went_on(&read, limits) });
        asked.filter(|range| !range.is_empty()).collect()
    }

    #[test]
    fn who_reads_in_order_is_ahead_by_what_the_line_has_under_way() {
        let mut ahead = ReadAhead::default();
        let asked = in_order(&mut ahead, 32 * MIB, WIDE);
        assert_eq!(asked[0], READ..READ + 2 * MIB);
        assert!(asked.windows(2).all(|pair| pair[0].end == pair[1].start), "once, and without a gap: {asked:?}");
        assert!(asked.last().unwrap().end >= (32 + 12) * MIB, "{asked:?}");
        assert!(asked.last().unwrap().end <= (32 + 16) * MIB, "{asked:?}");
        assert!(asked.len() < 20, "not a question for each read: {asked:?}");
    }

    #[test]
    fn a_thin_line_is_not_asked_for_more_than_before() {
        let mut ahead = ReadAhead::default();
        let asked = in_order(&mut ahead, 32 * MIB, Limits { window: 0, ..WIDE });
        assert!(asked.last().unwrap().end <= (32 + 2) * MIB, "{asked:?}");
    }

    #[test]
    fn who_reads_here_and_there_is_ahead_by_little_and_only_where_it_waited() {
        let mut ahead = ReadAhead::default();
        in_order(&mut ahead, 32 * MIB, WIDE);
        let far = 700 * MIB..700 * MIB + 4096;
        assert_eq!(ahead.went_on(&far, WIDE), 0..0);
        let back = 3 * MIB..3 * MIB + 4096;
        assert_eq!(ahead.waited(&back, WIDE), back.end..back.end + 2 * MIB);
    }

    #[test]
    fn what_is_asked_for_ends_with_the_file() {
        let mut ahead = ReadAhead::default();
        let short = Limits { size: MIB, ..WIDE };
        assert_eq!(ahead.waited(&(0..READ), short), READ..MIB);
        assert_eq!(ahead.went_on(&(READ..2 * READ), short), 0..0);
        assert_eq!(ahead.waited(&(MIB - 5..MIB), short), 0..0);
        assert_eq!(ahead.waited(&(2 * MIB..3 * MIB), short), 0..0, "past a file that was cut meanwhile");
    }

    #[test]
    fn reads_that_overtake_each_other_are_in_order() {
        let mut ahead = ReadAhead::default();
        ahead.waited(&(0..READ), WIDE);
        ahead.went_on(&(2 * READ..3 * READ), WIDE);
        ahead.went_on(&(READ..2 * READ), WIDE);
        let asked = in_order(&mut ahead, 8 * MIB, WIDE);
        assert!(asked.last().unwrap().end >= 20 * MIB, "{asked:?}");
    }
}
