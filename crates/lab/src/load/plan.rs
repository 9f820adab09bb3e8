//! What is due when.

use super::{Mix, Operation};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::time::Duration;

/// An operation that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When, after the start.
    pub at: Duration,
    /// What.
    pub operation: Operation,
    /// For the worker, to choose a file and a place in it.
    pub random: u64,
}

/// Operations of a mix with Poisson arrivals: `rate` per second on average, for `duration`.
pub fn plan(seed: u64, mix: Mix, rate: f64, duration: Duration) -> Vec<Planned> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0.0;
    let mut planned = Vec::new();
    loop {
        // 53 bits are what a double holds exactly.
        let unit = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        at -= (1.0 - unit).ln() / rate.max(f64::MIN_POSITIVE);
        if at >= duration.as_secs_f64() {
            return planned;
        }
        let operation = mix.pick(random.next_u64());
        planned.push(Planned { at: Duration::from_secs_f64(at), operation, random: random.next_u64() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::SFS;

    #[test]
    fn arrivals_come_at_the_rate_in_order_and_one_seed_is_one_plan() {
        let duration = Duration::from_secs(100);
        let planned = plan(3, SFS, 200.0, duration);
        // A Poisson count of 20,000 is off by more than 4 standard deviations once in 16,000 seeds; this one is not.
        assert!((planned.len() as f64 - 20_000.0).abs() < 570.0, "{}", planned.len());
        assert!(planned.is_sorted_by_key(|planned| planned.at));
        assert_eq!(planned, plan(3, SFS, 200.0, duration));
        assert_ne!(planned, plan(4, SFS, 200.0, duration));
        assert!(plan(3, SFS, 0.0, duration).is_empty());
    }
}
