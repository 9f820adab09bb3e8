//! How long a wait for contents goes on: as long as something comes.
//!
//! A thin line brings a chunk in a minute that a fast one brings in a millisecond, and what waits for it is well served by both. So a
//! wait ends for silence and not for time. Bytes that trickle for ever would hold a reader for ever, so that all in all it has an
//! end, too.

use std::time::Duration;
use wayfs_types::Time;

/// A wait ends after so many times its patience, whatever comes: an hour for a read of a mount. A chunk of 1 MiB gets through at
/// 2.4 kb/s; less is no line to read over.
const TIMES_MAX: u32 = 120;

/// A wait that is under way.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    silence_max: Duration,
    moved_at: Time,
    end_max: Time,
}

impl Patience {
    /// A wait that begins now and bears so much silence.
    pub fn new(silence_max: Duration, now: Time) -> Self {
        Self { silence_max, moved_at: now, end_max: now + silence_max.saturating_mul(TIMES_MAX) }
    }

    /// Something came.
    pub fn moved(&mut self, now: Time) {
        self.moved_at = now;
    }

    /// When it is over if nothing comes.
    pub fn end(&self) -> Time {
        (self.moved_at + self.silence_max).min(self.end_max)
    }

    /// How long it goes on if nothing comes.
    pub fn left(&self, now: Time) -> Duration {
        self.end().since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BEGIN: Time = Time::from_micros(7);

    #[test]
    fn silence_ends_a_wait_and_what_comes_prolongs_it() {
        let mut patience = Patience::new(SECOND * 30, BEGIN);
        assert_eq!(patience.left(BEGIN + SECOND * 29), SECOND);
        patience.moved(BEGIN + SECOND * 29);
        assert_eq!(patience.left(BEGIN + SECOND * 50), SECOND * 9);
        assert_eq!(patience.left(BEGIN + SECOND * 59), Duration::ZERO);
    }

    #[test]
    fn bytes_that_trickle_for_ever_end_it_as_well() {
        let mut patience = Patience::new(SECOND * 30, BEGIN);
        let mut now = BEGIN;
        while patience.left(now) > Duration::ZERO {
            assert!(now < BEGIN + SECOND * 3600, "it went on for more than an hour");
            now = now + SECOND * 10;
            patience.moved(now);
        }
    }
}
