//! What a seed asks for: how many replicas, which faults, how much work.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// The shape of one run, drawn from its seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The seed; it also drives everything random in the run.
    pub seed: u64,
    /// Stations, `0..=2`.
    pub stations: usize,
    /// Clients, `1..=4`.
    pub clients: usize,
    /// Length of the faulty phase.
    pub faulty: Duration,
    /// Mean time between two operations of a client.
    pub think: Duration,
    /// Mean time between two faults; `None`: no faults at all.
    pub fault_every: Option<Duration>,
    /// Chance that a packet is lost.
    pub loss: f64,
    /// One-way delay of wide-area links.
    pub wide_delay: Duration,
    /// Chance that a store is too big to travel with its record.
    pub big: f64,
    /// Chance that a station sends contents ahead.
    pub propagate: f64,
    /// Images in one message: few make long cuts of many messages.
    pub images_per_message: usize,
}

impl Plan {
    /// Draws a plan.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
        let faulty = Duration::from_secs(random.random_range(10..60));
        let calm = random.random_bool(0.1);
        Self {
            seed,
            stations: random.random_range(0..=2),
            clients: random.random_range(1..=4),
            faulty,
            think: Duration::from_millis(random.random_range(50..800)),
            fault_every: (!calm).then(|| Duration::from_millis(random.random_range(500..8000))),
            loss: if random.random_bool(0.5) { 0.0 } else { random.random_range(0.0..0.2) },
            wide_delay: Duration::from_millis(random.random_range(0..200)),
            big: random.random_range(0.0..0.8),
            propagate: random.random_range(0.0..1.0),
            images_per_message: if random.random_bool(0.25) { random.random_range(1..=4) } else { 512 },
        }
    }
}
