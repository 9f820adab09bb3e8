//! The application that reads on the mobile, as slow as its machine.
//!
//! It sleeps until something is there, wakes up a moment later, and takes a segment at a time until nothing is left. That matters
//! because a window that moves while duplicate acknowledgements come makes them no duplicates to 4.4BSD (`tcp_input` counts only
//! those that advertise the same window as the one before): the slower the reader, the more losses wait for the timer.

use std::time::Duration;
use wayfs_types::Time;

/// An application that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reader {
    /// From the arrival of something to read until it reads.
    pub(crate) wakes_after: Duration,
    /// What it does with each segment takes so long.
    pub(crate) per_segment: Duration,
}

impl Reader {
    /// The laptop of 1996, whose clock ticked each 10 ms. Not published: found by the two columns of the LAN. (Awake at once and 6 ms
    /// bring sockets of 32 KB to the published numbers and leave those of 8 KB half as much too good; 30 ms and nothing per segment do the
    /// opposite.)
    pub(crate) const SLOW: Self =
        Self { wakes_after: Duration::from_millis(25), per_segment: Duration::from_millis(5) };

    /// A machine of today.
    pub(crate) const FAST: Self = Self { wakes_after: Duration::ZERO, per_segment: Duration::ZERO };
}

/// It at work.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// When it reads next, or sleeps again if there is nothing.
    next: Option<Time>,
}

impl Reading {
    /// Whether it reads a segment now.
    pub(crate) fn is_due(&mut self, reader: &Reader, now: Time, readable: u32) -> bool {
        if self.next.is_some_and(|at| at <= now) && readable == 0 {
            self.next = None;
        }
        if readable > 0 && self.next.is_none() {
            self.next = Some(now + reader.wakes_after);
        }
        readable > 0 && self.next.is_some_and(|at| at <= now)
    }

    /// It has read one, and so much is left.
    pub(crate) fn was_read(&mut self, reader: &Reader, now: Time, readable: u32) {
        let awake = readable > 0 || !reader.per_segment.is_zero();
        self.next = awake.then(|| now + reader.per_segment);
    }

    /// When it does something next by itself.
    pub(crate) const fn next(&self) -> Option<Time> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Time {
        Time::from_micros(milliseconds * 1000)
    }

    #[test]
    fn it_wakes_up_takes_a_segment_at_a_time_and_sleeps_when_nothing_is_left() {
        let reader = Reader { wakes_after: Duration::from_millis(10), per_segment: Duration::from_millis(6) };
        let mut reading = Reading::default();
        assert!(!reading.is_due(&reader, ms(0), 0) && reading.next().is_none());
        assert!(!reading.is_due(&reader, ms(5), 2800));
        assert_eq!(reading.next(), Some(ms(15)));
        assert!(reading.is_due(&reader, ms(15), 2800));
        reading.was_read(&reader, ms(15), 1400);
        assert!(!reading.is_due(&reader, ms(20), 1400) && reading.is_due(&reader, ms(21), 1400));
        reading.was_read(&reader, ms(21), 0);
        // It is through with that one at 27, and sleeps then.
        assert!(!reading.is_due(&reader, ms(27), 0) && reading.next().is_none());
        assert!(!reading.is_due(&reader, ms(28), 100) && reading.next() == Some(ms(38)));
    }

    #[test]
    fn a_fast_one_reads_everything_at_once() {
        let mut reading = Reading::default();
        assert!(reading.is_due(&Reader::FAST, ms(1), 10));
        reading.was_read(&Reader::FAST, ms(1), 0);
        assert!(reading.next().is_none() && reading.is_due(&Reader::FAST, ms(1), 10));
    }
}
