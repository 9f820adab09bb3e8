//! A smoothed time with its deviation (Jacobson 1988).

use std::time::Duration;

/// A smoothed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Smoothed {
    pub(super) mean: Duration,
    pub(super) deviation: Duration,
}

impl Smoothed {
    /// From the first sample on.
    pub(super) fn first(sample: Duration) -> Self {
        Self { mean: sample, deviation: sample / 2 }
    }

    pub(super) fn add(&mut self, sample: Duration) {
        self.deviation = (self.deviation * 3 + self.mean.abs_diff(sample)) / 4;
        self.mean = (self.mean * 7 + sample) / 8;
    }

    /// Adds to what may be there.
    pub(super) fn update(slot: &mut Option<Self>, sample: Duration) {
        match slot {
            Some(smoothed) => smoothed.add(sample),
            None => *slot = Some(Self::first(sample)),
        }
    }
}
