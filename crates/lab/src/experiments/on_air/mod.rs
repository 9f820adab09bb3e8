//! Our own transport over a lossy hop: a megabyte read and written through a mount, a tree of small files, and how long a
//! small file takes until it is safe, with the controller and the probing of before and of now, with and without `wayfs link` on the
//! hop, and NFS and sshfs beside it.
//!
//! The client's line is the hop of the NFS papers, or a recorded link; the station is at its other end. What is read was written by a client at
//! another site, whose lines are fast, so every byte of it crosses the hop.

mod air;
mod measure;

use super::chosen::{chosen, number};
use crate::context::Parts;
use crate::csv::Csv;
use crate::descriptors;
use crate::peers::{self, Peer};
use crate::{Aim, Context, Estimate, Experiment, Findings, LabError, Row, quantile};
use air::{Air, GOOD_MS};
use measure::{Bench, Measured, Plan, Setting};

/// The experiment.
pub(super) struct OnAir;

/// Mean lengths of bad periods in milliseconds; good ones take 1000.
const BAD_MS: &[u64] = &[0, 40, 80, 120, 160];

/// What carries the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Carrier {
    name: &'static str,
    kind: Kind,
    /// With `wayfs link` at both ends or without.
    hop: LastHop,
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

/// The hop between a mobile and its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastHop {
    Plain,
    /// By `wayfs link`.
    Repaired,
}

const CARRIERS: &[Carrier] = &[
    wayfs("as-before", "bbr", "fixed", LastHop::Plain),
    wayfs("probing", "bbr", "by-silence", LastHop::Plain),
    wayfs("controller", "steady", "fixed", LastHop::Plain),
    wayfs(OURS, "steady", "by-silence", LastHop::Plain),
    wayfs("as-before-link", "bbr", "fixed", LastHop::Repaired),
    wayfs("both-link", "steady", "by-silence", LastHop::Repaired),
    peer("nfs-udp", "nfs-udp", LastHop::Plain),
    peer("nfs-tcp", "nfs-tcp", LastHop::Plain),
    peer("nfs-udp-link", "nfs-udp", LastHop::Repaired),
    peer("nfs-tcp-link", "nfs-tcp", LastHop::Repaired),
    peer("sshfs", "sshfs", LastHop::Plain),
    peer("sshfs-link", "sshfs", LastHop::Repaired),
];
/// Of the quick run.
const QUICK: &[&str] = &["as-before", OURS, "both-link", "nfs-udp", "nfs-tcp", "nfs-tcp-link", "sshfs"];

const fn wayfs(name: &'static str, controller: &'static str, probing: &'static str, hop: LastHop) -> Carrier {
    Carrier { name, kind: Kind::Wayfs { controller, probing }, hop }
}

const fn peer(name: &'static str, of: &'static str, hop: LastHop) -> Carrier {
    Carrier { name, kind: Kind::Peer(of), hop }
}

impl Carrier {
    const fn name(self) -> &'static str {
        self.name
    }

    /// Whether its programs are installed.
    fn is_there(self) -> bool {
        match self.kind {
            Kind::Wayfs { .. } => true,
            Kind::Peer(name) => peer_of(name).is_some_and(|peer| peers::missing(peer).is_empty()),
        }
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

    fn settings(&self) -> &'static [&'static str] {
        &["airs", "carriers", "closes", "files", "kilobytes", "runs", "side-by-side"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let mut carriers = chosen(context, "carriers", CARRIERS, Carrier::name)?;
        if context.is_quick() && context.setting("carriers").is_none() {
            carriers.retain(|carrier| QUICK.contains(&carrier.name));
        }
        let airs = chosen_airs(context)?;
        let plan = Plan {
            kilobytes: number(context, "kilobytes", context.choose(256, 1024))?,
            runs: number(context, "runs", context.choose(1, 3))?,
            tree: number(context, "files", context.choose(25, 100))?,
            closes: number(context, "closes", context.choose(20, 100))?,
        };
        let side_by_side = number(context, "side-by-side", SIDE_BY_SIDE)?;
        if plan.runs == 0 || side_by_side == 0 {
            return Err(LabError::Experiment("runs and side-by-side are at least 1".into()));
        }
        let absent: Vec<&str> = carriers.iter().filter(|it| !it.is_there()).map(|it| it.name).collect();
        carriers.retain(|carrier| carrier.is_there());
        let jobs: Vec<Job<'_>> =
            airs.iter().flat_map(|airs| carriers.iter().map(|carrier| Job { carrier: *carrier, airs })).collect();
        let total = jobs.iter().map(|job| job.airs.len()).sum();
        let csv = context.csv("wayfs-wireless", &["carrier", "air", "what", "seconds"])?;
        let mut results = Results { csv, cells: Vec::new(), failed: Vec::new(), total };
        for jobs in jobs.chunks(side_by_side) {
            results.side_by_side(context, jobs, &plan)?;
        }
        let Results { csv, cells, failed, .. } = results;
        csv.finish()?;
        Ok(findings(&cells, &absent, &failed))
    }
}

