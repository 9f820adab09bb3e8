//! How long a reader waits for contents that only another site's station has, beside contents that the home has.
//!
//! A record goes home ahead of its contents, so a file may be seen at a site whose bytes are at another. The home asks for
//! them then while the reader waits (back-fetch). If it passes on what arrives, that costs a round trip more than a fetch from the
//! home; if it waits for all of it, or if chunks share the line so that all of them are late, twice as much.
//!
//! ```text
//! writer ── station-a ──82 ms, 3 Mb/s──▶ home ◀──82 ms, 3 Mb/s── station-b ── reader
//! ```

mod findings;

use super::chosen::number;
use super::noise::noise;
use crate::context::Parts;
use crate::{Context, Experiment, Findings, LabError, LinePlan, Sites, SitesPlan, read_line};
use std::path::Path;
use std::time::{Duration, Instant};

/// The experiment.
pub(super) struct BackFetch;

/// Each way between a station and the home: 82 ms there and back, 3 Mb/s. The queue holds two round trips of it.
const LINE: &str = "both = { rate_mbps = 3, delay_ms = 41, queue_kib = 64 }";
const ROUND_TRIP: Duration = Duration::from_millis(82);
const BYTES_PER_SECOND: f64 = 3e6 / 8.0;
/// Lengths of files, in KiB.
const KIB: &[usize] = &[8, 32, 128, 512, 1_024, 2_048, 4_096];
/// Those of a quick run.
const QUICK_KIB: &[usize] = &[8, 128, 512];
/// Longest time for a file to come.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often the reader looks whether a file is known.
const LOOK: Duration = Duration::from_millis(20);
/// After a file is known what else was under way has ended.
const CALM: Duration = Duration::from_millis(500);
/// Reader and writer.
const WRITER: usize = 0;
const READER: usize = 1;

/// Who has the contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Home,
    OtherStation,
}

/// Files of one length: how long the reader waited each time.
#[derive(Debug)]
struct Cell {
    kib: usize,
    fetch: Vec<Duration>,
    back_fetch: Vec<Duration>,
}

impl Cell {
    /// Round trips and a transfer: no reader waits less.
    fn limit(&self, round_trips: u32) -> Duration {
        ROUND_TRIP * round_trips + Duration::from_secs_f64(self.kib as f64 * 1024.0 / BYTES_PER_SECOND)
    }
}

impl Experiment for BackFetch {
    fn name(&self) -> &'static str {
        "back-fetch"
    }

    fn about(&self) -> &'static str {
        "How much longer is the wait for contents that another site has than for those that the home has?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["trials"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let trials = number(context, "trials", context.choose(1, 5))?;
        let lengths = context.choose(QUICK_KIB, KIB);
        let plan = SitesPlan {
            wide: vec![read_line(LINE, Path::new("."))?; 2],
            local: LinePlan::default(),
            // Nothing goes home before somebody asks for it.
            serve: vec!["--policy".into(), "on-demand".into()],
            ..SitesPlan::profiles(&[])?
        };
        let sites = Sites::start(context, "all", context.seed(), plan)?;
        let mut cells: Vec<Cell> =
            lengths.iter().map(|kib| Cell { kib: *kib, fetch: Vec::new(), back_fetch: Vec::new() }).collect();
        let total = trials * cells.len();
        for trial in 0..trials {
            for (done, cell) in cells.iter_mut().enumerate() {
                let word = format!("{} KiB", cell.kib);
                context.progress(Parts { done: trial * lengths.len() + done, total }, &word);
                let seed = context.seed() + (trial * 10_000 + cell.kib) as u64 * 2;
                cell.fetch.push(wait(&sites, Source::Home, seed, cell.kib << 10)?);
                cell.back_fetch.push(wait(&sites, Source::OtherStation, seed + 1, cell.kib << 10)?);
            }
        }
        context.progress(Parts { done: total, total }, "done");
        sites.finish(context, "all");
        findings::tell(context, &cells)
    }
}

/// Writes a file at one site and reads it at the other as soon as it is known there; how long the reading took.
fn wait(sites: &Sites, source: Source, seed: u64, len: usize) -> Result<Duration, LabError> {
    let name = format!("file-{seed}");
    let written = sites.at(WRITER).join(&name);
    std::fs::write(&written, noise(seed, len)).map_err(LabError::io(format!("write {}", written.display())))?;
    let level = match source {
        Source::Home => "stable",
        Source::OtherStation => "safe",
    };
    sites.sync(WRITER, level, PATIENCE)?;
    let read = sites.at(READER).join(&name);
    let start = Instant::now();
    while std::fs::metadata(&read).map_or(0, |metadata| metadata.len()) != len as u64 {
        if start.elapsed() > PATIENCE {
            return Err(LabError::TimedOut { what: format!("{name} to be known at the other site"), within: PATIENCE });
        }
        std::thread::sleep(LOOK);
    }
    std::thread::sleep(CALM);
    let crossed = || sites.lab().statistics(sites.wide(WRITER)).up.delivered_len;
    let (before, start) = (crossed(), Instant::now());
    let bytes = std::fs::read(&read).map_err(LabError::io(format!("read {}", read.display())))?;
    let took = start.elapsed();
    if bytes != noise(seed, len) {
        return Err(LabError::Experiment(format!("{name} is not what was written")));
    }
    // What was measured is told apart by where the bytes came from.
    let is_from_there = crossed() - before >= len as u64;
    if is_from_there != (source == Source::OtherStation) {
        let crossed = crossed() - before;
        return Err(LabError::Experiment(format!("{name} ({source:?}): {crossed} bytes came from the other station")));
    }
    Ok(took)
}
