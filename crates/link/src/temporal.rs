//! The two-state model in *time* (NFS over wireless links, 1995): in a good
//! period everything passes, in a bad one everything in either direction is
//! lost, however many packets are sent.

use crate::loss::unit;
use rand_chacha::rand_core::RngCore;
use std::time::Duration;
use wayfs_types::Time;

/// How the lengths of periods are drawn around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durations {
    /// Uniform in `0..2 * mean`, as published.
    Uniform,
    /// Exponential.
    Exponential,
    /// Always the mean.
    Fixed,
}

/// Which period it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemporalState {
    /// Everything passes.
    Good,
    /// Nothing passes.
    Bad,
}

/// The state of one hop, shared by its two directions.
#[derive(Debug, Clone)]
pub struct Temporal {
    good_mean: Duration,
    bad_mean: Duration,
    durations: Durations,
    state: TemporalState,
    until: Time,
}

impl Temporal {
    /// Starts in a good period at `now`. A bad mean of zero means never bad.
    /// Published: good 1000 ms; bad 0, 40, 80, 120, 160 ms.
    pub fn new(
        good_mean: Duration,
        bad_mean: Duration,
        durations: Durations,
        now: Time,
        random: &mut impl RngCore,
    ) -> Self {
        let mut hop = Self { good_mean, bad_mean, durations, state: TemporalState::Good, until: now };
        hop.until = now + hop.draw(good_mean, random);
        hop
    }

    /// The state at `now`, which must not run backwards.
    pub fn state(&mut self, now: Time, random: &mut impl RngCore) -> TemporalState {
        if self.bad_mean.is_zero() {
            return TemporalState::Good;
        }
        while self.until <= now {
            let (state, mean) = match self.state {
                TemporalState::Good => (TemporalState::Bad, self.bad_mean),
                TemporalState::Bad => (TemporalState::Good, self.good_mean),
            };
            self.state = state;
            self.until = self.until + self.draw(mean, random);
        }
        self.state
    }

    /// When the present period ends, as of the last look.
    pub const fn until(&self) -> Time {
        self.until
    }

    fn draw(&self, mean: Duration, random: &mut impl RngCore) -> Duration {
        let factor = match self.durations {
            Durations::Uniform => 2.0 * unit(random),
            Durations::Exponential => -(1.0 - unit(random)).ln(),
            Durations::Fixed => 1.0,
        };
        // A period of at least a microsecond keeps `state` moving forward.
        mean.mul_f64(factor).max(Duration::from_micros(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn share_bad(durations: Durations) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let (good, bad) = (Duration::from_millis(1000), Duration::from_millis(160));
        let mut hop = Temporal::new(good, bad, durations, Time::ZERO, &mut random);
        let samples = 1_000_000;
        let bad = (0..samples)
            .filter(|ms| hop.state(Time::from_micros(ms * 1000), &mut random) == TemporalState::Bad)
            .count();
        bad as f64 / samples as f64
    }

    #[test]
    fn the_share_of_bad_time_is_bad_over_good_and_bad() {
        for durations in [Durations::Uniform, Durations::Exponential, Durations::Fixed] {
            let share = share_bad(durations);
            assert!((share - 160.0 / 1160.0).abs() < 0.02, "{durations:?}: {share}");
        }
    }

    #[test]
    fn a_bad_mean_of_zero_is_never_bad() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut hop =
            Temporal::new(Duration::from_secs(1), Duration::ZERO, Durations::Uniform, Time::ZERO, &mut random);
        assert!((0..10_000).all(|s| hop.state(Time::from_micros(s * 1_000_000), &mut random) == TemporalState::Good));
    }
}
