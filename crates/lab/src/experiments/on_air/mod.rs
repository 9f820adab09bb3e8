//! Our own transport over a lossy hop: a megabyte read and written through a mount, a tree of small files, and how long a
//! small file takes until it is safe, with the controller and the probing of before and of now, with and without `wayfs link` on the
//! hop, and NFS and sshfs beside it.
//!
//! The client's line is the hop of the NFS papers, or a recorded link; the station is at its other end. What is read was written by a client at
//! another site, whose lines are fast, so every byte of it crosses the hop.

mod air;
mod measure;

use super::chosen::{chosen, number};
use crate::peers::{self, Peer};
use crate::{Aim, Context, Estimate, Experiment, Findings, LabError, Row, quantile};
use air::{Air, GOOD_MS};
use measure::{Bench, Measured, Setting};

/// The experiment.
pub(super) struct OnAir;

/// Mean lengths of bad periods in milliseconds; good ones take 1000.
const BAD_MS: &[u64] = &[0, 40, 80, 120, 160];

/// What carries the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Carrier {
    name: &'static str,
    kind: Kind,
    /// Whether `wayfs link` runs at both ends of the hop.
    repaired: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// WayFS, by the keys of `[network]`.
    Wayfs { controller: &'static str, probing: &'static str },
    /// Somebody else's, as it comes.
    Peer(&'static str),
}

/// Ours as it is.
const OURS: &str = "both";

const CARRIERS: &[Carrier] = &[
    wayfs("as-before", "bbr", "fixed", false),
    wayfs("probing", "bbr", "by-silence", false),
    wayfs("controller", "steady", "fixed", false),
    wayfs(OURS, "steady", "by-silence", false),
    wayfs("as-before-link", "bbr", "fixed", true),
    wayfs("both-link", "steady", "by-silence", true),
    peer("nfs-udp", "nfs-udp", false),
    peer("nfs-tcp", "nfs-tcp", false),
    peer("nfs-udp-link", "nfs-udp", true),
    peer("nfs-tcp-link", "nfs-tcp", true),
    peer("sshfs", "sshfs", false),
    peer("sshfs-link", "sshfs", true),
];
/// Of the quick run.
const QUICK: &[&str] = &["as-before", OURS, "both-link", "nfs-udp", "nfs-tcp", "nfs-tcp-link", "sshfs"];

const fn wayfs(name: &'static str, controller: &'static str, probing: &'static str, repaired: bool) -> Carrier {
    Carrier { name, kind: Kind::Wayfs { controller, probing }, repaired }
}

const fn peer(name: &'static str, of: &'static str, repaired: bool) -> Carrier {
    Carrier { name, kind: Kind::Peer(of), repaired }
}

impl Carrier {
    const fn name(self) -> &'static str {
        self.name
    }
}

/// What came out under a condition.
struct Cell {
    carrier: Carrier,
    air: Air,
    measured: Measured,
}

impl Experiment for OnAir {
    fn name(&self) -> &'static str {
        "wayfs-wireless"
    }

    fn about(&self) -> &'static str {
        "A mount over a hop of 1 Mb/s with bad periods, and over recorded links: what the controller, the probing and `wayfs link` give; NFS and sshfs beside it"
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let mut carriers = chosen(context, "carriers", CARRIERS, Carrier::name)?;
        if context.is_quick() && context.setting("carriers").is_none() {
            carriers.retain(|carrier| QUICK.contains(&carrier.name));
        }
        let airs = airs(context)?;
        let plan = measure::Plan {
            kilobytes: number(context, "kilobytes", context.choose(256, 1024))?,
            runs: number(context, "runs", context.choose(1, 3))?,
            tree: number(context, "files", context.choose(25, 100))?,
            closes: number(context, "closes", context.choose(20, 100))?,
        };
        let mut csv = context.csv("wayfs-wireless", &["carrier", "air", "what", "seconds"])?;
        let (mut cells, mut absent) = (Vec::new(), Vec::new());
        for (number, carrier) in carriers.iter().enumerate() {
            context.progress(number, carriers.len(), carrier.name);
            // Both directions share the air of the hop, and not that of a recorded link: a network for each.
            for airs in &airs {
                let Some(mut bench) = start(context, *carrier, &airs[0])? else {
                    absent.push(carrier.name);
                    break;
                };
                for air in airs {
                    bench.spoil(air);
                    let measured = bench.measure(&plan).map_err(|error| of(carrier.name, &air.name, &error))?;
                    for (what, seconds) in measured.all() {
                        for value in seconds {
                            csv.row(&[carrier.name.into(), air.name.clone(), what.into(), value.to_string()])?;
                        }
                    }
                    cells.push(Cell { carrier: *carrier, air: air.clone(), measured });
                }
                bench.finish(context, &part(*carrier, &airs[0]));
            }
        }
        csv.finish()?;
        Ok(findings(&cells, &absent))
    }
}

