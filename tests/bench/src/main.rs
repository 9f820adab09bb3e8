//! `make bench`: what the mount costs, beside what it could cost at best.
//!
//! Every measurement runs on three places in the same run, interleaved: a plain directory
//! (native), a plain loopback FUSE file system over such a directory (the ceiling of small
//! operations), and a mounted volume. Figures are medians of the rounds; read the ratios,
//! the machine is noisy.

mod measure;
mod places;
mod reconcile;
mod safe;
mod table;

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["loopback", source, mountpoint] => places::serve_loopback(Path::new(source), Path::new(mountpoint)),
        [] => bench(3, None),
        ["--rounds", rounds] => bench(rounds.parse().context("--rounds takes a number")?, None),
        ["--json", file] => bench(3, Some(PathBuf::from(file))),
        _ => anyhow::bail!("usage: wayfs-bench [--rounds N | --json FILE]"),
    }
}

fn bench(rounds: usize, json: Option<PathBuf>) -> Result<()> {
    let places = places::Places::new()?;
    let mut rows = measure::files(&places, rounds)?;
    rows.extend(safe::time_to_safe(&places)?);
    rows.extend(reconcile::records()?);
    table::print(&rows);
    if let Some(file) = json {
        std::fs::write(&file, serde_json::to_vec_pretty(&table::json(&rows))?)
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
