//! The report of a run, for people.

use super::disaster::Kind;
use super::run::Failure;
use std::collections::BTreeMap;
use std::fmt::Write;

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
    /// What was found.
    pub failures: Vec<Failure>,
}

impl Round {
    /// How many losses there were.
    pub fn losses(&self) -> u64 {
        self.losses.values().sum()
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
        for failure in &self.failures {
            line(format!("\n## Seed {}, {:?}\n{}", failure.seed, failure.during, failure.what));
        }
        text
    }
}
