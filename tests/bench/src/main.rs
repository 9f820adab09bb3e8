//! `make bench`: what the mount costs, beside what it could cost at best.
//!
//! Every measurement runs on three places in the same run, interleaved: a plain directory
//! (native), a plain loopback FUSE file system over such a directory (the ceiling of small
//! operations), and a mounted volume. Figures are medians of the rounds; read the ratios,
//! the machine is noisy.

mod beside;
mod bytes;
mod door;
mod edits;
mod full_volume;
mod ground;
mod hop;
mod idle;
mod large_files;
mod listening;
mod measure;
mod meter;
mod metrics;
mod mixed;
mod options;
mod places;
mod reconcile;
mod removed;
mod safe;
mod scale;
mod site;
mod size;
mod small_files;
mod sweep;
mod table;
mod two_at_work;
mod unsent;

use anyhow::{Context, Result};
use options::Options;
use size::Size;
use std::path::Path;
use table::Row;

/// Most files unless said: that takes a few minutes; a million are measured on demand.
const FILES_MAX: usize = 100_000;

/// Rows with a station and a home beside the mount, by the word that chooses them, with how often each is measured.
type Group = (&'static str, fn(Size, usize) -> Result<Vec<Row>>);
/// All of them, those last that wait for long.
const GROUPS: [Group; 10] = [
    ("small", small_files::rows),
    ("large", large_files::rows),
    ("edits", edits::rows),
    ("mixed", mixed::rows),
    ("unsent", unsent::rows),
    ("full", full_volume::rows),
    ("sweep", sweep::rows),
    ("door", door::rows),
    ("idle", idle::rows),
    ("removed", removed::rows),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["loopback", source, mountpoint] => ground::serve_loopback(Path::new(source), Path::new(mountpoint)),
        ["sweep", shape, chunks, rounds] => {
            sweep::measure(shape, chunks.parse().context("a number of chunks")?, rounds.parse().context("of rounds")?)
        }
        ["scale", rest @ ..] => grow(rest),
        arguments => bench(&Options::read(arguments)?),
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

fn bench(options: &Options) -> Result<()> {
    let mut rows = alone(options)?;
    for (word, group) in GROUPS.into_iter().filter(|(word, _)| options.has_group(word)) {
        rows.extend(group(options.size, options.rounds).with_context(|| format!("the rows {word}"))?);
    }
    table::print(&rows);
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_vec_pretty(&table::json(&rows))?)
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

/// A mount at a home, without a station, and what needs no mount.
fn alone(options: &Options) -> Result<Vec<Row>> {
    let groups: Vec<&str> = GROUPS.iter().map(|(word, _)| *word).collect();
    if options.has_only(&groups) {
        return Ok(Vec::new());
    }
    let places = places::Places::new()?;
    let sources = measure::make_tree(places.scratch())?;
    let mut rows = measure::files(&places, &sources, options.rounds, |row| options.has_row(row))?;
    if options.has_group("events") {
        rows.extend(listening::costs(&places, options.rounds, &measure::lone_works(&sources))?);
    }
    if options.has_group("safe") {
        rows.extend(safe::time_to_safe(&places)?);
    }
    if options.has_group("two") {
        rows.extend(two_at_work::costs()?);
    }
    if options.has_group("reconcile") {
        rows.extend(reconcile::records()?);
    }
    if options.has_group("hop") {
        rows.extend(hop::costs()?);
    }
    Ok(rows)
}
