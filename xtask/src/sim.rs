//! `cargo xtask sim`: replays one seed, hunts through many, or looks for the planted bugs.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use wayfs_sim::{Branch, Bug, Coverage, Disaster, Plan, Report, Verbosity, run_planned, shrink};

const USAGE: &str = "usage: cargo xtask sim SEED [--quiet] [--with DISASTER,...] [--without DISASTER,...] [--may DISASTER,...]
       cargo xtask sim --from A --count N [--failures K] [--with DISASTER,...] [--without DISASTER,...] [--may DISASTER,...]
       cargo xtask sim --planted [--count N]
       cargo xtask sim --shrink SEED [--runs N] [--with DISASTER,...] [--without DISASTER,...] [--may DISASTER,...]
--with makes disasters happen in every seed, also those that are off; --without keeps them away; --may draws those that are off like
the others: docs/simulator.md
--shrink leaves out of a seed that fails what it fails without, in at most N runs (400), and prints what is left";

/// Seeds from which on a hunt must have come by every branch.
const COVERING: u64 = 1000;

/// What the arguments ask for.
struct Options {
    seed: Option<u64>,
    verbosity: Verbosity,
    is_planted: bool,
    is_shrunk: bool,
    runs: u64,
    from: u64,
    count: u64,
    failures_max: u64,
    with: Vec<Disaster>,
    without: Vec<Disaster>,
    also: Vec<Disaster>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            seed: None,
            verbosity: Verbosity::Verbose,
            is_planted: false,
            is_shrunk: false,
            runs: 400,
            from: 0,
            count: 1000,
            failures_max: 5,
            with: Vec::new(),
            without: Vec::new(),
            also: Vec::new(),
        };
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            let mut number = || -> Result<u64> {
                let value = left.next().with_context(|| format!("{argument} takes a number"))?;
                value.parse().with_context(|| format!("{argument} takes a number"))
            };
            match argument.as_str() {
                "--quiet" => options.verbosity = Verbosity::Quiet,
                "--shrink" => options.is_shrunk = true,
                "--runs" => options.runs = number()?,
                "--planted" => options.is_planted = true,
                "--from" => options.from = number()?,
                "--count" => options.count = number()?,
                "--failures" => options.failures_max = number()?,
                "--with" => options.with = disasters(left.next().context(USAGE)?)?,
                "--without" => options.without = disasters(left.next().context(USAGE)?)?,
                "--may" => options.also = disasters(left.next().context(USAGE)?)?,
                seed => options.seed = Some(seed.parse().context(USAGE)?),
            }
        }
        Ok(options)
    }

    fn plan(&self, seed: u64) -> Plan {
        Plan::with(seed, &self.may(), &self.with)
    }

    /// Disasters that may happen in a seed.
    fn may(&self) -> Vec<Disaster> {
        let on = Disaster::ON.into_iter().chain(self.also.iter().copied().filter(|also| !Disaster::ON.contains(also)));
        on.filter(|disaster| !self.without.contains(disaster)).collect()
    }

    /// What replays a seed.
    fn replay(&self, seed: u64) -> String {
        let mut line = format!("cargo xtask sim {seed}");
        for (option, disasters) in [("--with", &self.with), ("--without", &self.without), ("--may", &self.also)] {
            let named = Disaster::ALL.iter().filter(|(_, disaster)| disasters.contains(disaster));
            let names: Vec<&str> = named.map(|(name, _)| *name).collect();
            if !names.is_empty() {
                line = format!("{line} {option} {}", names.join(","));
            }
        }
        line
    }
}

fn disasters(names: &str) -> Result<Vec<Disaster>> {
    let known = Disaster::ALL.map(|(name, _)| name).join(", ");
    let find = |name: &str| {
        let found = Disaster::ALL.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, disaster)| *disaster)
            .with_context(|| format!("no disaster is called `{name}`; there are {known}"))
    };
    names.split(',').map(find).collect()
}

/// Runs what the arguments ask for.
pub(crate) fn main(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    match options.seed {
        _ if options.is_planted => planted(&options),
        Some(seed) if options.is_shrunk => shrink_seed(&options, seed),
        None if options.is_shrunk => bail!(USAGE),
        Some(seed) => replay(&options, seed),
        None if arguments.is_empty() => bail!(USAGE),
        None => hunt(&options),
    }
}

