//! Checks of health.

use serde::{Deserialize, Serialize};

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Well.
    Good,
    /// Works, but not as well as it could.
    Warning,
    /// Does not work.
    Bad,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorFact {
    /// What was looked at, a few words.
    pub check: String,
    /// How it is.
    pub verdict: Verdict,
    /// What was found, one line.
    pub detail: String,
    /// What to do; empty when nothing.
    #[serde(default)]
    pub next_step: String,
}

/// All checks.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// In the order in which they were made.
    pub facts: Vec<DoctorFact>,
}
