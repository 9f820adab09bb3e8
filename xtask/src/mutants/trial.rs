//! Building the copy, and running it with one mutant switched on.

use super::list::Mutant;
use super::plant::SWITCH;
use super::results::{Found, Seeds};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Crates whose unit tests are run, and by the bugs of which crates.
const TESTED: [(&str, &[&str]); 10] = [
    ("tree", &["tree"]),
    ("proto", &["tree", "proto"]),
    ("policy", &["policy"]),
    ("content", &["content"]),
    ("roam", &["roam"]),
    ("store", &["store"]),
    ("transfer", &["transfer"]),
    ("openfiles", &["openfiles"]),
    ("node", &["node", "content", "roam", "transfer"]),
    ("client", &["client"]),
];
/// Of these, what has tests in a folder of their own that look at it alone.
const WITH_A_FOLDER_OF_TESTS: [&str; 1] = ["tree"];
/// Crates that the simulator runs.
const SIMULATED: [&str; 7] = ["tree", "proto", "policy", "roam", "transfer", "openfiles", "store"];
/// Of these, what not all seeds have, and what they are told to have it.
const TOLD: [(&str, &str); 2] = [("openfiles", "open-files"), ("store", "stores")];
/// Longest time for the tests of a crate, or for the seeds. A program that never ends is noticed, too.
const BOUND: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(50);
/// So many tests of a crate may fail only in company.
const UNSTEADY_MAX: usize = 4;
const NOT_ENDED: &str = "did not end, or not by itself";

/// What was built.
pub(super) struct Programs {
    /// By crate: its tests, and where they run.
    tests: BTreeMap<&'static str, Vec<(PathBuf, PathBuf)>>,
    simulator: PathBuf,
}

/// How a run ended.
struct Ended {
    is_well: bool,
    output: String,
}

/// Builds the tests and the simulator of a copy.
pub(super) fn build(copy: &Path) -> Result<Programs> {
    let target = copy.with_file_name("build");
    println!("Building all mutants in {} (ten minutes the first time)", target.display());
    let mut packages = Vec::new();
    for (name, _) in TESTED {
        packages.extend(["--package".to_owned(), format!("wayfs-{name}")]);
    }
    let cargo = || {
        let mut cargo = Command::new("cargo");
        // What the switches make unused is no error.
        cargo.current_dir(copy).env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "--cap-lints=warn -Awarnings");
        cargo
    };
    let mut tests: BTreeMap<&'static str, Vec<(PathBuf, PathBuf)>> = BTreeMap::new();
    let folders = WITH_A_FOLDER_OF_TESTS.iter().flat_map(|name| ["--package".to_owned(), format!("wayfs-{name}")]);
    for (kind, packages) in [(&["--lib"][..], packages), (&["--test", "*"], folders.collect())] {
        let mut cargo = cargo();
        cargo.args(["test", "--quiet", "--no-run", "--message-format=json"]).args(kind).args(&packages);
        let built = cargo.stderr(Stdio::inherit()).output().context("run cargo")?;
        if !built.status.success() {
            bail!("the copy with the mutants does not build");
        }
        for (name, program) in executables(&String::from_utf8_lossy(&built.stdout), copy) {
            tests.entry(name).or_default().push((program, copy.join("crates").join(name)));
        }
    }
    if !cargo().args(["build", "--quiet", "--profile", "sim", "--package", "xtask"]).status()?.success() {
        bail!("the simulator with the mutants does not build");
    }
    Ok(Programs { tests, simulator: target.join("sim/xtask") })
}

/// The programs that cargo says that it built, by crate.
fn executables(messages: &str, copy: &Path) -> Vec<(&'static str, PathBuf)> {
    let of = |line: &str| {
        let message = serde_json::from_str::<Value>(line).ok()?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let (name, _) = TESTED.iter().find(|(name, _)| manifest.starts_with(copy.join("crates").join(name)))?;
        Some((*name, PathBuf::from(message["executable"].as_str()?)))
    };
    messages.lines().filter_map(of).collect()
}

impl Programs {
    /// What fails without any mutant finds none.
    pub(super) fn check_without_mutants(&self) -> Result<()> {
        for (name, places) in &self.tests {
            for place in places {
                if let Some((failed, output)) = first_that_fails(place, None)? {
                    bail!("{failed} of {name} fails without a mutant:\n{output}");
                }
            }
        }
        Ok(())
    }

