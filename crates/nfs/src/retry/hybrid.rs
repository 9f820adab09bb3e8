//! The hybrid of 1995: linear for the first retries, since a burst is short; exponential later, since the server may be down.

use super::{Policy, TIMEOUT_MAX, doubled};
use crate::Kind;
use std::time::Duration;

/// Linear, then doubling timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hybrid {
    /// The first timeout. Default 0.7 s: the smallest of the clients of the time.
    pub first: Duration,
    /// Retries after which timeouts double. Default 3, as published.
    pub linear: u32,
    /// By what linear timeouts grow (the `c` of the papers, which they do not tell). Default 100 ms, of the order of the bursts.
    pub step: Duration,
}

impl Default for Hybrid {
    fn default() -> Self {
        Self { first: Duration::from_millis(700), linear: 3, step: Duration::from_millis(100) }
    }
}

impl Policy for Hybrid {
    fn timeout(&self, _kind: Kind, sending: u32) -> Duration {
        let retry = sending.saturating_sub(1);
        let grown = self.first.saturating_add(self.step.saturating_mul(retry.min(self.linear)));
        doubled(grown.min(TIMEOUT_MAX), retry.saturating_sub(self.linear))
    }
}
