//! The propagation policies that a seed draws.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;
use wayfs_policy::{Mechanism, Setting};

/// Nothing ahead of need.
pub(crate) const ON_DEMAND: Setting = Setting { mechanism: Mechanism::OnDemand, within: None };

/// Every mechanism in its turn, the second station's two further on; numbers and bounds are drawn for themselves.
pub(crate) fn policies(seed: u64, draw: f64) -> [Setting; 2] {
    let first = (draw * 7.0) as u64;
    [0, 2].map(|offset| policy(first + offset, ChaCha8Rng::seed_from_u64(seed ^ 0x9071c1e5 ^ offset << 40)))
}

fn policy(number: u64, mut random: ChaCha8Rng) -> Setting {
    let mut span = |most: u64| {
        let seconds = Duration::from_secs(random.random_range(1..=most));
        [Duration::from_millis(random.random_range(1..=100)), seconds, Duration::from_secs(3600)]
            [random.random_range(0..3)]
    };
    let (period, within) = (span(20), span(40));
    let mechanism = match number % 7 {
        0 => Mechanism::WriteThrough,
        1 => Mechanism::OnDemand,
        2 => Mechanism::Periodic(period),
        3 => Mechanism::InvalidationHeuristic(random.random_range(0..=4)),
        4 => Mechanism::StationLoad(random.random_range(0..=4), random.random_range(-2..=3)),
        5 => Mechanism::TimeToNextUse([0.0, 0.25, 0.5, 1.0][random.random_range(0..4)]),
        _ => Mechanism::AdaptiveDelay,
    };
    Setting { mechanism, within: random.random_bool(0.5).then_some(within) }
}
