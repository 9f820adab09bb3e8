//! A pause before work is done again that the store did not take, as on a full disk: each try would make the next one at once.

use std::time::Duration;
use wayfs_types::Time;

/// How long it is at first and at most; each time twice as long, until all is done.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Rest {
    until: Option<Time>,
    pause: Duration,
}

impl Rest {
    /// What was done was dropped. A rest that lasts already does not become longer.
    pub(crate) fn begin(&mut self, now: Time) {
        if !self.lasts(now) {
            self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            self.until = Some(now + self.pause);
        }
    }

    /// When it ends, if it lasts.
    pub(crate) const fn timeout(&self) -> Option<Time> {
        self.until
    }

    /// Whether it lasts still.
    pub(crate) fn lasts(&mut self, now: Time) -> bool {
        self.until = self.until.filter(|until| now < *until);
        self.until.is_some()
    }

    /// All is done: the next rest is a short one.
    pub(crate) const fn be_short(&mut self) {
        self.pause = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rest_is_twice_as_long_up_to_a_minute_until_all_is_done() {
        let (mut rest, mut now) = (Rest::default(), Time::ZERO);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            rest.begin(now);
            rest.begin(now + Duration::from_millis(500));
            assert_eq!(rest.timeout(), Some(now + Duration::from_secs(seconds)));
            assert!(rest.lasts(now + Duration::from_nanos(seconds * 1_000_000_000 - 1)));
            now = now + Duration::from_secs(seconds);
            assert!(!rest.lasts(now) && rest.timeout().is_none());
        }
        rest.be_short();
        rest.begin(now);
        assert_eq!(rest.timeout(), Some(now + Duration::from_secs(1)));
        // Nobody looked whether it had ended.
        rest.begin(now + Duration::from_secs(9));
        assert_eq!(rest.timeout(), Some(now + Duration::from_secs(11)));
    }
}
