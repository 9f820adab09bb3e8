//! The two-state model in *time* (NFS over wireless links, 1995): in a good
//! period everything passes, in a bad one everything in either direction is
//! lost, however many packets are sent.

use crate::BadPeriods;
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
    periods: BadPeriods,
    state: TemporalState,
    until: Time,
}

impl Temporal {
    /// Starts in a good period at `now`. A bad mean of zero means never bad.
    /// Published: good 1000 ms; bad 0, 40, 80, 120, 160 ms.
    pub fn new(periods: &BadPeriods, now: Time, random: &mut impl RngCore) -> Self {
        let mut hop = Self { periods: *periods, state: TemporalState::Good, until: now };
        hop.until = now + hop.draw(periods.good_mean, random);
        hop
    }

    /// The state at `now`, which must not run backwards.
    pub fn state(&mut self, now: Time, random: &mut impl RngCore) -> TemporalState {
        if self.periods.bad_mean.is_zero() {
            return TemporalState::Good;
        }
        while self.until <= now {
            let (state, mean) = match self.state {
                TemporalState::Good => (TemporalState::Bad, self.periods.bad_mean),
                TemporalState::Bad => (TemporalState::Good, self.periods.good_mean),
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
        let tick = self.periods.tick;
        if !tick.is_zero() {
            return self.draw_ticks(mean.as_secs_f64() / tick.as_secs_f64(), random);
        }
        let factor = match self.periods.durations {
            Durations::Uniform => 2.0 * unit(random),
            Durations::Exponential => -(1.0 - unit(random)).ln(),
            Durations::Fixed => 1.0,
        };
        // A period of at least a microsecond keeps `state` moving forward.
        mean.mul_f64(factor).max(Duration::from_micros(1))
    }

    /// So many ticks on the average.
    fn draw_ticks(&self, mean: f64, random: &mut impl RngCore) -> Duration {
        let ticks = match self.periods.durations {
            // One of the numbers 0, 1, .. 2 * mean.
            Durations::Uniform => (unit(random) * (2.0 * mean + 1.0)).floor(),
            Durations::Exponential => (-(1.0 - unit(random)).ln() * mean).round(),
            Durations::Fixed => mean.round(),
        };
        self.periods.tick.mul_f64(ticks).max(Duration::from_micros(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn share_bad(durations: Durations, tick: Duration) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let periods = BadPeriods { bad_mean: Duration::from_millis(160), durations, tick, ..BadPeriods::default() };
        let mut hop = Temporal::new(&periods, Time::ZERO, &mut random);
        let samples = 1_000_000;
        let bad = (0..samples)
            .filter(|ms| hop.state(Time::from_micros(ms * 1000), &mut random) == TemporalState::Bad)
            .count();
        bad as f64 / samples as f64
    }

    #[test]
    fn the_share_of_bad_time_is_bad_over_good_and_bad() {
        for durations in [Durations::Uniform, Durations::Exponential, Durations::Fixed] {
            for tick in [0, 20] {
                let share = share_bad(durations, Duration::from_millis(tick));
                assert!((share - 160.0 / 1160.0).abs() < 0.02, "{durations:?}, {tick}: {share}");
            }
        }
    }

    #[test]
    fn periods_of_a_kernels_timer_are_multiples_of_its_tick_up_to_twice_the_mean() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let periods = BadPeriods {
            good_mean: Duration::from_secs(1),
            bad_mean: Duration::from_millis(40),
            ..BadPeriods::default()
        }
        .at_driver();
        let hop = Temporal::new(&periods, Time::ZERO, &mut random);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..10_000 {
            *counts.entry(hop.draw(periods.bad_mean, &mut random).as_millis()).or_insert(0) += 1;
        }
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [0, 20, 40, 60, 80]);
        assert!(counts.values().all(|count| (1800..2200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_bad_mean_of_zero_is_never_bad() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut hop = Temporal::new(&BadPeriods::default(), Time::ZERO, &mut random);
        assert!((0..10_000).all(|s| hop.state(Time::from_micros(s * 1_000_000), &mut random) == TemporalState::Good));
    }
}
