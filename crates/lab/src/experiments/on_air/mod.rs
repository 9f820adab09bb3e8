//! Our own transport over a lossy hop: a megabyte read and written through a mount, a tree of small files, and how long a
//! small file takes until it is safe, with the controller and the probing of before and of now, and sshfs beside it.
//!
//! The client's line is the hop of the NFS papers; the station is at its other end. What is read was written by a client at
//! another site, whose lines are fast, so every byte of it crosses the hop.

mod measure;

use super::chosen::{chosen, number};
use crate::peers;
use crate::{Aim, Context, Estimate, Experiment, Findings, LabError, Row, quantile};
use measure::{Bench, Measured};

/// The experiment.
pub(super) struct OnAir;

/// Mean lengths of bad periods in milliseconds; good ones take 1000.
const BAD_MS: &[u64] = &[0, 40, 80, 120, 160];
const GOOD_MS: u64 = 1000;

/// What carries the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    /// WayFS, by the keys of `[network]`.
    Wayfs { name: &'static str, controller: &'static str, probing: &'static str },
    /// sshfs as it comes.
    Sshfs,
}

const CARRIERS: &[Carrier] = &[
    Carrier::Wayfs { name: "as-before", controller: "bbr", probing: "fixed" },
    Carrier::Wayfs { name: "probing", controller: "bbr", probing: "by-silence" },
    Carrier::Wayfs { name: "controller", controller: "steady", probing: "fixed" },
    Carrier::Wayfs { name: "both", controller: "steady", probing: "by-silence" },
    Carrier::Sshfs,
];

impl Carrier {
    const fn name(self) -> &'static str {
        match self {
            Self::Wayfs { name, .. } => name,
            Self::Sshfs => "sshfs",
        }
    }
}

/// What came out under a condition.
struct Cell {
    carrier: Carrier,
    bad_ms: u64,
    measured: Measured,
}

impl Experiment for OnAir {
    fn name(&self) -> &'static str {
        "wayfs-wireless"
    }

    fn about(&self) -> &'static str {
        "A mount over a hop of 1 Mb/s with bad periods: what the controller and the probing of a silent path give, sshfs beside it"
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let quick = [CARRIERS[0], CARRIERS[3], CARRIERS[4]];
        let all: &[Carrier] = if context.is_quick() { &quick } else { CARRIERS };
        let carriers = chosen(context, "carriers", all, Carrier::name)?;
        let bad_ms = context.choose(vec![0, 160], BAD_MS.to_vec());
        let plan = measure::Plan {
            kilobytes: number(context, "kilobytes", context.choose(256, 1024))?,
            runs: number(context, "runs", context.choose(1, 5))?,
            tree: number(context, "files", context.choose(25, 100))?,
            closes: number(context, "closes", context.choose(20, 100))?,
        };
        let mut csv = context.csv("wayfs-wireless", &["carrier", "bad_ms", "what", "seconds"])?;
        let (mut cells, mut absent) = (Vec::new(), Vec::new());
        for (number, carrier) in carriers.iter().enumerate() {
            context.progress(number, carriers.len(), carrier.name());
            let Some(mut bench) = start(context, *carrier)? else {
                absent.push(carrier.name());
                continue;
            };
            for bad_ms in &bad_ms {
                bench.spoil(GOOD_MS, *bad_ms)?;
                let measured = bench.measure(&plan)?;
                for (what, seconds) in measured.all() {
                    for value in seconds {
                        csv.row(&[carrier.name().into(), bad_ms.to_string(), what.into(), value.to_string()])?;
                    }
                }
                cells.push(Cell { carrier: *carrier, bad_ms: *bad_ms, measured });
            }
            bench.finish(context, carrier.name());
        }
        csv.finish()?;
        Ok(findings(&cells, &absent))
    }
}

/// `None`: its programs are not installed.
fn start(context: &Context<'_>, carrier: Carrier) -> Result<Option<Bench>, LabError> {
    match carrier {
        Carrier::Wayfs { name, controller, probing } => {
            let keys = format!("[network]\ncontroller = \"{controller}\"\nprobing = \"{probing}\"\n");
            Bench::wayfs(context, name, &keys).map(Some)
        }
        Carrier::Sshfs => match peers::PEERS.iter().find(|peer| peer.name() == "sshfs") {
            Some(peer) if peers::missing(*peer).is_empty() => Bench::peer(context, *peer).map(Some),
            Some(_) | None => Ok(None),
        },
    }
}

fn findings(cells: &[Cell], absent: &[&str]) -> Findings {
    let mut rows = Vec::new();
    for cell in cells {
        let clean = cells.iter().find(|other| other.carrier == cell.carrier && other.bad_ms == 0);
        for (what, seconds) in cell.measured.all() {
            let mut row = Row::new(
                format!("{}, {what}, bad {} ms", cell.carrier.name(), cell.bad_ms),
                "s",
                Estimate::of(seconds),
            );
            let is_ours = cell.carrier == CARRIERS[3] && cell.bad_ms > 0;
            if let Some(clean) = clean.filter(|_| is_ours && matches!(what, "write" | "read")) {
                let limit =
                    Estimate::of(clean.measured.of(what)).mean * (GOOD_MS + cell.bad_ms) as f64 / GOOD_MS as f64;
                row = row.aim(Aim::AtMost(limit * 1.15)).note("1.15 of the time without errors, stretched");
            }
            rows.push(row);
        }
        let mut safe = cell.measured.safe.clone();
        let (half, last) = (quantile(&mut safe, 0.5), quantile(&mut safe, 0.99));
        let mut row = Row::new(
            format!("{}, safe, p99 beyond p50, bad {} ms", cell.carrier.name(), cell.bad_ms),
            "s",
            Estimate::of(&[last - half]),
        );
        if cell.carrier == CARRIERS[3] && cell.bad_ms > 0 {
            // A round trip of the hop is that of a file and its answer.
            row = row
                .aim(Aim::AtMost(cell.bad_ms as f64 / 1000.0 + 2.0 * half))
                .note("one mean burst and two round trips");
        }
        rows.push(row);
    }
    let told: Vec<String> = cells
        .iter()
        .filter(|cell| cell.bad_ms == cells.iter().map(|cell| cell.bad_ms).max().unwrap_or_default())
        .map(|cell| {
            let mean = |what| Estimate::of(cell.measured.of(what)).mean;
            format!("{} write {:.1} s, read {:.1} s", cell.carrier.name(), mean("write"), mean("read"))
        })
        .collect();
    let missing = if absent.is_empty() { String::new() } else { format!(" Not installed: {}.", absent.join(", ")) };
    Findings {
        expected: "With both, a transfer takes the time without errors, stretched by the share of bad time, and at most 15 % more.".into(),
        came_out: format!("At the longest bad periods: {}.{missing}", told.join("; ")),
        why_they_differ: String::new(),
        rows,
        figures: Vec::new(),
    }
}
