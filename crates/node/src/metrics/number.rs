//! Counters and histograms.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Its value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Time that only grows. Counted in nanoseconds: what it adds up may take less than a microsecond each.
#[derive(Debug, Default)]
pub struct Stopwatch(AtomicU64);

impl Stopwatch {
    /// Adds.
    pub fn add(&self, took: Duration) {
        self.0.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// All of it.
    pub fn value(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Upper bounds of the buckets, in seconds: from a LAN's round trip to what users call broken.
pub(crate) const BOUNDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// How many took at most so long.
pub(crate) struct Bucket {
    pub(crate) seconds_max: f64,
    pub(crate) count: u64,
}

/// How long something took, in buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Histogram {
    /// Counts one.
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS) {
            if seconds <= bound {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many took at most each bound.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        BOUNDS.into_iter().zip(counts).map(|(seconds_max, count)| Bucket { seconds_max, count })
    }

    /// Seconds of all together.
    pub(crate) fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64()
    }
}