/// The conditions: those of the hop, and recorded links.
fn airs(context: &Context<'_>) -> Result<[Vec<Air>; 2], LabError> {
    let bad = context.choose(vec![0, 160], BAD_MS.to_vec()).into_iter().map(Air::bad).collect::<Result<_, _>>()?;
    let mut recorded = Air::recorded()?;
    recorded.truncate(context.choose(1, recorded.len()));
    Ok([bad, recorded])
}

/// A name for a network, its logs and how late it was.
fn part(carrier: Carrier, air: &Air) -> String {
    let kind = if air.bad_ms.is_some() { "hop" } else { "recorded" };
    format!("{}-{kind}", carrier.name)
}

fn of(carrier: &str, air: &str, error: &LabError) -> LabError {
    LabError::Experiment(format!("{carrier}, {air}: {error}"))
}

/// `None`: its programs are not installed.
fn start(context: &Context<'_>, carrier: Carrier, air: &Air) -> Result<Option<Bench>, LabError> {
    let setting = Setting { part: part(carrier, air), repaired: carrier.repaired, line: air.line() };
    match carrier.kind {
        Kind::Wayfs { controller, probing } => {
            let keys = format!("[network]\ncontroller = \"{controller}\"\nprobing = \"{probing}\"\n");
            Bench::wayfs(context, setting, &keys).map(Some)
        }
        Kind::Peer(name) => {
            let nfs = peers::NFS.iter().map(|nfs| nfs as &dyn Peer);
            match peers::PEERS.iter().copied().chain(nfs).find(|peer| peer.name() == name) {
                Some(peer) if peers::missing(peer).is_empty() => Bench::peer(context, setting, peer).map(Some),
                Some(_) | None => Ok(None),
            }
        }
    }
}

fn findings(cells: &[Cell], absent: &[&str]) -> Findings {
    let mut rows = Vec::new();
    for cell in cells {
        let clean = cells.iter().find(|other| other.carrier == cell.carrier && other.air.bad_ms == Some(0));
        rows.extend(cell.rows(clean));
    }
    let last = cells.iter().filter_map(|cell| cell.air.bad_ms).max();
    let told: Vec<String> = cells
        .iter()
        .filter(|cell| cell.air.bad_ms.is_some() && cell.air.bad_ms == last)
        .map(|cell| {
            let mean = |what| Estimate::of(cell.measured.of(what)).mean;
            format!("{} write {:.1} s, read {:.1} s", cell.carrier.name, mean("write"), mean("read"))
        })
        .collect();
    let missing = if absent.is_empty() { String::new() } else { format!(" Not installed: {}.", absent.join(", ")) };
    Findings {
        expected: "With both, a transfer takes the time without errors, stretched by the share of bad time, and at most 15 % more. The link tool takes the bad cases of TCP away; over a recorded network it is out of its place.".into(),
        came_out: format!("At the longest bad periods: {}.{missing}", told.join("; ")),
        why_they_differ: String::new(),
        rows,
        figures: Vec::new(),
    }
}

impl Cell {
    /// `clean`: the same without errors.
    fn rows(&self, clean: Option<&Self>) -> Vec<Row> {
        // What is aimed at is said of bad periods only.
        let spoiled = self.air.bad_ms.filter(|bad_ms| *bad_ms > 0 && self.carrier.name == OURS);
        let mut rows = Vec::new();
        for (what, seconds) in self.measured.all() {
            let mut row =
                Row::new(format!("{}, {what}, {}", self.carrier.name, self.air.name), "s", Estimate::of(seconds));
            if let (Some(bad_ms), Some(clean)) = (spoiled.filter(|_| matches!(what, "write" | "read")), clean) {
                let limit = Estimate::of(clean.measured.of(what)).mean * (GOOD_MS + bad_ms) as f64 / GOOD_MS as f64;
                row = row.aim(Aim::AtMost(limit * 1.15)).note("1.15 of the time without errors, stretched");
            }
            rows.push(row);
        }
        let mut safe = self.measured.safe.clone();
        let (half, last) = (quantile(&mut safe, 0.5), quantile(&mut safe, 0.99));
        let what = format!("{}, safe, p99 beyond p50, {}", self.carrier.name, self.air.name);
        let mut row = Row::new(what, "s", Estimate::of(&[last - half]));
        if let Some(bad_ms) = spoiled {
            // A round trip of the hop is that of a file and its answer.
            row = row.aim(Aim::AtMost(bad_ms as f64 / 1000.0 + 2.0 * half)).note("one mean burst and two round trips");
        }
        rows.push(row);
        rows
    }
}
