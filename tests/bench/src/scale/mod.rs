//! `make bench-scale`: what one operation costs as a volume grows.
//!
//! Engines over tables in memory do the same work at growing sizes, and all of it is counted: what they read and
//! write, what they send, and what time of a processor they take. The counts do not depend on the machine, so a test
//! can hold that none of them grows with the size of something that the operation has nothing to do with.

mod costs;
mod counting;
mod report;
mod world;

use anyhow::{Context, Result};
use costs::{ALL, Cost, Measured};
use std::path::Path;

/// Operations that are measured at each size.
const OPERATIONS: usize = 2000;
/// Numbers of files, names, unsent records.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// Numbers of watched directories.
const WATCHES: [usize; 3] = [100, 1_000, 10_000];
/// Numbers of stations.
const STATIONS: [usize; 4] = [1, 8, 64, 1_000];

/// A cost at the sizes of its axis.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    /// What.
    pub(crate) cost: Cost,
    /// Sizes with what was measured there, ascending.
    pub(crate) at: Vec<(usize, Measured)>,
}

/// Measures everything whose name contains `word`, with at most so many files, names, and unsent records.
/// Prints a table, and writes JSON if a file is given.
///
/// # Errors
/// An engine failed, or the file cannot be written.
pub(crate) fn run(word: &str, files_max: usize, json: Option<&Path>) -> Result<()> {
    let mut all = Vec::new();
    for cost in ALL.into_iter().filter(|cost| cost.name().contains(word)) {
        eprintln!("{}, by {}", cost.name(), cost.axis());
        all.push(grow(cost, &sizes(cost, files_max), OPERATIONS)?);
    }
    report::print(&all);
    if let Some(file) = json {
        std::fs::write(file, serde_json::to_vec_pretty(&report::json(&all))?)
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

fn sizes(cost: Cost, files_max: usize) -> Vec<usize> {
    match cost {
        Cost::TellStations => STATIONS.to_vec(),
        Cost::ChangeBesideWatches => WATCHES.to_vec(),
        _ => {
            let mut sizes: Vec<usize> = SIZES.into_iter().filter(|size| *size <= files_max).collect();
            if files_max > SIZES[2] {
                sizes.push(files_max);
            }
            sizes
        }
    }
}

fn grow(cost: Cost, sizes: &[usize], operations: usize) -> Result<Growth> {
    let measure = |size: &usize| {
        let measured = cost.measure(*size, operations).with_context(|| format!("{} at {size}", cost.name()))?;
        Ok((*size, measured))
    };
    Ok(Growth { cost, at: sizes.iter().map(measure).collect::<Result<_>>()? })
}

#[cfg(test)]
mod tests;
