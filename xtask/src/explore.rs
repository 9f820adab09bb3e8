//! `cargo xtask explore`: every order of events of small scripts, to a bound.

use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};
use wayfs_sim::explore::{Bounds, Explored, Path, explore, run_path, scripts};
use wayfs_sim::{Bug, Verbosity};

const USAGE: &str = "usage: cargo xtask explore [--script NAME] [--delays N] [--faults N] [--points N] [--budget SECONDS] [--bug NAME] [--json]
       cargo xtask explore --script NAME --path PATH [--bug NAME] [--quiet]
Runs each script with all orders that differ in at most N places (1) from the order of time, and at most N faults (0); a script gets
SECONDS (60). --path runs one path again and prints everything that happens: docs/simulator.md";

struct Options {
    script: Option<String>,
    bounds: Bounds,
    budget: Duration,
    bug: Option<Bug>,
    path: Option<Path>,
    is_json: bool,
    verbosity: Verbosity,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let (script, bug, path, bounds, verbosity) = (None, None, None, Bounds::default(), Verbosity::Verbose);
        let budget = Duration::from_secs(60);
        let mut options = Self { script, bounds, budget, bug, path, is_json: false, verbosity };
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            let mut value = || left.next().with_context(|| format!("{argument} takes a value\n{USAGE}"));
            match argument.as_str() {
                "--script" => options.script = Some(value()?.clone()),
                "--delays" => options.bounds.delays = value()?.parse().context(USAGE)?,
                "--faults" => options.bounds.faults = value()?.parse().context(USAGE)?,
                "--points" => options.bounds.points = value()?.parse().context(USAGE)?,
                "--budget" => options.budget = Duration::from_secs(value()?.parse().context(USAGE)?),
                "--bug" => options.bug = Some(bug_of(value()?)?),
                "--path" => options.path = Some(value()?.parse()?),
                "--json" => options.is_json = true,
                "--quiet" => options.verbosity = Verbosity::Quiet,
                other => bail!("unknown option `{other}`\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

fn bug_of(name: &str) -> Result<Bug> {
    let known = || Bug::ALL.map(|bug| format!("{bug:?}")).join(", ");
    let found = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    found.with_context(|| format!("no planted bug is called `{name}`; there are {}", known()))
}

/// Runs what the arguments ask for.
pub(crate) fn main(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if let (Some(path), Some(script)) = (&options.path, &options.script) {
        return again(script, path, &options);
    }
    let mut broken = 0;
    for script in scripts().filter(|name| options.script.as_deref().is_none_or(|wanted| wanted == *name)) {
        broken += usize::from(explore_one(script, &options)?);
    }
    match broken {
        0 => Ok(()),
        _ => bail!("{broken} scripts break a promise"),
    }
}

/// Whether the script breaks a promise.
fn explore_one(script: &str, options: &Options) -> Result<bool> {
    let began = Instant::now();
    let explored = explore(script, options.bug, options.bounds, &mut |_| began.elapsed() < options.budget);
    let explored = explored.with_context(|| unknown(script))?;
    if options.is_json {
        println!("{}", json(script, &explored, options, began.elapsed()));
    } else {
        show(script, &explored, options, began.elapsed());
    }
    Ok(explored.broken.is_some())
}

fn show(script: &str, explored: &Explored, options: &Options, took: Duration) {
    let Explored { states, paths, merged, depth, is_finished, broken } = explored;
    let end = if *is_finished { "finished" } else { "not finished" };
    println!(
        "{script}: {states} states, {paths} paths ({merged} came to a state that was seen), depth {depth}, {end} within {} delays and {} faults, {:.1} s",
        options.bounds.delays,
        options.bounds.faults,
        took.as_secs_f64()
    );
    if let Some((path, violation)) = broken {
        let bug = options.bug.map(|bug| format!(" --bug {bug:?}")).unwrap_or_default();
        println!("  {violation}\n  run it again with: cargo xtask explore --script {script}{bug} --path '{path}'");
    }
}

fn json(script: &str, explored: &Explored, options: &Options, took: Duration) -> String {
    let broken = explored.broken.as_ref();
    serde_json::json!({
        "script": script,
        "states": explored.states,
        "paths": explored.paths,
        "merged": explored.merged,
        "depth": explored.depth,
        "finished": explored.is_finished,
        "delays": options.bounds.delays,
        "faults": options.bounds.faults,
        "seconds": took.as_secs_f64(),
        "path": broken.map(|(path, _)| path.to_string()),
        "broken": broken.map(|(_, violation)| violation.to_string()),
    })
    .to_string()
}

fn again(script: &str, path: &Path, options: &Options) -> Result<()> {
    let ran = run_path(script, options.bug, path, options.verbosity).with_context(|| unknown(script))?;
    match ran {
        Ok(()) => {
            println!("{script}, path '{path}': no promise is broken");
            Ok(())
        }
        Err(violation) => bail!("{script}, path '{path}': {violation}"),
    }
}

fn unknown(script: &str) -> String {
    format!("no script is called `{script}`; there are {}", scripts().collect::<Vec<_>>().join(", "))
}
