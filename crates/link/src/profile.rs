//! Named links. The wide-area scenarios are those of the Fluid Replication
//! evaluation (thesis, section 5.3): latency added one way, bandwidth each way.

use crate::{Capacity, DirectionConfig};
use std::time::Duration;

/// A symmetric link with a name and a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Name, as the command line takes it.
    pub name: &'static str,
    /// One-way delay in microseconds.
    pub delay_us: u64,
    /// Bits per second each way.
    pub bits_per_second: u64,
    /// Where the numbers come from.
    pub source: &'static str,
}

const THESIS: &str = "Fluid Replication thesis, 5.3";

const fn scenario(name: &'static str, delay_us: u64, bits_per_second: u64) -> Profile {
    Profile { name, delay_us, bits_per_second, source: THESIS }
}

/// The eight wide-area scenarios.
pub const PROFILES: [Profile; 8] = [
    scenario("local-area", 0, 10_000_000),
    scenario("small-distance", 15_000, 4_000_000),
    scenario("medium-distance", 33_500, 3_000_000),
    scenario("large-distance", 45_000, 1_000_000),
    scenario("intercontinental", 55_000, 1_000_000),
    scenario("low-bandwidth", 0, 56_000),
    scenario("high-latency", 200_000, 10_000_000),
    scenario("passive-propagation", 82_150, 3_000_000),
];

impl Profile {
    /// The profile of a name.
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// Settings of each direction.
    pub fn direction(&self) -> DirectionConfig {
        DirectionConfig {
            capacity: Capacity::Rate(self.bits_per_second),
            delay: Duration::from_micros(self.delay_us),
            ..DirectionConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_its_name() {
        assert!(PROFILES.iter().all(|profile| Profile::named(profile.name) == Some(*profile)));
        assert_eq!(Profile::named("nowhere"), None);
    }
}
