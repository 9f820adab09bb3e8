//! Runs the cells of a table, several at a time, and keeps what came out as raw data.

use super::schemes;
use super::table::Table;
use crate::context::Parts;
use crate::wireless::{Outcome, Transfer};
use crate::{Context, Estimate, LabError};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a transfer, as published; and of a quick one.
const LEN: u32 = 8 << 20;
const LEN_QUICK: u32 = 512 << 10;

/// A cell.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) throughput: Estimate,
    pub(super) wireless: Estimate,
    pub(super) wired: Estimate,
}

/// All cells, column by column.
pub(super) fn measure(context: &mut Context<'_>, table: &Table) -> Result<Vec<Vec<Measured>>, LabError> {
    let (len, seeds) = (context.choose(LEN_QUICK, LEN), context.choose(2, 5));
    let mut csv = context.csv(
        "cells",
        &[
            "column",
            "scheme",
            "seed",
            "throughput_mbps",
            "wireless_goodput",
            "wired_goodput",
            "timeouts",
            "retransmitted",
        ],
    )?;
    let mut columns = Vec::new();
    for (number, column) in table.columns.iter().enumerate() {
        context.progress(Parts { done: number, total: table.columns.len() }, &column.name);
        let mut cells = Vec::new();
        for (name, _) in &column.cells {
            let row = schemes::row(name).ok_or_else(|| LabError::Experiment(format!("{name} is no scheme")))?;
            let transfers: Vec<Transfer> =
                (0..seeds).map(|n| row.transfer(&column.setting, len, context.seed().wrapping_mul(1000) + n)).collect();
            let outcomes = run_all(&transfers);
            for (seed, outcome) in outcomes.iter().enumerate() {
                let numbers = [
                    outcome.throughput,
                    outcome.goodput_wireless,
                    outcome.goodput_wired,
                    outcome.fixed.timeouts as f64,
                    outcome.fixed.retransmitted as f64,
                ];
                let words = [column.name.clone(), (*name).to_owned(), seed.to_string()];
                csv.row(&[&words[..], &numbers.map(|number| number.to_string())].concat())?;
            }
            cells.push(summed(&outcomes));
        }
        columns.push(cells);
    }
    context.progress(Parts { done: table.columns.len(), total: table.columns.len() }, "done");
    csv.finish()?;
    Ok(columns)
}

fn summed(outcomes: &[Outcome]) -> Measured {
    let of = |value: &dyn Fn(&Outcome) -> f64| Estimate::of(&outcomes.iter().map(value).collect::<Vec<f64>>());
    Measured {
        throughput: of(&|outcome| outcome.throughput),
        wireless: of(&|outcome| 100.0 * outcome.goodput_wireless),
        wired: of(&|outcome| 100.0 * outcome.goodput_wired),
    }
}

/// Carries transfers out on all cores; what comes out is in their order.
pub(super) fn run_all(transfers: &[Transfer]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < transfers.len()) {
            done.push((number, transfers[number].run()));
        }
        done
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut outcomes: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a simulation does not panic")).collect()
    });
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
