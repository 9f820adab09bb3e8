//! One cell: a scenario, idle or behind the backlog.

use super::watch::{self, Sample, Views};
use super::{Extent, Load, Scenario};
use crate::{Estimate, LabError, Sites, station_of};
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
        Estimate::quantile(&mut self.lags(), share).times(1000.0)
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
