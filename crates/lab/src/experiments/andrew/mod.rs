//! The Andrew benchmark across wide areas, beside peers.
//!
//! A user copies a C program, looks at it, reads it and compiles it, all inside the file system: the benchmark of the Fluid
//! Replication thesis (5.3.1, table 5.3), whose client is on a LAN with its station, and whose station reaches the home over
//! one of eight wide areas. *Cold*: the sources are only at the home. *Warm*: the station has them, but not the client; for peers, which have
//! no station, the client's own caches are warm, which is more. The thesis divides each time by that of its local-area
//! scenario in the same state; so do we.
//!
//! The LAN is 100 Mb/s, as the thesis gives it for its later experiments (6.3); the wide areas are its table 5.2.

mod figures;
mod phases;
mod results;
mod rows;
mod trial;
mod witness;
mod words;
mod workload;

use super::chosen::{chosen, number, scenarios};
use crate::context::Parts;
use crate::corpus::CProgram;
use crate::peers::{self, PEERS, Peer};
use crate::{Context, Csv, Experiment, Findings, LabError};
use phases::{Outcome, PHASES};
use results::{Results, State};
use std::time::Duration;
use trial::{OURS, Setting, Trial};
use workload::Workload;

/// The experiment.
pub(super) struct Andrew;

/// The scenario that the others are divided by.
const BASE: &str = "local-area";
/// Scenarios of a quick run.
const QUICK_SCENARIOS: [&str; 3] = [BASE, "medium-distance", "intercontinental"];
/// Modules of the program of a quick run: an eighth of the whole.
const QUICK_MODULES: u32 = 6;

impl Experiment for Andrew {
    fn name(&self) -> &'static str {
        "andrew"
    }

    fn about(&self) -> &'static str {
        "How much does the wide area cost whoever copies, reads and compiles a program, beside other file systems?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["modules", "peer-bound-s", "peers", "scenarios", "trials"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let plan = Plan::of(context)?;
        let total = plan.settings.len() + plan.of_peers.len() + 1;
        context.progress(Parts { done: 0, total }, "local disk");
        let (workload, local) = Workload::on_local_disk(plan.program, plan.trials.max(2))?;
        let mut files = Files::new(context)?;
        for outcome in &local {
            files.outcome("local disk", "none", 0, "local", outcome)?;
        }
        let mut results = Results { local, missing: plan.missing, ..Results::default() };
        for (number, setting) in plan.settings.iter().enumerate() {
            context.progress(
                Parts { done: number + 1, total },
                &format!("{OURS}, {}, trial {}", setting.scenario, setting.number + 1),
            );
            let trial = trial::ours(context, *setting, &workload)?;
            files.trial(&trial, &workload)?;
            results.trials.push(trial);
        }
        for (number, (peer, setting)) in plan.of_peers.iter().enumerate() {
            let what = format!("{}, {}, trial {}", peer.name(), setting.scenario, setting.number + 1);
            context.progress(Parts { done: plan.settings.len() + number + 1, total }, &what);
            match trial::peer(context, *peer, *setting, &workload) {
                Ok(trial) => {
                    files.trial(&trial, &workload)?;
                    results.trials.push(trial);
                }
                Err(error) if error.is_forbidden() => return Err(error),
                // A peer that breaks is a finding about the peer, and the others are still to be measured.
                Err(error) => results.broken.push(format!("{what}: {error}")),
            }
        }
        context.progress(Parts { done: total, total }, "done");
        files.finish()?;
        Ok(findings(&results, &workload))
    }
}

fn findings(results: &Results, workload: &Workload) -> Findings {
    Findings {
        expected: words::EXPECTED.into(),
        came_out: words::came_out(results, workload),
        why_they_differ: words::why(results),
        rows: rows::rows(results, workload),
        figures: figures::figures(results),
    }
}