/// Networks at the same time: a hop of 1 Mb/s costs a machine little, and starting their programs much.
const SIDE_BY_SIDE: usize = 4;

/// What is measured over one network.
struct Job<'a> {
    carrier: Carrier,
    airs: &'a [Air],
}

impl Job<'_> {
    /// A name for its network, its logs and how late it was.
    fn part(&self) -> String {
        format!("{}-{}", self.carrier.name, self.airs[0].name.replace(' ', "-"))
    }
}

/// What came out so far.
struct Results {
    csv: Csv,
    cells: Vec<Cell>,
    failed: Vec<String>,
    total: usize,
}

impl Results {
    /// Carries jobs out at the same time. A condition that fails leaves a gap in the table and stops no other.
    fn side_by_side(&mut self, context: &mut Context<'_>, jobs: &[Job<'_>], plan: &Plan) -> Result<(), LabError> {
        let mut benches = Vec::new();
        for job in jobs {
            context
                .progress(Parts { done: self.cells.len(), total: self.total }, &format!("make ready: {}", job.part()));
            benches.push(start(context, job)?);
        }
        let (done, came) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for (job, bench) in jobs.iter().zip(&mut benches) {
                let done = done.clone();
                scope.spawn(move || {
                    // Each starts programs while others have files open on lines that are slow.
                    let mut refused = descriptors::own().err();
                    for air in job.airs {
                        let measured = refused.take().map_or_else(|| bench.measure(air, plan), Err);
                        // The mount was taken away from what waited for too long: nothing more is measured at it.
                        let has_no_mount = matches!(measured, Err(LabError::TimedOut { .. }));
                        if done.send((job.carrier, air.clone(), measured)).is_err() || has_no_mount {
                            return;
                        }
                    }
                });
            }
            drop(done);
            for (carrier, air, measured) in came {
                self.take(context, carrier, air, measured)?;
            }
            Ok::<(), LabError>(())
        })?;
        for (job, bench) in jobs.iter().zip(benches) {
            bench.finish(context, &job.part());
        }
        Ok(())
    }

    fn take(
        &mut self,
        context: &Context<'_>,
        carrier: Carrier,
        air: Air,
        measured: Result<Measured, LabError>,
    ) -> Result<(), LabError> {
        match measured {
            Ok(measured) => {
                for (what, seconds) in measured.all() {
                    for value in seconds {
                        self.csv.row(&[carrier.name.into(), air.name.clone(), what.into(), value.to_string()])?;
                    }
                }
                self.csv.flush()?;
                context.progress(
                    Parts { done: self.cells.len() + 1, total: self.total },
                    &format!("{} over {}", carrier.name, air.name),
                );
                self.cells.push(Cell { carrier, air, measured });
            }
            Err(error) => self.failed.push(format!("{}, {}: {error}", carrier.name, air.name)),
        }
        Ok(())
    }
}

