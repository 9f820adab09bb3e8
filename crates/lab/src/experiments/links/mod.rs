//! Calibration of the emulator: does a line do what its settings say?
//!
//! Everything else measured in the laboratory rests on this. Packets are stamped by the
//! sending program and by the receiving kernel, so what is measured is the line, the emulator and the
//! kernel's way to it, but not when the receiving program gets to run.

mod changes;
mod delay;
mod loss;
mod periods;
mod rate;

use super::chosen::chosen;
use crate::context::Parts;
use crate::{Context, Experiment, Figure, Findings, IdleCores, LabError, Row};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use wayfs_link::{DirectionConfig, LineConfig};

/// The experiment.
pub(super) struct Links;

/// What one part found.
pub(super) struct Part {
    rows: Vec<Row>,
    figures: Vec<Figure>,
}

impl Experiment for Links {
    fn name(&self) -> &'static str {
        "links"
    }

    fn about(&self) -> &'static str {
        "Does the emulator do what the settings of a line say: delay, rate, loss, bad periods, changes?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["only"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        type Run = fn(&mut Context<'_>) -> Result<Part, LabError>;
        const PARTS: [(&str, Run); 5] = [
            ("delay", delay::run),
            ("rate", rate::run),
            ("loss", loss::run),
            ("periods", periods::run),
            ("changes", changes::run),
        ];
        let names = PARTS.map(|(name, _)| name);
        let wanted = chosen(context, "only", &names, |name| name)?;
        let parts: Vec<(&str, Run)> = PARTS.into_iter().filter(|(name, _)| wanted.contains(name)).collect();
        let mut findings = Findings { expected: EXPECTED.into(), ..Findings::default() };
        for (number, (name, run)) in parts.iter().enumerate() {
            context.progress(Parts { done: number, total: parts.len() }, name);
            let part = run(context)?;
            findings.rows.extend(part.rows);
            findings.figures.extend(part.figures);
        }
        context.progress(Parts { done: parts.len(), total: parts.len() }, "done");
        tell(&mut findings, context.idle_cores());
        Ok(findings)
    }
}

const EXPECTED: &str = "A line of our emulator delays every packet by what its model says, with an error below 100 us for 99 of 100 packets \
at 10 Mb/s; it carries 1 Gb/s of TCP; losses, bad periods and changes follow the settings within the error of counting. The model itself \
is exact and tested apart; what is measured here is the machine around it: the devices, the wake-ups of the emulator, the kernel.";

/// Says in words what the rows say.
fn tell(findings: &mut Findings, idle: &IdleCores) {
    let missed: Vec<&str> = findings
        .rows
        .iter()
        .filter(|row| row.verdict() == crate::Verdict::Missed)
        .map(|row| row.what.as_str())
        .collect();
    if missed.is_empty() {
        findings.came_out = "Everything came out as wanted.".into();
        return;
    }
    findings.came_out = format!("Not as wanted: {}. Everything else was.", missed.join("; "));
    findings.why_they_differ = "Delays too long and rates too low come from wake-ups of the emulator that the machine granted late (see its lateness below) or \
from a receiver that had no processor: repeat on an idle machine before believing in another cause. Losses, bad periods and changes are decided by the \
model; if one of those is missed, look for packets that the machine lost on top."
        .into();
    if let IdleCores::Refused(why) = idle {
        findings.why_they_differ +=
            &format!(" Cores slept between packets, since the machine did not let them be kept awake ({why}).");
    }
}

/// Both directions alike.
pub(super) fn symmetric(direction: DirectionConfig) -> crate::LinePlan {
    crate::LinePlan { config: LineConfig::symmetric(direction), ..crate::LinePlan::default() }
}

/// A Poisson process: waits with this mean, in seconds.
pub(super) struct Poisson {
    random: ChaCha8Rng,
    mean: f64,
}

impl Poisson {
    pub(super) fn new(seed: u64, mean: f64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), mean }
    }
}

impl Iterator for Poisson {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        // 53 bits are what a double holds exactly.
        let unit = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        Some(-(1.0 - unit).ln() * self.mean)
    }
}
