//! How often handshakes may begin: a second's worth at once, and then as they become due.

use std::time::{Duration, Instant};

/// As much as may be begun ahead of time.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// Says when the next is due, as the generic cell rate algorithm does (ITU-T I.371, annex A).
#[derive(Debug)]
pub(crate) struct Pace {
    each: Duration,
    due: Instant,
}

impl Pace {
    /// So many a second, one at least.
    pub(crate) fn new(a_second: u32, now: Instant) -> Self {
        Self { each: Duration::from_secs(1) / a_second.max(1), due: now }
    }

    /// Whether one more may begin now; then it counts.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let ahead = self.ahead(now);
        if ahead >= AHEAD_MAX {
            return false;
        }
        self.due = now + ahead + self.each;
        true
    }

    /// Whether half of what may be begun ahead of time is used up.
    pub(crate) fn is_low(&self, now: Instant) -> bool {
        self.ahead(now) >= AHEAD_MAX / 2
    }

    fn ahead(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_worth_begins_at_once_and_the_rest_when_it_is_due() {
        let begin = Instant::now();
        let mut pace = Pace::new(100, begin);
        assert_eq!((0..200).filter(|_| pace.begin(begin)).count(), 100);
        assert!(pace.is_low(begin));
        let later = begin + Duration::from_millis(250);
        assert_eq!((0..200).filter(|_| pace.begin(later)).count(), 25);
        let rested = begin + Duration::from_secs(60);
        assert!(!pace.is_low(rested), "what was not used does not add up");
        assert_eq!((0..200).filter(|_| pace.begin(rested)).count(), 100);
    }
}