/// What is to be run.
struct Plan {
    program: CProgram,
    trials: u32,
    settings: Vec<Setting>,
    of_peers: Vec<(&'static dyn Peer, Setting)>,
    missing: Vec<String>,
}

impl Plan {
    fn of(context: &Context<'_>) -> Result<Self, LabError> {
        let modules = number(context, "modules", context.choose(QUICK_MODULES, 0_u32))?;
        let program = if modules > 0 { CProgram::new(modules as usize, 1) } else { CProgram::of_the_benchmark() };
        let trials = number(context, "trials", context.choose(1, 5))?;
        let bound = Duration::from_secs(number(context, "peer-bound-s", context.choose(25, 480))?);
        let all = scenarios();
        // Who names scenarios may have any, also in a quick run.
        let is_quick = context.is_quick() && context.setting("scenarios").is_none();
        let scenarios = if is_quick { QUICK_SCENARIOS.to_vec() } else { all };
        let scenarios = chosen(context, "scenarios", &scenarios, |name| name)?;
        let setting = |scenario, number, bound| Setting { scenario, number, bound };
        // Trials are outermost: what else the machine does for a while falls on all scenarios.
        let ours_bound = Duration::from_secs(600);
        let settings: Vec<Setting> = (0..trials)
            .flat_map(|trial| scenarios.iter().map(move |scenario| setting(*scenario, trial, ours_bound)))
            .collect();
        let mut of_peers = Vec::new();
        let mut missing = Vec::new();
        for peer in chosen(context, "peers", PEERS, |peer| peer.name())? {
            let programs = peers::missing(peer);
            if !programs.is_empty() {
                missing.push(format!("{} (no {})", peer.name(), programs.join(", ")));
                continue;
            }
            let quick = context.choose(2, usize::MAX);
            for scenario in scenarios.iter().take(quick) {
                // Far away a trial of a peer takes minutes, and what it shows is no matter of a few per cent.
                let trials = if *scenario == BASE { trials.min(3) } else { 1 };
                of_peers.extend((0..trials).map(|trial| (peer, setting(*scenario, trial, bound))));
            }
        }
        Ok(Self { program, trials, settings, of_peers, missing })
    }
}

/// The raw data.
struct Files {
    times: Csv,
    crossed: Csv,
    safety: Csv,
}

impl Files {
    fn new(context: &mut Context<'_>) -> Result<Self, LabError> {
        let times = ["system", "scenario", "trial", "state", "phase", "seconds", "programs_busy_s"];
        let crossed = ["system", "scenario", "trial", "state", "from_home_bytes", "to_home_bytes"];
        let safety = ["system", "scenario", "trial", "files", "safe_at_return", "all_safe_after_s"];
        Ok(Self {
            times: context.csv("times", &times)?,
            crossed: context.csv("crossed", &crossed)?,
            safety: context.csv("safety", &safety)?,
        })
    }

    fn trial(&mut self, trial: &Trial, workload: &Workload) -> Result<(), LabError> {
        let Setting { scenario, number, .. } = trial.setting;
        for state in State::BOTH {
            if let Some(outcome) = state.outcome(trial) {
                self.outcome(trial.system, scenario, number, state.name(), outcome)?;
                let [from, to] = outcome.crossed.map(|len| len.to_string());
                let trial_number = number.to_string();
                self.crossed.row(&[trial.system, scenario, &trial_number, state.name(), &from, &to])?;
            }
        }
        let unknown = || "unknown".to_owned();
        self.safety.row(&[
            trial.system.to_owned(),
            scenario.to_owned(),
            number.to_string(),
            workload.files().to_string(),
            trial.safe.map_or_else(unknown, |safe| safe.to_string()),
            trial.drained.map_or_else(unknown, |seconds| format!("{seconds:.3}")),
        ])
    }

    fn outcome(&mut self, system: &str, scenario: &str, trial: u32, state: &str, o: &Outcome) -> Result<(), LabError> {
        let names = PHASES.iter().map(|phase| phase.name);
        let mut lines: Vec<(&str, f64)> = names.zip(o.seconds.iter().copied()).collect();
        lines.push((if o.given_up.is_some() { "given up" } else { "total" }, o.total()));
        for (phase, seconds) in lines {
            let busy = if phase == "total" { format!("{:.3}", o.busy) } else { String::new() };
            let trial = trial.to_string();
            self.times.row(&[system, scenario, &trial, state, phase, &format!("{seconds:.4}"), &busy])?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), LabError> {
        self.times.finish()?;
        self.crossed.finish()?;
        self.safety.finish()
    }
}
