//! How fast a scrub goes: a pass is to take a period, and never more than a small share of one disk and one core.

use std::time::Duration;

/// For each second of reading so many of rest: a twentieth of one disk and one core, whatever the period asks for. A store
/// that is too large for that takes longer than a period.
const REST_FACTOR: u32 = 19;
/// Rest is taken in pieces of at least this: a machine that sleeps is not woken for every chunk.
const REST_MIN: Duration = Duration::from_secs(1);
/// And of at most this: a store that grows meanwhile is read faster.
const REST_MAX: Duration = Duration::from_secs(3600);

/// What was read of a store, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portion {
    pub(crate) bytes: u64,
    /// All that it has.
    pub(crate) of: u64,
}

/// Rest that a pass owes the machine.
#[derive(Debug)]
pub(crate) struct Pace {
    period: Duration,
    owed: Duration,
}

impl Pace {
    pub(crate) const fn new(period: Duration) -> Self {
        Self { period, owed: Duration::ZERO }
    }

    /// A part of the store was read, and it took so long. Answers a rest that is due.
    pub(crate) fn rest_after(&mut self, Portion { bytes, of }: Portion, took: Duration) -> Option<Duration> {
        let part = bytes as f64 / of.max(bytes).max(1) as f64;
        self.owed += self.period.mul_f64(part).max(took * REST_FACTOR);
        let is_due = self.owed >= REST_MIN.min(self.period);
        is_due.then(|| std::mem::take(&mut self.owed).min(REST_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// Reads a store in chunks; how much rest it took in all, and in how many pieces.
    fn rests(period: Duration, chunk: u64, chunks: u64, took: Duration) -> (Duration, u32) {
        let mut pace = Pace::new(period);
        let rests = (0..chunks).filter_map(|_| pace.rest_after(Portion { bytes: chunk, of: chunk * chunks }, took));
        rests.fold((Duration::ZERO, 0), |(sum, count), rest| (sum + rest, count + 1))
    }

    #[test]
    fn a_pass_takes_a_period() {
        let (rest, _) = rests(30 * DAY, 1 << 16, 100_000, Duration::from_micros(50));
        assert!(rest > 29 * DAY && rest <= 30 * DAY, "{rest:?}");
    }

    #[test]
    fn a_store_that_is_too_large_takes_longer_than_a_period_and_not_more_of_the_machine() {
        let took = Duration::from_millis(10);
        let (rest, _) = rests(DAY, 1 << 20, 1_000_000, took);
        assert!(rest >= took * 1_000_000 * 18, "{rest:?}");
    }

    #[test]
    fn small_chunks_do_not_wake_the_machine_one_by_one() {
        let (_, count) = rests(Duration::from_secs(100), 4096, 10_000, Duration::from_micros(10));
        assert!(count <= 100, "{count}");
    }

    #[test]
    fn a_rest_ends_within_the_hour_however_small_the_store() {
        let mut pace = Pace::new(30 * DAY);
        assert_eq!(pace.rest_after(Portion { bytes: 4096, of: 4096 }, Duration::ZERO), Some(REST_MAX));
    }
}
