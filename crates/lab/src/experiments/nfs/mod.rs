//! NFS over a lossy hop, on real stacks: nfs-ganesha, the kernel's UDP, an emulated hop of 1 Mb/s, and the client of crate `nfs`.
//!
//! The published numbers are those of a machine of 1996, whose own speed was half of them: shapes compare, seconds do not. What ours
//! can be held against is the time without errors, stretched by the share of time in which nothing passes.

mod measure;
mod published;

use crate::nfs::NfsServer;
use crate::{Aim, Axis, Context, Estimate, Experiment, Figure, Findings, LabError, Origin, Row, Series, Style};
use measure::{Bench, Condition, Way};
use std::time::Duration;
use wayfs_nfs::live::Block;
use wayfs_nfs::retry::{Exponential, Hybrid, Retry};

/// Mean length of good periods, in milliseconds.
const GOOD_MS: u64 = 1000;
/// Mean lengths of bad periods.
const BAD_MS: [u64; 5] = [0, 40, 80, 120, 160];
/// What was best then.
const BLOCK: u32 = 4096;

/// An experiment of the NFS papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nfs {
    /// When calls are sent again.
    Backoff,
    /// How much a call carries.
    BlockSize,
}

/// A way to go about it, by name.
#[derive(Debug, Clone)]
struct Client {
    name: String,
    retry: Retry,
    block: Block,
    in_flight_max: usize,
}

impl Client {
    fn classic(name: &str, retry: Retry, block: u32) -> Self {
        Self { name: name.to_owned(), retry, block: Block::Fixed(block), in_flight_max: 1 }
    }

    fn ours() -> Self {
        Self { name: "ours".to_owned(), retry: Retry::Ours, block: Block::Auto, in_flight_max: 64 }
    }
}

fn exponential(first_ms: u64) -> Retry {
    Retry::Exponential(Exponential { first: Duration::from_millis(first_ms) })
}

fn hybrid(first_ms: u64, linear: u32, step_ms: u64) -> Retry {
    Retry::Hybrid(Hybrid { first: Duration::from_millis(first_ms), linear, step: Duration::from_millis(step_ms) })
}

impl Nfs {
    /// What is compared; of the sweep one thing differs at a time.
    fn clients(self, quick: bool) -> Vec<Client> {
        match self {
            Self::Backoff => {
                let mut clients = vec![
                    Client::classic("no changes", exponential(700), BLOCK),
                    Client::classic("hybrid", hybrid(700, 3, 100), BLOCK),
                    Client::ours(),
                ];
                if !quick {
                    clients.extend([
                        Client::classic("first 0.1 s, exponential", exponential(100), BLOCK),
                        Client::classic("first 0.1 s, hybrid", hybrid(100, 3, 100), BLOCK),
                        Client::classic("hybrid, r = 1", hybrid(700, 1, 100), BLOCK),
                        Client::classic("hybrid, r = 6", hybrid(700, 6, 100), BLOCK),
                        Client::classic("hybrid, c = 0.02 s", hybrid(700, 3, 20), BLOCK),
                        Client::classic("hybrid, c = 0.5 s", hybrid(700, 3, 500), BLOCK),
                    ]);
                }
                clients
            }
            Self::BlockSize => {
                let sizes: &[u32] = if quick { &[2048, 8192] } else { &[1024, 2048, 4096, 8192] };
                let classic = |size: &u32| Client::classic(&format!("{size} bytes"), exponential(700), *size);
                sizes.iter().map(classic).chain([Client::ours()]).collect()
            }
        }
    }
}

impl Experiment for Nfs {
    fn name(&self) -> &'static str {
        match self {
            Self::Backoff => "nfs-backoff",
            Self::BlockSize => "nfs-block-size",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Self::Backoff => {
                "NFS over a hop with bad periods, real stacks: when calls are sent again (tables 1 and 2 of 1995, and a sweep)"
            }
            Self::BlockSize => {
                "NFS over a hop with bad periods, real stacks: how much a call reads or writes (figures 3 and 4 of 1996)"
            }
        }
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        if !NfsServer::is_installed() {
            let why = "Not run: nfs-ganesha, nfs-ganesha-vfs or rpcbind is not installed (apt-get install them).";
            return Ok(Findings { came_out: why.to_owned(), ..Findings::default() });
        }
        let settings = Settings::read(context)?;
        let clients = self.clients(context.is_quick());
        let mut csv =
            context.csv(self.name(), &["client", "way", "bad_ms", "run", "seconds", "resent", "probes", "strays"])?;
        let bench = Bench::start(context, settings.kilobytes)?;
        let conditions: Vec<(&Client, Way, u64)> = clients
            .iter()
            .flat_map(|client| Way::BOTH.into_iter().flat_map(move |way| BAD_MS.map(|bad| (client, way, bad))))
            .filter(|(_, _, bad)| settings.bad_ms.contains(bad))
            .collect();
        let mut cells = Vec::new();
        for (number, (client, way, bad_ms)) in conditions.iter().enumerate() {
            context.progress(number, conditions.len(), &format!("{}, {}, bad {bad_ms} ms", client.name, way.name()));
            let condition = Condition { way: *way, good_ms: GOOD_MS, bad_ms: *bad_ms };
            let mut seconds = Vec::new();
            for run in 0..settings.runs {
                let outcome = bench.transfer(condition, client.retry, client.block, client.in_flight_max)?;
                let [resent, probes, strays] =
                    [outcome.statistics.resent, outcome.statistics.probes, outcome.statistics.strays];
                let counted = [u64::from(run), resent, probes, strays].map(|number| number.to_string());
                let [run, resent, probes, strays] = counted;
                let (way, bad, taken) = (way.name().to_owned(), bad_ms.to_string(), outcome.seconds.to_string());
                csv.row(&[client.name.clone(), way, bad, run, taken, resent, probes, strays])?;
                seconds.push(outcome.seconds);
            }
            cells.push(Cell { client: client.name.clone(), way: *way, bad_ms: *bad_ms, seconds });
        }
        csv.finish()?;
        bench.finish(context);
        Ok(findings(*self, &cells, &settings))
    }
}

