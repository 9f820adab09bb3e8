//! `make bench`: what the mount costs, beside what it could cost at best.
//!
//! Every measurement runs on three places in the same run, interleaved: a plain directory
//! (native), a plain loopback FUSE file system over such a directory (the ceiling of small
//! operations), and a mounted volume. Figures are medians of the rounds; read the ratios,
//! the machine is noisy.

mod hop;
mod listening;
mod measure;
mod places;
mod reconcile;
mod safe;
mod scale;
mod table;
mod two_at_work;

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Most files unless said: that takes a few minutes; a million are measured on demand.
const FILES_MAX: usize = 100_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["loopback", source, mountpoint] => places::serve_loopback(Path::new(source), Path::new(mountpoint)),
        [] => bench(3, None),
        ["--rounds", rounds] => bench(rounds.parse().context("--rounds takes a number")?, None),
        ["--json", file] => bench(3, Some(PathBuf::from(file))),
        ["scale", rest @ ..] => grow(rest),
        ["--rows", words, "--rounds", rounds] => {
            let words: Vec<&str> = words.split(',').collect();
            some_rows(&words, rounds.parse().context("--rounds takes a number")?)
        }
        _ => anyhow::bail!(
            "usage: wayfs-bench [--rounds N | --json FILE | --rows WORD,… --rounds N | scale [--only WORD] [--files-max N] [--json FILE]]"
        ),
    }
}

/// How costs grow, as `scale` is told to measure it.
fn grow(mut arguments: &[&str]) -> Result<()> {
    let (mut word, mut files_max, mut json) = ("", FILES_MAX, None);
    while let [name, value, rest @ ..] = arguments {
        match *name {
            "--only" => word = value,
            "--files-max" => files_max = value.parse().context("--files-max takes a number")?,
            "--json" => json = Some(Path::new(*value)),
            other => anyhow::bail!("scale does not know {other}"),
        }
        arguments = rest;
    }
    anyhow::ensure!(arguments.is_empty(), "{} takes a value", arguments[0]);
    scale::run(word, files_max, json)
}

/// Only the rows about files whose names contain one of the words, the time to safe for the word `safe`, two machines at work for `two`, a lone
/// one while a program listens for `events`, and what the tools for a bad hop cost for `hop`: for measuring while working. A row that needs
/// the files of another (`rm -r` those of `tar` and `clone`) needs it to be chosen, too.
fn some_rows(words: &[&str], rounds: usize) -> Result<()> {
    let places = places::Places::new()?;
    let sources = measure::make_tree(places.scratch())?;
    let mut rows = measure::files(&places, &sources, rounds, |row| words.iter().any(|word| row.contains(word)))?;
    if words.contains(&"events") {
        rows.extend(listening::costs(&places, rounds, &measure::lone_works(&sources))?);
    }
    if words.contains(&"safe") {
        rows.extend(safe::time_to_safe(&places)?);
    }
    if words.contains(&"two") {
        rows.extend(two_at_work::costs()?);
    }
    if words.contains(&"hop") {
        rows.extend(hop::costs()?);
    }
    table::print(&rows);
    Ok(())
}

fn bench(rounds: usize, json: Option<PathBuf>) -> Result<()> {
    let places = places::Places::new()?;
    let sources = measure::make_tree(places.scratch())?;
    let mut rows = measure::files(&places, &sources, rounds, |_| true)?;
    rows.extend(listening::costs(&places, rounds, &measure::lone_works(&sources))?);
    rows.extend(safe::time_to_safe(&places)?);
    rows.extend(two_at_work::costs()?);
    rows.extend(reconcile::records()?);
    rows.extend(hop::costs()?);
    table::print(&rows);
    if let Some(file) = json {
        std::fs::write(&file, serde_json::to_vec_pretty(&table::json(&rows))?)
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
