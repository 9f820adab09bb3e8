//! `cargo xtask mutants`: how many realistic bugs the tests and the simulator find.
//!
//! A **mutant** is a bug that a programmer could have made, as a snippet of the source and what would stand in its place
//! (`xtask/mutants/*.toml`). All of them are planted in a copy of the tree, each behind a switch, so that one build serves
//! for all; the tree that ships has no trace of them. Then each is switched on by itself: the unit tests of its crates run,
//! and the seeds of the simulator.
//!
//! A mutant that nobody notices shows what no test asks for. The results are kept (`xtask/mutants/results.tsv`), so that a
//! run can be ended at any time and goes on where it was.

mod list;
mod plant;
mod report;
mod results;
mod trial;

use anyhow::{Result, bail};
use list::Mutant;
use results::Results;
use std::path::{Path, PathBuf};

const USAGE: &str =
    "usage: cargo xtask mutants [NAME...] [--seeds N] [--again]   runs those of which there is no result yet
       cargo xtask mutants --check                         whether each can still be planted
       cargo xtask mutants --report                        the table of all results
--seeds N: of the simulator for each (2000); --again: also those of which there is a result";

/// What the arguments ask for.
struct Options {
    names: Vec<String>,
    seeds: u64,
    is_again: bool,
    task: Task,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Run,
    Check,
    Report,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { names: Vec::new(), seeds: 2000, is_again: false, task: Task::Run };
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            match argument.as_str() {
                "--check" => options.task = Task::Check,
                "--report" => options.task = Task::Report,
                "--again" => options.is_again = true,
                "--seeds" => match left.next().map(|number| number.parse()) {
                    Some(Ok(seeds)) => options.seeds = seeds,
                    _ => bail!("--seeds takes a number\n{USAGE}"),
                },
                option if option.starts_with('-') => bail!("unknown option `{option}`\n{USAGE}"),
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }
}

/// The root of the checkout.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Runs what the arguments ask for.
pub(crate) fn main(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let root = root();
    let mutants = list::read(&root.join("xtask/mutants"))?;
    if let Some(name) = options.names.iter().find(|name| mutants.iter().all(|mutant| mutant.name != **name)) {
        bail!("no mutant is called `{name}`");
    }
    let mut results = Results::read(&root.join("xtask/mutants/results.tsv"))?;
    match options.task {
        Task::Check => plant::check(&root, &mutants),
        Task::Report => {
            print!("{}", report::table(&mutants, &results));
            Ok(())
        }
        Task::Run => {
            let is_due = |mutant: &&Mutant| {
                let is_named = options.names.is_empty() || options.names.contains(&mutant.name);
                is_named && (options.is_again || results.of(&mutant.name).is_none())
            };
            let due: Vec<Mutant> = mutants.iter().filter(is_due).cloned().collect();
            run(&root, (&mutants, &due), &mut results, options.seeds)
        }
    }
}

fn run(root: &Path, (all, due): (&[Mutant], &[Mutant]), results: &mut Results, seeds: u64) -> Result<()> {
    let copy = plant::plant(root, all)?;
    let programs = trial::build(&copy)?;
    programs.check_without_mutants()?;
    for (at, mutant) in due.iter().enumerate() {
        let found = programs.find(mutant, seeds)?;
        println!("{} of {}: {}: {found}", at + 1, due.len(), mutant.name);
        results.put(&mutant.name, found)?;
    }
    print!("{}", report::score(all, results));
    Ok(())
}
