//! Loads of many kinds of operations at once, as `dbench` and `fsstress` make them, each worker in a directory of its own.
//!
//! The programs need not be there: what is taken from them is how often each operation comes and how much it moves. Where `dbench` goes
//! through a recording in its order, operations are drawn by chance here, from a seed, so that every place gets the same ones.

mod draw;
mod office;
mod stress;

use crate::beside::{Beside, Per, Work};
use crate::measure::{Measure, rate};
use crate::size::Size;
use crate::table::Row;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Workers of each.
const OFFICE_WORKERS: usize = 4;
const STRESS_WORKERS: usize = 20;
/// What both are to reach.
const SIGHT: &str = "4 times native: 0.25, or 1.5 times the loopback: 0.67";

/// What a worker does in its directory, by its number: so many operations.
type Worker = fn(&Path, usize, usize) -> Result<()>;

/// The rows.
pub(crate) fn rows(size: Size, rounds: usize) -> Result<Vec<Row>> {
    let (office, stress) = size.choose((100, 40), (5_000, 1_000));
    let beside = Beside::new(&[])?;
    let works = [
        Work {
            what: format!("dbench's mix, workers: {OFFICE_WORKERS}, with a station"),
            unit: "k/s",
            is_time: false,
            limit: SIGHT,
            prepare: Box::new(|directory| {
                (0..OFFICE_WORKERS).try_for_each(|worker| office::prepare(&place(directory, worker)?))
            }),
            run: together(OFFICE_WORKERS, office, office::work),
            per: Some(Per::Operation(OFFICE_WORKERS * office)),
        },
        Work {
            what: format!("fsstress's mix, workers: {STRESS_WORKERS}, with a station"),
            unit: "k/s",
            is_time: false,
            limit: SIGHT,
            prepare: Box::new(|directory| {
                (0..STRESS_WORKERS).try_for_each(|worker| place(directory, worker).map(drop))
            }),
            run: together(STRESS_WORKERS, stress, stress::work),
            per: Some(Per::Operation(STRESS_WORKERS * stress)),
        },
    ];
    beside.rows(&works, rounds)
}

/// The directory of a worker, which is made.
fn place(directory: &Path, worker: usize) -> Result<PathBuf> {
    let place = directory.join(format!("worker-{worker}"));
    fs::create_dir(&place)?;
    Ok(place)
}

/// All workers at once: thousands of operations a second, of all together.
fn together<'a>(workers: usize, operations: usize, work: Worker) -> Measure<'a> {
    Box::new(move |directory| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..workers)
                .map(|worker| {
                    let place = directory.join(format!("worker-{worker}"));
                    scope.spawn(move || work(&place, worker, operations))
                })
                .collect();
            started.into_iter().try_for_each(|worker| worker.join().ok().context("a worker ended")?)
        })?;
        Ok(rate(workers * operations, start))
    })
}
