//! How long a wait for contents goes on: as long as something comes.
//!
//! A thin line brings a chunk in a minute that a fast one brings in a millisecond, and what waits for it is well served by both. So a
//! wait ends for silence and not for time. Bytes that trickle for ever would hold a reader for ever, so that all in all it has an
//! end, too.

use std::time::{Duration, Instant};

/// A wait ends after so many times its patience, whatever comes: an hour for a read of a mount. A chunk of 1 MiB gets through at
/// 2.4 kb/s; less is no line to read over.
const TIMES_MAX: u32 = 120;

/// A wait that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    silence_max: Duration,
    moved_at: Instant,
    end_max: Instant,
}

impl Patience {
    /// A wait that begins now and bears so much silence.
    pub(crate) fn new(silence_max: Duration, now: Instant) -> Self {
        Self { silence_max, moved_at: now, end_max: now + silence_max.saturating_mul(TIMES_MAX) }
    }

    /// Something came.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// When it is over if nothing comes.
    pub(crate) fn end(&self) -> Instant {
        (self.moved_at + self.silence_max).min(self.end_max)
    }

    /// How long it goes on if nothing comes.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.end().saturating_duration_since(now)
    }

    /// How long nothing came.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.moved_at)
    }
}

/// Somebody's wait for a chunk, and who else is to know that it moves.
pub(crate) struct Wait<'a> {
    pub(crate) patience: Patience,
    told: &'a (dyn Fn() + Sync),
    has_moved: bool,
}

impl<'a> Wait<'a> {
    /// A wait that bears so much silence; `told` is called whenever something came.
    pub(crate) fn new(silence_max: Duration, told: &'a (dyn Fn() + Sync)) -> Self {
        Self { patience: Patience::new(silence_max, Instant::now()), told, has_moved: false }
    }

    /// A wait on the same behalf that bears half of the silence that is left.
    pub(crate) fn of_half(&self) -> Self {
        Self::new(self.left() / 2, self.told)
    }

    /// Whether something came since it began.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Something came.
    pub(crate) fn moved(&mut self) {
        self.has_moved = true;
        self.patience.moved(Instant::now());
        (self.told)();
    }

    /// How long it goes on if nothing comes.
    pub(crate) fn left(&self) -> Duration {
        self.patience.left(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_ends_a_wait_and_what_comes_prolongs_it() {
        let begin = Instant::now();
        let mut patience = Patience::new(SECOND * 30, begin);
        assert_eq!(patience.left(begin + SECOND * 29), SECOND);
        patience.moved(begin + SECOND * 29);
        assert_eq!(patience.left(begin + SECOND * 50), SECOND * 9);
        assert_eq!(patience.silence(begin + SECOND * 50), SECOND * 21);
        assert_eq!(patience.left(begin + SECOND * 59), Duration::ZERO);
    }

    #[test]
    fn bytes_that_trickle_for_ever_end_it_as_well() {
        let begin = Instant::now();
        let mut patience = Patience::new(SECOND * 30, begin);
        let mut now = begin;
        while patience.left(now) > Duration::ZERO {
            assert!(now < begin + SECOND * 3600, "it went on for more than an hour");
            now += SECOND * 10;
            patience.moved(now);
        }
    }
}