/// How long it takes.
#[derive(Debug, Clone)]
struct Settings {
    kilobytes: u32,
    runs: u32,
    bad_ms: Vec<u64>,
}

impl Settings {
    fn read(context: &Context<'_>) -> Result<Self, LabError> {
        let number = |key: &str, default: u32| match context.setting(key) {
            None => Ok(default),
            Some(typed) => {
                typed.parse().map_err(|_| LabError::Experiment(format!("{key}={typed}: a number is wanted")))
            }
        };
        let bad_ms = context.choose(vec![0, 160], BAD_MS.to_vec());
        Ok(Self {
            kilobytes: number("kilobytes", context.choose(128, 1024))?,
            runs: number("runs", context.choose(1, 10))?,
            bad_ms,
        })
    }
}

/// Runs of a client under a condition.
#[derive(Debug, Clone)]
struct Cell {
    client: String,
    way: Way,
    bad_ms: u64,
    seconds: Vec<f64>,
}

fn findings(which: Nfs, cells: &[Cell], settings: &Settings) -> Findings {
    let mut rows = Vec::new();
    // Ours is held against what the best client could do: its own time without errors, stretched.
    for cell in cells {
        let estimate = Estimate::of(&cell.seconds);
        let highest = cell.seconds.iter().copied().fold(0.0, f64::max);
        let what = format!("{} {}, bad {} ms", cell.client, cell.way.name(), cell.bad_ms);
        let mut row = Row::new(what, "s", estimate).note(format!("longest {highest:.1} s"));
        row.published = published::seconds(&cell.client, cell.way, cell.bad_ms).filter(|_| which == Nfs::Backoff);
        let clean = cells.iter().find(|it| it.client == cell.client && it.way == cell.way && it.bad_ms == 0);
        if let Some(clean) = clean.filter(|_| cell.client == "ours" && cell.bad_ms > 0) {
            let limit = Estimate::of(&clean.seconds).mean * (GOOD_MS + cell.bad_ms) as f64 / GOOD_MS as f64;
            row = row.aim(Aim::AtMost(limit * 1.15));
        } else if cell.client == "ours" && cell.bad_ms == 0 {
            // 95 % of 1 Mb/s.
            row = row.aim(Aim::AtMost(f64::from(settings.kilobytes) * 1024.0 * 8.0 / 1e6 / 0.95));
        }
        rows.push(row);
    }
    let figures = Way::BOTH.into_iter().map(|way| figure(cells, way)).collect();
    let expected = match which {
        Nfs::Backoff => {
            "A client that doubles its timeout waits far longer than the burst; the hybrid bounds the worst case; ours takes the time without errors, stretched by the share of bad time, and at most 15 % more."
        }
        Nfs::BlockSize => {
            "Without errors large blocks win by their headers; with long bad periods the best is near 4096 bytes."
        }
    };
    let why = "The machines of 1996 carried 0.27 Mb/s of the 1 Mb/s when reading; today's carry nearly all of it. Shapes compare, seconds do not.";
    Findings { expected: expected.into(), came_out: came_out(cells), why_they_differ: why.into(), rows, figures }
}

fn came_out(cells: &[Cell]) -> String {
    let worst = cells.iter().map(|cell| cell.bad_ms).max().unwrap_or_default();
    let said: Vec<String> = cells
        .iter()
        .filter(|cell| cell.bad_ms == worst)
        .map(|cell| format!("{} {} {:.1} s", cell.client, cell.way.name(), Estimate::of(&cell.seconds).mean))
        .collect();
    format!("At bad periods of {worst} ms: {}.", said.join("; "))
}

fn figure(cells: &[Cell], way: Way) -> Figure {
    let mut names: Vec<&str> = cells.iter().map(|cell| cell.client.as_str()).collect();
    names.dedup();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let series = names.into_iter().map(|name| {
        let points = cells.iter().filter(|cell| cell.client == name && cell.way == way);
        let points = points.map(|cell| (cell.bad_ms as f64, Estimate::of(&cell.seconds)));
        Series::estimates(name, Style::Lines, Origin::Measured, points)
    });
    Figure {
        title: format!("Response time, {}", way.name()),
        x: Axis::linear("mean bad period", "ms"),
        y: Axis::linear("time", "s"),
        series: series.collect(),
        caption: "Bad periods uniform, good ones 1000 ms on average; 95 % intervals.".to_owned(),
    }
}