/// The conditions that were chosen by parts of their names, by network; all, if none were.
fn chosen_airs(context: &Context<'_>) -> Result<Vec<Vec<Air>>, LabError> {
    let mut all = airs(context)?;
    let Some(wanted) = context.setting("airs") else { return Ok(all) };
    let wanted: Vec<String> = wanted.split(',').map(|part| part.trim().to_lowercase()).collect();
    let is_named = |air: &Air, part: &String| air.name.to_lowercase().contains(part);
    if let Some(unknown) = wanted.iter().find(|part| !all.iter().flatten().any(|air| is_named(air, part))) {
        return Err(LabError::Experiment(format!("no condition is named {unknown}")));
    }
    for airs in &mut all {
        airs.retain(|air| wanted.iter().any(|part| is_named(air, part)));
    }
    all.retain(|airs| !airs.is_empty());
    Ok(all)
}

/// The conditions, by network: those of the hop, whose directions share the air, and recorded links, whose directions do not. The
/// slowest of these has networks of its own, since it takes as long as all others.
fn airs(context: &Context<'_>) -> Result<Vec<Vec<Air>>, LabError> {
    let bad = context.choose(vec![0, 160], BAD_MS.to_vec()).into_iter().map(Air::bad).collect::<Result<_, _>>()?;
    let mut recorded = Air::recorded()?;
    recorded.truncate(context.choose(1, recorded.len()));
    let (slow, others) = recorded.into_iter().partition(|air| air.name.contains(SLOWEST));
    let all: [Vec<Air>; 3] = [slow, bad, others];
    Ok(all.into_iter().filter(|airs| !airs.is_empty()).collect())
}

/// In the name of the slowest recorded link.
const SLOWEST: &str = "EVDO";

fn start(context: &Context<'_>, job: &Job<'_>) -> Result<Bench, LabError> {
    let setting = Setting { part: job.part(), hop: job.carrier.hop, line: job.airs[0].line() };
    match job.carrier.kind {
        Kind::Wayfs { controller, probing } => {
            let keys = format!("[network]\ncontroller = \"{controller}\"\nprobing = \"{probing}\"\n");
            Bench::wayfs(context, setting, &keys)
        }
        Kind::Peer(name) => {
            let peer = peer_of(name).ok_or_else(|| LabError::Experiment(format!("there is no peer {name}")))?;
            Bench::peer(context, setting, peer)
        }
    }
}

fn peer_of(name: &str) -> Option<&'static dyn Peer> {
    let nfs = peers::NFS.iter().map(|nfs| nfs as &dyn Peer);
    peers::PEERS.iter().copied().chain(nfs).find(|peer| peer.name() == name)
}

fn findings(cells: &[Cell], absent: &[&str], failed: &[String]) -> Findings {
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
    let mut missing = String::new();
    if !absent.is_empty() {
        missing += &format!(" Not installed: {}.", absent.join(", "));
    }
    if !failed.is_empty() {
        missing += &format!(" Not measured: {}.", failed.join("; "));
    }
    let (again, left_out) = cells
        .iter()
        .fold((0, 0), |(again, left_out), cell| (again + cell.measured.again, left_out + cell.measured.left_out));
    missing += &format!(" Runs made again since the emulator was late: {again}; left out for that: {left_out}.");
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
        for (what, seconds) in self.measured.all().into_iter().filter(|(_, seconds)| !seconds.is_empty()) {
            let mut row =
                Row::new(format!("{}, {what}, {}", self.carrier.name, self.air.name), "s", Estimate::of(seconds));
            if let (Some(bad_ms), Some(clean)) = (spoiled.filter(|_| matches!(what, "write" | "read")), clean) {
                let limit = Estimate::of(clean.measured.of(what)).mean * (GOOD_MS + bad_ms) as f64 / GOOD_MS as f64;
                row = row.aim(Aim::AtMost(limit * 1.15)).note("1.15 of the time without errors, stretched");
            }
            rows.push(row);
        }
        let mut safe = self.measured.safe.clone();
        if safe.is_empty() {
            return rows;
        }
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
