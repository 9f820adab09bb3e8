//! The clients of the time: a timeout that doubles.

use super::{Policy, doubled};
use crate::Kind;
use std::time::Duration;

/// Doubling timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exponential {
    /// The first timeout. Default 1 s, as BSD; the text of 1996 says about 0.7 s.
    pub first: Duration,
}

impl Default for Exponential {
    fn default() -> Self {
        Self { first: Duration::from_secs(1) }
    }
}

impl Policy for Exponential {
    fn timeout(&self, _kind: Kind, sending: u32) -> Duration {
        doubled(self.first, sending.saturating_sub(1))
    }
}
