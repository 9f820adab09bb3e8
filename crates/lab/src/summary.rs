//! What a run of an experiment found: `summary.json`.

use crate::{Estimate, Figure, IdleCores, Lateness};
use serde::{Deserialize, Serialize};

/// What an experiment found.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// What we expected, and why.
    pub expected: String,
    /// What came out.
    pub came_out: String,
    /// Why the two differ, or why ours differs from what was published; empty if neither does.
    pub why_they_differ: String,
    /// Numbers, ours beside the published ones.
    pub rows: Vec<Row>,
    /// Plots.
    pub figures: Vec<Figure>,
}

/// A number of ours beside a published one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// In which unit.
    pub unit: String,
    /// What we measured.
    pub ours: Estimate,
    /// What others published, if they did.
    pub published: Option<f64>,
    /// What we wanted.
    pub aim: Aim,
    /// Anything to know about it.
    pub note: String,
}

/// What was wanted of a number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Aim {
    /// Nothing: it is there to be known.
    None,
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Between these.
    Between(f64, f64),
    /// The interval holds this (a frequency, a mean of a model).
    Holds(f64),
}

/// How a number came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Nothing was wanted.
    Open,
    /// As wanted.
    Met,
    /// Not as wanted.
    Missed,
}

impl Row {
    /// A row without published number and aim.
    pub fn new(what: impl Into<String>, unit: &str, ours: Estimate) -> Self {
        Self { what: what.into(), unit: unit.to_owned(), ours, published: None, aim: Aim::None, note: String::new() }
    }

    /// With the published number.
    #[must_use]
    pub const fn published(mut self, value: f64) -> Self {
        self.published = Some(value);
        self
    }

    /// With what is wanted.
    #[must_use]
    pub const fn aim(mut self, aim: Aim) -> Self {
        self.aim = aim;
        self
    }

    /// With a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// How it came out.
    pub fn verdict(&self) -> Verdict {
        let met = match self.aim {
            Aim::None => return Verdict::Open,
            Aim::AtLeast(least) => self.ours.mean >= least,
            Aim::AtMost(most) => self.ours.mean <= most,
            Aim::Between(low, high) => (low..=high).contains(&self.ours.mean),
            Aim::Holds(value) => self.ours.holds(value),
        };
        if met { Verdict::Met } else { Verdict::Missed }
    }
}

/// A run, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the experiment.
    pub experiment: String,
    /// What it is about.
    pub about: String,
    /// The seed that all its randomness comes from.
    pub seed: u64,
    /// Whether it was cut short to see that it works.
    pub quick: bool,
    /// Seconds since 1970 at its start.
    pub started: u64,
    /// How long it took.
    pub seconds: f64,
    /// Where it ran.
    pub machine: Machine,
    /// What its cores did while they had nothing to do.
    #[serde(default)]
    pub idle_cores: IdleCores,
    /// How late the emulator was, topology by topology.
    pub lateness: Vec<LatenessOf>,
    /// Files of raw data.
    pub data: Vec<String>,
    /// What it found.
    pub findings: Findings,
}

impl Summary {
    /// Parts that measured the machine and not the lines.
    pub fn rejected(&self) -> impl Iterator<Item = &LatenessOf> {
        self.lateness.iter().filter(|part| part.lateness.is_rejected())
    }

    /// Numbers that did not come out as wanted.
    pub fn missed(&self) -> impl Iterator<Item = &Row> {
        self.findings.rows.iter().filter(|row| row.verdict() == Verdict::Missed)
    }
}

/// How late the emulator was in one part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatenessOf {
    /// Which part.
    pub part: String,
    /// How late.
    pub lateness: Lateness,
}

/// Where a run took place.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Name of the processor.
    pub processor: String,
    /// Cores.
    pub cores: u64,
    /// Programs that were running or ready to when the run began, over the last minute.
    pub load: f64,
}

impl Machine {
    /// This one. What it does not tell stays empty.
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let processor = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: processor.map(|(_, name)| name.to_owned()).unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u64),
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aims_are_judged() {
        let row = Row::new("x", "s", Estimate { mean: 2.0, low: 1.5, high: 2.5, samples: 5 });
        let verdict = |aim| row.clone().aim(aim).verdict();
        assert_eq!(verdict(Aim::None), Verdict::Open);
        assert_eq!(verdict(Aim::AtLeast(2.0)), Verdict::Met);
        assert_eq!(verdict(Aim::AtMost(1.9)), Verdict::Missed);
        assert_eq!(verdict(Aim::Between(1.0, 3.0)), Verdict::Met);
        assert_eq!(verdict(Aim::Holds(2.4)), Verdict::Met);
        assert_eq!(verdict(Aim::Holds(2.6)), Verdict::Missed);
    }
}