    /// Who notices a mutant.
    pub(super) fn find(&self, mutant: &Mutant, seeds: u64) -> Result<Found> {
        let mut test = None;
        'crates: for (name, _) in TESTED.iter().filter(|(_, of)| of.contains(&mutant.crate_name())) {
            for place in self.tests.get(name).with_context(|| format!("{name} has tests"))? {
                if let Some((failed, _)) = first_that_fails(place, Some(mutant))? {
                    test = Some(format!("{name}: {failed}"));
                    break 'crates;
                }
            }
        }
        let seeds =
            if SIMULATED.contains(&mutant.crate_name()) { self.simulate(mutant, seeds)? } else { Seeds::NotRun };
        Ok(Found { test, seeds })
    }

    fn simulate(&self, mutant: &Mutant, seeds: u64) -> Result<Seeds> {
        let mut command = Command::new(&self.simulator);
        command.args(["sim", "--from", "0", "--failures", "1", "--count", &seeds.to_string()]);
        if let Some((_, told)) = TOLD.iter().find(|(name, _)| *name == mutant.crate_name()) {
            command.args(["--with", told]);
        }
        let ended = bounded(command.env(SWITCH, &mutant.name))?;
        let mut noticed = ended.output.lines().filter_map(|line| line.strip_prefix("seed ")?.split(':').next());
        match noticed.next().map(str::parse) {
            Some(Ok(seed)) => Ok(Seeds::Noticed(seed)),
            // It ended otherwise than well, or not at all, and did not say by which seed.
            _ if !ended.is_well && !ended.output.contains("never came by") => Ok(Seeds::Noticed(0)),
            _ => Ok(Seeds::Clean(seeds)),
        }
    }
}

/// The first test that fails, and fails again by itself: on a busy machine one may fail that has nothing to do with the mutant. With what was
/// printed.
fn first_that_fails(place: &(PathBuf, PathBuf), mutant: Option<&Mutant>) -> Result<Option<(String, String)>> {
    let mut unsteady: Vec<String> = Vec::new();
    loop {
        let skips: Vec<&str> = unsteady.iter().flat_map(|name| ["--skip", name]).collect();
        let ended = run_tests(place, &skips, mutant)?;
        let failed = match first_failed(&ended.output) {
            _ if ended.is_well => return Ok(None),
            Some(failed) if unsteady.len() < UNSTEADY_MAX => failed.to_owned(),
            Some(failed) => return Ok(Some((failed.to_owned(), ended.output))),
            None => return Ok(Some((NOT_ENDED.to_owned(), ended.output))),
        };
        if !run_tests(place, &[&failed], mutant)?.is_well {
            return Ok(Some((failed, ended.output)));
        }
        unsteady.push(failed);
    }
}

/// Runs the tests of a crate, or those of exactly these names.
fn run_tests((program, place): &(PathBuf, PathBuf), names: &[&str], mutant: Option<&Mutant>) -> Result<Ended> {
    let mut command = Command::new(program);
    command.current_dir(place).arg("--exact").args(names);
    if let Some(mutant) = mutant {
        command.env(SWITCH, &mutant.name);
    }
    bounded(&mut command)
}

/// The name of a test that failed, by the output of its binary.
fn first_failed(output: &str) -> Option<&str> {
    output.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

/// Runs a program for so long at most.
fn bounded(command: &mut Command) -> Result<Ended> {
    let log = tempfile()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .env("RUST_BACKTRACE", "0")
        .spawn()
        .with_context(|| format!("run {command:?}"))?;
    let end = Instant::now() + BOUND;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(PAUSE);
    };
    let mut output = Vec::new();
    let mut log = log;
    std::io::Seek::rewind(&mut log)?;
    log.read_to_end(&mut output)?;
    let output = String::from_utf8_lossy(&output).into_owned();
    Ok(Ended { is_well: status.is_some_and(|status| status.success()), output })
}

/// A file that is gone when it is closed.
fn tempfile() -> Result<std::fs::File> {
    let path = std::env::temp_dir().join(format!("wayfs-mutants-{}.log", std::process::id()));
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_test_that_failed_is_named() {
        let output = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest a::d ... FAILED\n";
        assert_eq!(first_failed(output), Some("a::c"));
        assert_eq!(first_failed("thread panicked"), None);
    }

    #[test]
    fn what_cargo_built_is_found_by_its_crate() {
        let built = |manifest: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/copy/crates/{manifest}/Cargo.toml","executable":{executable}}}"#
            )
        };
        let messages = [built("tree", r#""/b/changes""#), built("tree", "null"), built("other", r#""/b/other""#)];
        let found = executables(&messages.join("\n"), Path::new("/copy"));
        assert_eq!(found, [("tree", PathBuf::from("/b/changes"))]);
    }

    #[test]
    fn a_run_ends_as_its_program_does() {
        let ended = bounded(Command::new("sh").args(["-c", "echo so; exit 3"])).unwrap();
        assert_eq!((ended.is_well, ended.output.as_str()), (false, "so\n"));
        assert!(bounded(&mut Command::new("true")).unwrap().is_well);
    }
}
