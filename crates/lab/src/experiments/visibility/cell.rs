//! One cell: a scenario, idle or behind the backlog.

use super::watch::{self, Sample, Views};
use super::{Extent, Load, Scenario};
use crate::{Estimate, LabError, Sites, quantile, station_of};
use std::time::{Duration, Instant};

/// Time that the backlog is given to fill the line.
const SETTLE: Duration = Duration::from_secs(5);

/// What came out in one cell.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) scenario: Scenario,
    pub(super) load: Load,
    pub(super) samples: Vec<Sample>,
    /// Share of the line to the home that was used meanwhile.
    pub(super) used: f64,
    /// Round trip of the station's session by its own estimate, when the last file had been closed.
    pub(super) rtt_ms: Option<f64>,
}

impl Cell {
    /// Lags in seconds; what was never seen counts as a minute.
    pub(super) fn lags(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.lag.unwrap_or(watch::PATIENCE).as_secs_f64()).collect()
    }

    /// A quantile of the lags in milliseconds, with its 95 % interval.
    pub(super) fn quantile_ms(&self, share: f64) -> Estimate {
        quantile_estimate(&mut self.lags(), share).times(1000.0)
    }

    /// Closes that were not seen, or were read wrong.
    pub(super) fn failures(&self) -> u64 {
        self.samples.iter().filter(|sample| !sample.right).count() as u64
    }
}

/// Closes small files at the first site and sees when the second sees them.
pub(super) fn measure(
    sites: &Sites,
    scenario: &Scenario,
    load: Load,
    extent: &Extent,
    seed: u64,
) -> Result<Cell, LabError> {
    let name = format!("{}-{}", scenario.name, load.name());
    let views = Views { writer: sites.at(0).join(&name), reader: sites.at(1).join(&name) };
    watch::prepare(&views, extent.closes)?;
    if load == Load::Backlog {
        std::thread::sleep(SETTLE);
    }
    let delivered = || sites.lab().statistics(sites.wide(0)).up.delivered_len;
    let (before, began) = (delivered(), Instant::now());
    let samples = watch::run(&views, extent.closes, extent.pause, seed)?;
    let possible = scenario.bits_per_second as f64 / 8.0 * began.elapsed().as_secs_f64();
    let used = (delivered() - before) as f64 / possible;
    let status = sites.json(&station_of(0), &["status"])?;
    let rtt_ms = status.pointer("/0/volumes/0/parent/rtt_ms").and_then(serde_json::Value::as_f64);
    Ok(Cell { scenario: scenario.clone(), load, samples, used, rtt_ms })
}

/// A quantile with its 95 % interval by the ranks of the samples, which holds whatever their distribution.
fn quantile_estimate(samples: &mut [f64], share: f64) -> Estimate {
    let value = quantile(samples, share);
    let count = samples.len() as f64;
    if samples.len() < 2 {
        return Estimate { samples: samples.len() as u64, ..Estimate::exact(value) };
    }
    // How many samples lie below the quantile is binomial; 1.96 standard deviations to each side.
    let half = 1.96 * (count * share * (1.0 - share)).sqrt();
    let at = |rank: f64| samples[(rank.max(1.0) as usize).min(samples.len()) - 1];
    let (low, high) = (at((count * share - half).floor()), at((count * share + half).ceil() + 1.0));
    Estimate { mean: value, low, high, samples: samples.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_the_textbooks() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let median = quantile_estimate(&mut samples, 0.5);
        // Ranks 40 and 61 of 100: Conover, Practical Nonparametric Statistics, by the normal approximation.
        assert_eq!((median.low, median.mean, median.high), (40.0, 50.0, 61.0));
        let tail = quantile_estimate(&mut samples, 0.99);
        assert_eq!((tail.mean, tail.high), (99.0, 100.0));
        assert_eq!(quantile_estimate(&mut [7.0], 0.5).mean, 7.0);
    }
}
