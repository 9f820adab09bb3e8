//! What a path was seen to carry.
//!
//! The counters of the connection are read often while much goes over it, and seldom else. Each stretch in which at least
//! [`BUSY_LEN`] bytes went one way is a sample of that direction. The estimate is near the best of the last samples, since a
//! stretch is slower than the path when the sender pauses, and never much faster. It is what transfers got: the path may carry
//! more. Without samples there is no estimate. Pure.

use std::collections::VecDeque;
use std::time::Duration;
use wayfs_types::Time;

/// Bytes in one stretch that make it count: fewer say more about the sender than about the path.
pub(super) const BUSY_LEN: u64 = 64 * 1024;
/// Samples kept of each direction.
const SAMPLES_MAX: usize = 32;
/// After so long a sample says nothing any more.
const MEMORY: Duration = Duration::from_secs(600);
/// Samples at which half of the doubt for want of samples is gone.
const SAMPLES_HALF: f64 = 3.0;

/// A rate and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throughput {
    /// Bits per second.
    pub bits_per_second: u64,
    /// From 0 to 1: more and younger samples make it surer.
    pub confidence: f64,
}

/// Samples of one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    samples: VecDeque<(Time, f64)>,
}

impl Samples {
    /// Takes in a stretch; answers whether it was busy.
    pub(crate) fn observe(&mut self, now: Time, bytes: u64, took: Duration) -> bool {
        if bytes < BUSY_LEN || took.is_zero() {
            return false;
        }
        self.samples.push_back((now, bytes as f64 * 8.0 / took.as_secs_f64()));
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        true
    }

    /// What is known now.
    pub(crate) fn estimate(&self, now: Time) -> Option<Throughput> {
        let mut young = self.samples.iter().filter(|(at, _)| now.since(*at) < MEMORY);
        let mut rates: Vec<f64> = young.clone().map(|(_, rate)| *rate).collect();
        let (newest, _) = young.next_back()?;
        rates.sort_by(f64::total_cmp);
        let rate = rates[(rates.len() - 1) * 9 / 10];
        let many = rates.len() as f64 / (rates.len() as f64 + SAMPLES_HALF);
        let fresh = 1.0 - 0.5 * now.since(*newest).as_secs_f64() / MEMORY.as_secs_f64();
        // Saturates where no path is.
        Some(Throughput { bits_per_second: rate as u64, confidence: many * fresh })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn unknown_stays_unknown_until_something_went_over_it() {
        let mut samples = Samples::default();
        assert_eq!(samples.estimate(at(1)), None);
        assert!(!samples.observe(at(1), BUSY_LEN - 1, Duration::from_millis(100)));
        assert_eq!(samples.estimate(at(1)), None);
    }

    #[test]
    fn the_estimate_is_what_good_stretches_got_and_grows_surer() {
        let mut samples = Samples::default();
        let stretch = Duration::from_millis(100);
        samples.observe(at(0), 125_000, stretch);
        let first = samples.estimate(at(0)).unwrap();
        assert_eq!(first.bits_per_second, 10_000_000);
        for _ in 0..20 {
            samples.observe(at(1), 125_000, stretch);
            samples.observe(at(1), BUSY_LEN, stretch);
        }
        let later = samples.estimate(at(1)).unwrap();
        assert_eq!(later.bits_per_second, 10_000_000);
        assert!(later.confidence > first.confidence && later.confidence < 1.0);
        assert!(samples.estimate(at(300)).unwrap().confidence < later.confidence);
        assert_eq!(samples.estimate(at(1000)), None);
    }
}
