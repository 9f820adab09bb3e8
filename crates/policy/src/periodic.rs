//! Periodic: what is unsent goes at every tick of a period; versions
//! overwritten between two ticks never go.

use crate::{Decision, PropagationPolicy};
use std::time::Duration;
use wayfs_types::{FileId, Time};

/// Sends everything at every multiple of a period of the replica's clock.
#[derive(Debug, Clone, Copy)]
pub struct Periodic {
    period_micros: u64,
}

impl Periodic {
    /// `period` as the research has it: 15 s, 1 min, 1 h, 1 day. A period under 1 µs counts as 1 µs.
    pub fn new(period: Duration) -> Self {
        Self { period_micros: u64::try_from(period.as_micros()).unwrap_or(u64::MAX).max(1) }
    }
}

impl PropagationPolicy for Periodic {
    fn on_update(&mut self, now: Time, _file: FileId) -> Decision {
        let ticks = now.as_micros() / self.period_micros;
        Decision::At(Time::from_micros((ticks + 1).saturating_mul(self.period_micros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagator::tests::{at, file};

    #[test]
    fn updates_of_one_period_go_together_at_its_end() {
        let mut policy = Periodic::new(Duration::from_secs(15));
        assert_eq!(policy.on_update(at(1), file(1)), Decision::At(at(15)));
        assert_eq!(policy.on_update(at(14), file(2)), Decision::At(at(15)));
        assert_eq!(policy.on_update(at(15), file(3)), Decision::At(at(30)));
    }

    #[test]
    fn extreme_periods_do_no_harm() {
        assert_eq!(Periodic::new(Duration::MAX).on_update(at(1), file(1)), Decision::At(Time::from_micros(u64::MAX)));
        assert_eq!(Periodic::new(Duration::ZERO).on_update(Time::ZERO, file(1)), Decision::At(Time::from_micros(1)));
    }
}
