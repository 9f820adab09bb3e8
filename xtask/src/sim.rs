//! `cargo xtask sim`: replays one seed, or hunts through many.

use anyhow::{Context, Result, bail};
use std::sync::atomic::{AtomicU64, Ordering};
use wayfs_sim::{Plan, run, run_planned};

const USAGE: &str = "usage: cargo xtask sim SEED [--quiet] | cargo xtask sim --from A --count N [--failures K]";

/// Runs what the arguments ask for.
pub(crate) fn main(arguments: &[String]) -> Result<()> {
    match arguments {
        [seed] => replay(seed.parse().context(USAGE)?, true),
        [seed, quiet] if quiet == "--quiet" => replay(seed.parse().context(USAGE)?, false),
        [first, ..] if first.starts_with("--") => hunt(arguments),
        _ => bail!(USAGE),
    }
}

fn replay(seed: u64, verbose: bool) -> Result<()> {
    let plan = Plan::of_seed(seed);
    println!("{plan:#?}");
    let report = run_planned(plan, None, verbose);
    println!(
        "{} events, {} updates, {} reported safe, trace {:016x}",
        report.events, report.updates, report.safe, report.trace
    );
    match report.violations.first() {
        None => Ok(()),
        Some(violation) => bail!("seed {seed}: {violation}"),
    }
}

fn hunt(arguments: &[String]) -> Result<()> {
    let (mut from, mut count, mut failures_max) = (0, 1000, 5);
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { bail!(USAGE) };
        let value: u64 = value.parse().with_context(|| format!("{option} takes a number"))?;
        match option.as_str() {
            "--from" => from = value,
            "--count" => count = value,
            "--failures" => failures_max = value,
            _ => bail!(USAGE),
        }
    }
    let (next, failures, done) = (AtomicU64::new(from), AtomicU64::new(0), AtomicU64::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count || failures.load(Ordering::Relaxed) >= failures_max {
                        return;
                    }
                    let outcome = std::panic::catch_unwind(|| run(seed, None));
                    let line = match outcome {
                        Ok(report) => report.violations.first().map(ToString::to_string),
                        Err(_) => Some("the engine panicked".to_string()),
                    };
                    if let Some(line) = line {
                        failures.fetch_add(1, Ordering::Relaxed);
                        println!("seed {seed}: {line}");
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(500) {
                        eprintln!("{done} of {count} seeds");
                    }
                }
            });
        }
    });
    let (done, failures) = (done.into_inner(), failures.into_inner());
    println!("{done} seeds, {failures} failed");
    if failures > 0 { bail!("replay with: cargo xtask sim SEED") } else { Ok(()) }
}
