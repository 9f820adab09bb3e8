//! How long after its close a small file is safe at the station, on local networks.
//!
//! The promise is LAN time: a record goes to the station while the client's own disk syncs, the station makes it durable
//! and answers. So it is measured beside what no protocol can do without, in the same seconds: one round trip of the same
//! line with as many bytes, and one durable append on the same disk. The wide area behind the station is a long one, and
//! is not to be seen in it.
//!
//! Here all hosts are one machine with one disk, which serves the client's sync and the station's in turns. So it is
//! measured twice: as it is, and with the client's cache in memory, where only the station's sync waits for the disk: two
//! machines have two disks, and the client's is done before the station's answer is there.

mod findings;
mod limit;

use super::chosen::{chosen, number};
use super::links::Poisson;
use super::noise::noise;
use crate::context::Parts;
use crate::{CacheDisk, Context, Experiment, Findings, LabError, Sites, SitesPlan, client_of, line, station_of};
use limit::{Commit, Echo};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// The experiment.
pub(super) struct Safe;

/// Local networks, by falling speed.
const LINES: &[&str] = &["gigabit", "ethernet-100", "wifi", "local-area"];
/// Of the quick one: a cable and the air.
const LINES_QUICK: &[&str] = &["ethernet-100", "wifi"];
/// Where the client keeps its cache.
const DISKS: &[CacheDisk] = &[CacheDisk::Shared, CacheDisk::Memory];
/// Of the quick one.
const DISKS_QUICK: &[CacheDisk] = &[CacheDisk::Shared];
/// Between the station and its home.
const WIDE: &str = "intercontinental";
/// Bytes of each file: the record carries them.
const FILE_LEN: usize = 4096;
/// Mean pause between two files; they are random, so that no timer is hit in step.
const PAUSE: Duration = Duration::from_millis(10);
/// Files before the first that counts: sessions, caches and estimates are warm from there on.
const WARM_UP: usize = 10;

/// One file and what it is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    /// From the close to its return.
    close: Duration,
    /// The bytes of the file there, a few bytes back.
    round_trip: Duration,
    /// As many bytes appended and made durable.
    commit: Duration,
    /// Bytes that the line carried to the station and back, from the creation of the file to the end of its close.
    carried: [u64; 2],
}

/// What came out on one line.
#[derive(Debug)]
struct Cell {
    line: &'static str,
    disk: CacheDisk,
    samples: Vec<Sample>,
    /// Files of which the client did not say that they are safe when `close` had returned.
    unsafe_files: usize,
}

impl Experiment for Safe {
    fn name(&self) -> &'static str {
        "safe"
    }

    fn about(&self) -> &'static str {
        "How long after its close is a small file safe at the station, beside a round trip of the LAN and a group commit?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["closes", "disks", "lines"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let all = context.choose(LINES_QUICK, LINES);
        let all = if context.setting("lines").is_some() { LINES } else { all };
        let lines = chosen(context, "lines", all, |name| name)?;
        let closes = number(context, "closes", context.choose(100, 400))?;
        let all = context.choose(DISKS_QUICK, DISKS);
        let disks = chosen(context, "disks", if context.setting("disks").is_some() { DISKS } else { all }, disk_name)?;
        let mut cells = Vec::new();
        let wanted: Vec<_> = lines.iter().flat_map(|line| disks.iter().map(move |disk| (*line, *disk))).collect();
        for (done, (line, disk)) in wanted.iter().enumerate() {
            context.progress(Parts { done, total: wanted.len() }, line);
            cells.push(measure(context, line, *disk, closes)?);
        }
        context.progress(Parts { done: wanted.len(), total: wanted.len() }, "done");
        findings::tell(context, &cells)
    }
}

/// What it is called in settings.
const fn disk_name(disk: CacheDisk) -> &'static str {
    match disk {
        CacheDisk::Memory => "memory",
        CacheDisk::Shared => "shared",
    }
}

impl Cell {
    /// What it is called in reports.
    fn name(&self) -> String {
        match self.disk {
            CacheDisk::Shared => self.line.to_owned(),
            CacheDisk::Memory => format!("{} and a disk of its own", self.line),
        }
    }
}

/// Closes small files on a mount whose `close` waits until they are safe.
fn measure(
    context: &mut Context<'_>,
    line_name: &'static str,
    disk: CacheDisk,
    closes: usize,
) -> Result<Cell, LabError> {
    let mut plan = SitesPlan::profiles(&[WIDE])?;
    plan.local = line(line_name)?;
    plan.cache = disk;
    plan.mount = vec!["--close".into(), "safe".into()];
    let part = format!("{line_name}-{}", disk_name(disk));
    let sites = Sites::start(context, &part, context.seed(), plan)?;
    let echo = Echo::between(sites.lab(), &client_of(0), &station_of(0), FILE_LEN)?;
    let mut commit = Commit::on(&sites.lab().directory(&station_of(0))?.join("group-commit"), FILE_LEN)?;
    let mut cell = Cell { line: line_name, disk, samples: Vec::new(), unsafe_files: 0 };
    for (number, pause) in Poisson::new(context.seed(), PAUSE.as_secs_f64()).take(WARM_UP + closes).enumerate() {
        let path = sites.at(0).join(format!("file-{number}"));
        let (round_trip, commit) = (echo.round_trip()?, commit.append()?);
        // None can be compressed, so every byte has to cross, as in the round trip.
        let bytes = noise(context.seed() ^ number as u64, FILE_LEN);
        let before = carried(&sites);
        let close = close(&path, &bytes)?;
        let after = carried(&sites);
        let sample = Sample { close, round_trip, commit, carried: [after[0] - before[0], after[1] - before[1]] };
        cell.unsafe_files += usize::from(!is_safe(&path));
        if number >= WARM_UP {
            cell.samples.push(sample);
        }
        std::thread::sleep(Duration::from_secs_f64(pause));
    }
    sites.finish(context, &part);
    Ok(cell)
}

/// Bytes that the client's line carried so far, up and down.
fn carried(sites: &Sites) -> [u64; 2] {
    let statistics = sites.lab().statistics(sites.local(0));
    [statistics.up.delivered_len, statistics.down.delivered_len]
}

/// What the client says of a file.
fn is_safe(path: &Path) -> bool {
    let mut state = [0; 16];
    let len = rustix::fs::getxattr(path, "user.wayfs.state", &mut state[..]).unwrap_or(0);
    matches!(&state[..len], b"safe" | b"visible" | b"stable")
}

/// How long the close of a new file takes.
fn close(path: &Path, bytes: &[u8]) -> Result<Duration, LabError> {
    let failed = || LabError::io(format!("write {}", path.display()));
    let mut file = File::create(path).map_err(failed())?;
    file.write_all(bytes).map_err(failed())?;
    // From here on there is a version that can be safe or not.
    let written = Instant::now();
    drop(file);
    Ok(written.elapsed())
}
