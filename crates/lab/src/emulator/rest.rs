//! How much of a core a worker may take.
//!
//! A real-time thread that never sleeps starves what else is to run on its core; after a second the kernel takes the
//! core away from it for 50 ms, and every packet is late by so much. So a worker that was busy for too large a
//! share of the time rests for a moment now and then, and is late by that moment instead.

/// Share of the time that a worker leaves to others, in percent.
const REST_PERCENT: u64 = 30;
/// What a worker may owe before it rests: 10 ms without any sleep.
const DEBT_MAX: u64 = 10_000_000 * REST_PERCENT / 100;

/// What a worker owes to the others on its core, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Rest {
    debt: u64,
    /// When it was last counted.
    since: u64,
}

impl Rest {
    /// Counts: the worker goes to sleep at `begin` and is awake again at `end`, in nanoseconds of its clock.
    pub(super) fn count(&mut self, begin: u64, end: u64) {
        let (busy, slept) = (begin.saturating_sub(self.since), end.saturating_sub(begin));
        let owed = self.debt + busy * REST_PERCENT / 100;
        self.debt = owed.saturating_sub(slept * (100 - REST_PERCENT) / 100);
        self.since = end;
    }

    /// Whether the worker has to rest.
    pub(super) const fn is_due(&self) -> bool {
        self.debt > DEBT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_and_work_with_pauses_need_no_rest() {
        let mut rest = Rest::default();
        rest.count(9_000_000, 9_000_000);
        assert!(!rest.is_due());
        let mut rest = Rest::default();
        (0..10_000).for_each(|n| rest.count(n * 100_000 + 60_000, (n + 1) * 100_000));
        assert!(!rest.is_due());
    }

    #[test]
    fn a_busy_worker_rests_a_third_of_the_time() {
        let mut rest = Rest::default();
        let (mut now, mut rested) = (0_u64, 0);
        while now < 1_000_000_000 {
            let begin = now + 20_000;
            now = begin + if rest.is_due() { 60_000 } else { 0 };
            rested += now - begin;
            rest.count(begin, now);
        }
        let share = rested * 100 / now;
        assert!((28..=31).contains(&share), "{share} %");
    }
}
