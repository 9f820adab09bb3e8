//! How long the machine rests between attempts.

use std::time::Duration;
use wayfs_types::Time;

/// First pause after a lost session.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause: what a user who comes back online waits at most.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A refused machine tries again so often: it may be admitted again.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_secs(15);
/// First pause between two looks at servers that are no parent for us, while none that is one can be reached.
const AROUND_MIN: Duration = Duration::from_secs(1);
/// Longest such pause.
const AROUND_MAX: Duration = Duration::from_secs(30);
/// Longest such look.
pub(crate) const AROUND_PATIENCE: Duration = Duration::from_secs(5);
/// A session that ended sooner than that did not do well: the next is begun after a pause, and each time a longer one.
pub(crate) const DIED_YOUNG: Duration = Duration::from_secs(5);

/// Pauses that double.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    around_at: Time,
    around: Duration,
}

impl Pauses {
    pub(crate) const fn new(now: Time) -> Self {
        Self { next: PAUSE_MIN, around_at: now, around: AROUND_MIN }
    }

    /// The pause before the next attempt; the one after it is twice as long, from 0.1 to 2 s.
    pub(crate) fn take(&mut self) -> Duration {
        let doubled = (self.next * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        std::mem::replace(&mut self.next, doubled)
    }

    /// A session did well.
    pub(crate) const fn reset(&mut self) {
        self.next = PAUSE_MIN;
    }

    /// A session began: looks around are soon after each other again.
    pub(crate) const fn reset_around(&mut self) {
        self.around = AROUND_MIN;
    }

    /// Whether other servers may be asked where the parent is.
    pub(crate) fn may_look_around(&self, now: Time) -> bool {
        now >= self.around_at
    }

    /// They were asked.
    pub(crate) fn looked_around(&mut self, now: Time) {
        self.around_at = now + self.around;
        self.around = (self.around * 2).min(AROUND_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_a_tenth_of_a_second_to_two() {
        let mut pauses = Pauses::new(Time::ZERO);
        let taken: Vec<u128> = (0..7).map(|_| pauses.take().as_millis()).collect();
        assert_eq!(taken, [100, 200, 400, 800, 1600, 2000, 2000]);
        pauses.reset();
        assert_eq!(pauses.take(), PAUSE_MIN);
    }

    #[test]
    fn looks_around_are_farther_and_farther_apart() {
        let mut pauses = Pauses::new(Time::ZERO);
        let mut now = Time::ZERO;
        let mut waited = Vec::new();
        for _ in 0..7 {
            pauses.looked_around(now);
            let began = now;
            while !pauses.may_look_around(now) {
                now = now + Duration::from_secs(1);
            }
            waited.push(now.since(began).as_secs());
        }
        assert_eq!(waited, [1, 2, 4, 8, 16, 30, 30]);
    }
}
