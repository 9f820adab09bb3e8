//! Counts of times by size, to tell quantiles of millions of samples in a few KiB.

use serde::{Deserialize, Serialize};

/// Steps within a doubling: a quantile is off by at most 1/32.
const STEPS: u64 = 32;
/// Doublings that a `u64` has beyond the first steps.
const BUCKETS: usize = (STEPS as usize) * 60;

/// A histogram of nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

/// How late an emulator was, in microseconds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Packets delivered.
    pub packets: u64,
    /// Half were delivered at most so late.
    pub p50_us: f64,
    /// 99 of a hundred.
    pub p99_us: f64,
    /// The latest.
    pub max_us: f64,
}

impl Lateness {
    /// A run that was later than this at the 99th percentile measured the machine, not the link.
    pub(crate) const P99_MAX_US: f64 = 1000.0;

    /// Whether a run is to be thrown away.
    pub(crate) fn is_rejected(&self) -> bool {
        self.p99_us > Self::P99_MAX_US
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.max = self.max.max(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// The value that a share of samples does not exceed, to 1/32 above.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return upper(index).min(self.max);
            }
        }
        0
    }

    pub(crate) fn lateness(&self) -> Lateness {
        let us = |nanos: u64| nanos as f64 / 1000.0;
        Lateness {
            packets: self.total,
            p50_us: us(self.quantile(0.5)),
            p99_us: us(self.quantile(0.99)),
            max_us: us(self.max),
        }
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let doubling = u64::from(nanos.ilog2()) - u64::from(STEPS.ilog2());
    (STEPS * doubling + (nanos >> doubling)) as usize
}

/// Largest value of a bucket.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let doubling = index / STEPS - 1;
    let step = index % STEPS + STEPS;
    // The end of the last bucket is the end of all numbers.
    ((step + 1) << doubling).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..10_000).chain([123_456, 1 << 40, u64::MAX]) {
            let index = bucket(value);
            assert!(index < BUCKETS, "{value}");
            assert!(upper(index) >= value && upper(index) - value <= value / STEPS, "{value} {}", upper(index));
        }
    }

    #[test]
    fn quantiles_are_right_to_a_thirtieth() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|n| histogram.record(n));
        for (share, expected) in [(0.5, 50_000.0), (0.99, 99_000.0), (1.0, 100_000.0)] {
            let found = histogram.quantile(share) as f64;
            assert!((found / expected - 1.0).abs() < 0.032, "{share}: {found}");
        }
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
