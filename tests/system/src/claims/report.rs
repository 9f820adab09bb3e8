//! The report of a run, for people.

use super::disaster::Kind;
use super::run::Failure;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What was done and found in all worlds.
#[derive(Debug, Default)]
pub struct Round {
    /// Worlds that were begun.
    pub worlds: u64,
    /// Losses by kind.
    pub losses: BTreeMap<Kind, u64>,
    /// Claims by kind.
    pub claims: BTreeMap<&'static str, u64>,
    /// Contents written.
    pub pieces: u64,
    /// Comparisons of numbers that met no change.
    pub compared: u64,
    /// Contents that nobody can read, since a later version of the file is before them whose bytes died with its writer.
    pub shadowed: u64,
    /// Where the time of all worlds went.
    pub spent: BTreeMap<&'static str, Duration>,
    /// What was found.
    pub failures: Vec<Failure>,
}

impl Round {
    /// How many losses there were.
    pub fn losses(&self) -> u64 {
        self.losses.values().sum()
    }

    /// Does something, and counts its time.
    pub(super) fn spend<T>(&mut self, on: &'static str, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let value = work();
        *self.spent.entry(on).or_default() += begin.elapsed();
        value
    }

    /// Adds what another did and found.
    pub(super) fn add(&mut self, other: Self) {
        let Self { worlds, losses, claims, pieces, compared, shadowed, spent, failures } = other;
        self.worlds += worlds;
        self.pieces += pieces;
        self.compared += compared;
        self.shadowed += shadowed;
        self.failures.extend(failures);
        for (kind, count) in losses {
            *self.losses.entry(kind).or_default() += count;
        }
        for (kind, count) in claims {
            *self.claims.entry(kind).or_default() += count;
        }
        for (on, time) in spent {
            *self.spent.entry(on).or_default() += time;
        }
    }

    /// The report.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |words: String| {
            let _ = writeln!(text, "{words}");
        };
        line(format!(
            "{} losses in {} worlds, {} contents, {} claims, {} comparisons of numbers, {} contents behind lost versions, {} failures",
            self.losses(),
            self.worlds,
            self.pieces,
            self.claims.values().sum::<u64>(),
            self.compared,
            self.shadowed,
            self.failures.len()
        ));
        line(String::new());
        line("| disaster | times |\n| --- | --- |".to_owned());
        for (kind, count) in &self.losses {
            line(format!("| {kind:?} | {count} |"));
        }
        line(String::new());
        line("| claim | times |\n| --- | --- |".to_owned());
        for (kind, count) in &self.claims {
            line(format!("| {kind} | {count} |"));
        }
        line(String::new());
        line("| time of all worlds | seconds |\n| --- | --- |".to_owned());
        for (on, time) in &self.spent {
            line(format!("| {on} | {} |", time.as_secs()));
        }
        for failure in &self.failures {
            line(format!("\n## Seed {}, {:?}\n{}", failure.seed, failure.during, failure.what));
        }
        text
    }
}
