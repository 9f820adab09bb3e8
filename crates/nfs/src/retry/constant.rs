//! The same timeout for ever: polite to nobody, and the other end of the scale.

use super::Policy;
use crate::Kind;
use std::time::Duration;

/// Constant timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    /// The timeout. Default 1 s.
    pub every: Duration,
}

impl Default for Constant {
    fn default() -> Self {
        Self { every: Duration::from_secs(1) }
    }
}

impl Policy for Constant {
    fn timeout(&self, _kind: Kind, _sending: u32) -> Duration {
        self.every
    }
}
