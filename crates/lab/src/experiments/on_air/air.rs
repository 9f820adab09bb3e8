//! What the hop is like.

use crate::experiments::tcp::recorded_links;
use crate::{LabError, LinePlan, line};
use std::time::Duration;
use wayfs_link::{BadPeriods, Durations};

/// Mean length of good periods, in milliseconds.
pub(super) const GOOD_MS: u64 = 1000;

/// A condition.
#[derive(Debug, Clone)]
pub(super) struct Air {
    pub(super) name: String,
    /// Mean length of bad periods in milliseconds; absent on a recorded link.
    pub(super) bad_ms: Option<u64>,
    line: LinePlan,
}

impl Air {
    /// The hop of the papers with bad periods of that mean length.
    pub(super) fn bad(bad_ms: u64) -> Result<Self, LabError> {
        let mut hop = line("wireless-1mb")?;
        hop.config.bad_periods = (bad_ms > 0).then_some(BadPeriods {
            good_mean: Duration::from_millis(GOOD_MS),
            bad_mean: Duration::from_millis(bad_ms),
            durations: Durations::Uniform,
            ..BadPeriods::default()
        });
        Ok(Self { name: format!("bad {bad_ms} ms"), bad_ms: Some(bad_ms), line: hop })
    }

    /// Recorded cellular and satellite links.
    pub(super) fn recorded() -> Result<Vec<Self>, LabError> {
        let airs = recorded_links()?.into_iter().map(|(name, line)| Self { name: name.to_owned(), bad_ms: None, line });
        Ok(airs.collect())
    }

    /// Where the draws of a run begin: the same for all that is measured under this condition.
    pub(super) fn seed(&self, experiment: u64) -> u64 {
        experiment ^ self.bad_ms.unwrap_or_default().wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// As a line.
    pub(super) fn line(&self) -> LinePlan {
        self.line.clone()
    }
}
