//! What a checker says of a promise that is broken.

use std::fmt;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub promise: &'static str,
    /// What happened instead.
    pub evidence: String,
}

impl Violation {
    pub(crate) fn new(promise: &'static str, evidence: String) -> Self {
        Self { promise, evidence }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}: {}", self.promise, self.evidence)
    }
}