fn replay(options: &Options, seed: u64) -> Result<()> {
    let plan = options.plan(seed);
    println!("{plan:#?}");
    let report = run_planned(plan, None, options.verbosity);
    println!(
        "{} events, {} updates, {} reported safe, trace {:016x}",
        report.events, report.updates, report.safe, report.trace
    );
    match report.violations.first() {
        None => Ok(()),
        Some(violation) => bail!("seed {seed}: {violation}"),
    }
}

/// Prints the short script of a seed that fails.
fn shrink_seed(options: &Options, seed: u64) -> Result<()> {
    let runs_max = usize::try_from(options.runs).context(USAGE)?;
    let Some(shrunk) = shrink(options.plan(seed), runs_max) else {
        println!("seed {seed} breaks no promise: there is nothing to shrink");
        return Ok(());
    };
    let script = &shrunk.report.script;
    println!("{:#?}", Plan { without: BTreeSet::new(), ..shrunk.plan.clone() });
    println!("{} of {} steps are left after {} runs:", script.len(), shrunk.steps_before, shrunk.runs);
    script.iter().for_each(|(_, line)| println!("{line}"));
    let broken = shrunk.report.violations.first().map(ToString::to_string).unwrap_or_default();
    bail!("seed {seed}: {broken}")
}

/// What a hunt gathers over its seeds.
#[derive(Default)]
struct Gathered {
    coverage: Coverage,
    updates: usize,
    safe: usize,
}

fn hunt(options: &Options) -> Result<()> {
    let (next, failures, done) = (AtomicU64::new(options.from), AtomicU64::new(0), AtomicU64::new(0));
    let gathered = Mutex::new(Gathered::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = failures.load(Ordering::Relaxed) >= options.failures_max;
                    if seed >= options.from + options.count || is_over {
                        return;
                    }
                    if let Some(line) = try_seed(options, seed, &gathered) {
                        failures.fetch_add(1, Ordering::Relaxed);
                        println!("seed {seed}: {line}\n  replay with: {}", options.replay(seed));
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(500) {
                        eprintln!("{done} of {} seeds", options.count);
                    }
                }
            });
        }
    });
    let (done, failures) = (done.into_inner(), failures.into_inner());
    let gathered = gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{done} seeds, {} updates, {} of them reported safe, {failures} failed", gathered.updates, gathered.safe);
    if failures > 0 {
        bail!("{failures} seeds failed");
    }
    check_coverage(options, done, &gathered.coverage)
}

/// Runs one seed; what is wrong with it.
fn try_seed(options: &Options, seed: u64, gathered: &Mutex<Gathered>) -> Option<String> {
    let outcome = std::panic::catch_unwind(|| run_planned(options.plan(seed), None, Verbosity::Quiet));
    let Ok(Report { coverage, updates, safe, violations, .. }) = outcome else {
        return Some("the engine panicked".to_owned());
    };
    let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
    gathered.coverage.extend(coverage);
    gathered.updates += updates;
    gathered.safe += safe;
    violations.first().map(ToString::to_string)
}

/// A long hunt that never came by a branch looked elsewhere, and proves nothing of it.
fn check_coverage(options: &Options, done: u64, coverage: &Coverage) -> Result<()> {
    let may = |branch: &Branch| {
        branch.needs().is_none_or(|needed| options.with.contains(&needed) || options.may().contains(&needed))
    };
    let missed: BTreeSet<Branch> = Branch::ALL.into_iter().filter(may).filter(|b| !coverage.contains(b)).collect();
    if missed.is_empty() || done < COVERING {
        return Ok(());
    }
    bail!("{done} seeds never came by {missed:?}")
}

/// Looks for the first seed that finds each planted bug.
fn planted(options: &Options) -> Result<()> {
    let mut unnoticed = Vec::new();
    for bug in Bug::ALL {
        let seeds = options.from..options.from + options.count;
        let found = seeds.clone().find_map(|seed| Some((seed, bug.found_by(seed)?)));
        match found {
            Some((seed, violation)) => println!("{bug:?}: seed {seed}: {}", violation.promise),
            None => unnoticed.push(bug),
        }
    }
    if unnoticed.is_empty() { Ok(()) } else { bail!("unnoticed for {} seeds: {unnoticed:?}", options.count) }
}
