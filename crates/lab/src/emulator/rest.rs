//! How much of a core a worker may take.
//!
//! A real-time thread that never sleeps starves what else is to run on its core; after a second the kernel takes the
//! core away from it for 50 ms, and every packet is late by so much. So a worker that was busy for too large a
//! share of the time rests for a moment now and then, and is late by that moment instead.

use std::ops::Range;

/// Longest time without any sleep before a rest is due, in nanoseconds.
const AWAKE_MAX: u64 = 10_000_000;

/// Waits that are shorter gave nobody else the core: a look at devices without any sleep takes a microsecond or a few, and a worker
/// that spins does little else.
const SLEEP_MIN: u64 = 10_000;

/// What a worker owes to the others on its core, in nanoseconds.
#[derive(Debug)]
pub(super) struct Rest {
    /// Share of the time that it leaves to others, in percent.
    percent: u64,
    debt: u64,
    /// When it was last counted.
    since: u64,
}

impl Rest {
    /// Leaves a share of the time to others, in percent.
    pub(super) const fn leaving(percent: u64) -> Self {
        Self { percent, debt: 0, since: 0 }
    }

    /// Counts: the worker goes to sleep at the start and is awake again at the end, in nanoseconds of its clock.
    pub(super) fn count(&mut self, Range { start: begin, end }: Range<u64>) {
        let begin = if end.saturating_sub(begin) < SLEEP_MIN { end } else { begin };
        let (busy, slept) = (begin.saturating_sub(self.since), end.saturating_sub(begin));
        let owed = self.debt + busy * self.percent / 100;
        self.debt = owed.saturating_sub(slept * (100 - self.percent) / 100);
        self.since = end;
    }

    /// Whether the worker has to rest.
    pub(super) const fn is_due(&self) -> bool {
        self.debt > AWAKE_MAX * self.percent / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_and_work_with_pauses_need_no_rest() {
        let mut rest = Rest::leaving(30);
        rest.count(9_000_000..9_000_000);
        assert!(!rest.is_due());
        let mut rest = Rest::leaving(30);
        (0..10_000).for_each(|n| rest.count(n * 100_000 + 60_000..(n + 1) * 100_000));
        assert!(!rest.is_due());
    }

    #[test]
    fn a_worker_that_only_looks_rests_as_one_that_works() {
        let mut rest = Rest::leaving(30);
        (0..10_000).for_each(|n| rest.count(n * 2_000 + 500..(n + 1) * 2_000));
        assert!(rest.is_due());
    }

    #[test]
    fn a_busy_worker_rests_a_third_of_the_time() {
        let mut rest = Rest::leaving(30);
        let (mut now, mut rested) = (0_u64, 0);
        while now < 1_000_000_000 {
            let begin = now + 20_000;
            now = begin + if rest.is_due() { 60_000 } else { 0 };
            rested += now - begin;
            rest.count(begin..now);
        }
        let share = rested * 100 / now;
        assert!((28..=31).contains(&share), "{share} %");
    }
}
