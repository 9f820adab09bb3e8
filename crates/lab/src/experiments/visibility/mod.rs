//! How long it takes from a close at one site until the other site sees it, alone and behind a backlog of contents.
//!
//! The promise is that contents never delay knowledge: whatever waits to cross the wide area, a closed file is known
//! elsewhere within two reconciliation periods and a round trip. So the same small files are closed once with nothing
//! else to do, and once while a station still has up to a gigabyte to bring home.

mod backlog;
mod cell;
mod findings;
mod watch;

use super::chosen::{chosen, number, scenarios};
use crate::context::Parts;
use crate::experiments::noise::Noise;
use crate::{Context, Experiment, Findings, LabError, LinePlan, Sites, SitesPlan, line, station_of};
use cell::Cell;
use std::time::Duration;
use wayfs_link::Profile;

/// The experiment.
pub(super) struct Visibility;

/// A station tells the home what it gathered after at most this long while earlier records are under way: the default of
/// `ServerConfig::reconcile_period`. (On an idle line it waits for 50 ms only.)
const PERIOD: Duration = Duration::from_secs(1);
/// Of the quick one: one far away, one thin.
const SCENARIOS_QUICK: &[&str] = &["intercontinental", "low-bandwidth"];

/// What else crosses while small files are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Nothing.
    Idle,
    /// Contents that the station still owes the home.
    Backlog,
}

impl Load {
    const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Backlog => "backlog",
        }
    }
}

/// A wide area.
#[derive(Debug, Clone)]
struct Scenario {
    name: &'static str,
    plan: LinePlan,
    /// Both ways, without transmission and queues.
    round_trip: Duration,
    bits_per_second: u64,
}

impl Scenario {
    fn named(name: &'static str) -> Result<Self, LabError> {
        let plan = line(name)?;
        let profile = Profile::named(name).ok_or_else(|| LabError::Experiment(format!("no scenario {name}")))?;
        let round_trip = Duration::from_micros(2 * profile.delay_us);
        Ok(Self { name, plan, round_trip, bits_per_second: profile.up_bits_per_second })
    }

    /// Within this, a close is to be seen at the other site.
    fn bound(&self) -> Duration {
        2 * PERIOD + self.round_trip
    }
}

/// How much is measured.
struct Extent {
    scenarios: Vec<&'static str>,
    /// Closes in each cell.
    closes: usize,
    /// Mean pause between them; the pauses are random, so that no period is hit in step.
    pause: Duration,
    backlog_len: u64,
}

impl Experiment for Visibility {
    fn name(&self) -> &'static str {
        "visibility"
    }

    fn about(&self) -> &'static str {
        "How long after a close at one site does another site see it, alone and behind a backlog of contents?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["backlog-mb", "closes", "scenarios"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let listed = context.setting("scenarios").is_some();
        let all = if context.is_quick() && !listed { SCENARIOS_QUICK.to_vec() } else { scenarios() };
        let extent = Extent {
            scenarios: chosen(context, "scenarios", &all, |name| name)?,
            closes: number(context, "closes", context.choose(40, 200))?,
            pause: Duration::from_millis(context.choose(150, 250)),
            backlog_len: number(context, "backlog-mb", context.choose(16, 1000))? as u64 * 1_000_000,
        };
        let cells = measure(context, &extent)?;
        findings::tell(context, &extent, &cells)
    }
}

/// All cells: first every scenario with nothing else to do, then every one behind the backlog.
fn measure(context: &mut Context<'_>, extent: &Extent) -> Result<Vec<Cell>, LabError> {
    let scenarios = extent.scenarios.iter().map(|name| Scenario::named(name)).collect::<Result<Vec<_>, _>>()?;
    let total = 2 * scenarios.len() + 1;
    // The stations send contents as soon as they have them: the backlog is on its way at all times.
    let mut plan = SitesPlan::profiles(&[extent.scenarios[0], extent.scenarios[0]])?;
    plan.serve = vec!["--policy".into(), "write-through".into()];
    let mut sites = Sites::start(context, "all", context.seed(), plan)?;
    let mut cells = Vec::new();
    for load in [Load::Idle, Load::Backlog] {
        if load == Load::Backlog {
            context.progress(Parts { done: cells.len(), total }, "writing the backlog");
            backlog::write(&sites, Noise { seed: context.seed(), len: extent.backlog_len })?;
        }
        for scenario in &scenarios {
            let done = cells.len() + usize::from(load == Load::Backlog);
            context.progress(Parts { done, total }, &format!("{}, {}", scenario.name, load.name()));
            reshape(&mut sites, scenario)?;
            cells.push(cell::measure(&sites, scenario, load, extent, context.seed() + cells.len() as u64)?);
        }
    }
    context.progress(Parts { done: total, total }, "done");
    sites.finish(context, "all");
    Ok(cells)
}

/// Gives both wide areas other settings. The stations start anew: a path whose distance changed under a connection is
/// another question, and each scenario is to begin as if it had been there from the start.
fn reshape(sites: &mut Sites, scenario: &Scenario) -> Result<(), LabError> {
    for site in 0..2 {
        let station = station_of(site);
        sites.stop(&station)?;
        sites.lab().shape(sites.wide(site), scenario.plan.clone());
        sites.serve(&station)?;
    }
    Ok(())
}
