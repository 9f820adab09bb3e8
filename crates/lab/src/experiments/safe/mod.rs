//! How long after its close a small file is safe at the station, on local networks.
//!
//! The promise is LAN time: a record goes to the station while the client's own disk syncs, the station makes it durable
//! and answers. So it is measured beside what no protocol can do without, in the same seconds: one round trip of the same
//! line with as many bytes, and one durable append on the same disk. The wide area behind the station is a long one, and
//! is not to be seen in it.

mod findings;
mod limit;

use super::chosen::{chosen, number};
use super::links::Poisson;
use crate::{Context, Experiment, Findings, LabError, Sites, SitesPlan, client_of, line, station_of};
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

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let all = context.choose(LINES_QUICK, LINES);
        let all = if context.setting("lines").is_some() { LINES } else { all };
        let lines = chosen(context, "lines", all, |name| name)?;
        let closes = number(context, "closes", context.choose(100, 400))?;
        let mut cells = Vec::new();
        for (done, name) in lines.iter().enumerate() {
            context.progress(done, lines.len(), name);
            cells.push(measure(context, name, closes)?);
        }
        context.progress(lines.len(), lines.len(), "done");
        findings::tell(context, &cells)
    }
}

/// Closes small files on a mount whose `close` waits until they are safe.
fn measure(context: &mut Context<'_>, name: &'static str, closes: usize) -> Result<Cell, LabError> {
    let mut plan = SitesPlan::profiles(&[WIDE])?;
    plan.local = line(name)?;
    plan.mount = vec!["--close".into(), "safe".into()];
    let sites = Sites::start(context, name, context.seed(), plan)?;
    let echo = Echo::between(sites.lab(), &client_of(0), &station_of(0), FILE_LEN)?;
    let mut commit = Commit::on(&sites.lab().directory(&station_of(0))?.join("group-commit"), FILE_LEN)?;
    let mut cell = Cell { line: name, samples: Vec::new(), unsafe_files: 0 };
    for (number, pause) in Poisson::new(context.seed(), PAUSE.as_secs_f64()).take(WARM_UP + closes).enumerate() {
        let path = sites.at(0).join(format!("file-{number}"));
        let (round_trip, commit) = (echo.round_trip()?, commit.append()?);
        let before = carried(&sites);
        let close = close(&path)?;
        let after = carried(&sites);
        let sample = Sample { close, round_trip, commit, carried: [after[0] - before[0], after[1] - before[1]] };
        cell.unsafe_files += usize::from(!is_safe(&path));
        if number >= WARM_UP {
            cell.samples.push(sample);
        }
        std::thread::sleep(Duration::from_secs_f64(pause));
    }
    sites.finish(context, name);
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
fn close(path: &Path) -> Result<Duration, LabError> {
    let failed = || LabError::io(format!("write {}", path.display()));
    let mut file = File::create(path).map_err(failed())?;
    file.write_all(&[7; FILE_LEN]).map_err(failed())?;
    // From here on there is a version that can be safe or not.
    let written = Instant::now();
    drop(file);
    Ok(written.elapsed())
}
