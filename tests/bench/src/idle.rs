//! What a mount, a station and a home take while nobody works, and after many files.

use crate::meter::Standing;
use crate::site::{Client, Site};
use crate::size::Size;
use crate::table::Row;
use anyhow::Result;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// After the start, and after work: what was to be done once has been.
const CALM: Duration = Duration::from_secs(15);
/// Files in one directory.
const FILES_PER_DIRECTORY: usize = 1_000;
/// A quantity of a machine: name, unit, sight of the client's, and what it is of how a process stood before and after.
type Quantity = (&'static str, &'static str, &'static str, fn(&Watched) -> f64);

/// How a process stood when it was looked at, and after a time.
#[derive(Clone, Copy)]
struct Watched {
    before: Standing,
    after: Standing,
    seconds: f64,
}

const AT_REST: [Quantity; 3] = [
    ("threads at rest", "", "12", |it| it.after.threads as f64),
    ("memory at rest, new", "MiB", "20 MiB", |it| it.after.resident_mib),
    ("wake-ups a second at rest", "/s", "2", |it| {
        it.after.wake_ups.saturating_sub(it.before.wake_ups) as f64 / it.seconds
    }),
];

/// The rows.
pub(crate) fn rows(size: Size, _rounds: usize) -> Result<Vec<Row>> {
    let (seconds, files) = size.choose((10, 2_000), (60, 300_000));
    let site = Site::new();
    let client = site.client("client", &[]);
    eprintln!("at rest");
    sleep(CALM);
    let machines = [("mount", client.process()), ("station", site.station.process()), ("home", site.home.process())];
    let watched = watch(&machines.map(|(_, process)| process), Duration::from_secs(seconds))?;
    let mut rows = Vec::new();
    for (what, unit, sight, of) in AT_REST {
        rows.extend(machines.iter().zip(&watched).map(|((machine, _), it)| row(machine, what, unit, sight, of(it))));
    }
    eprintln!("{files} files");
    make(&client, files)?;
    sleep(CALM);
    for (machine, process) in machines {
        let what = format!("memory after {files} files");
        rows.push(row(machine, &what, "MiB", "100 MiB after 300,000", Standing::of(process)?.resident_mib));
    }
    Ok(rows)
}

fn row(machine: &str, what: &str, unit: &'static str, sight: &str, figure: f64) -> Row {
    let limit = if machine == "mount" { sight } else { "beside the mount's: no sight" };
    Row {
        what: format!("{machine}: {what}"),
        unit,
        figures: [None, None, Some(figure)],
        limit: limit.to_owned(),
        is_time: true,
    }
}

fn watch(processes: &[u32], period: Duration) -> Result<Vec<Watched>> {
    let look = || processes.iter().map(|process| Standing::of(*process)).collect::<Result<Vec<_>>>();
    let start = Instant::now();
    let before = look()?;
    sleep(period);
    let after = look()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(before.into_iter().zip(after).map(|(before, after)| Watched { before, after, seconds }).collect())
}

/// Files of 100 bytes in directories, until all are at the home.
fn make(client: &Client, files: usize) -> Result<()> {
    for number in 0..files {
        let directory = client.mount.path(&format!("directory-{}", number / FILES_PER_DIRECTORY));
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir(&directory)?;
        }
        fs::write(directory.join(format!("file-{number}")), [number as u8; 100])?;
    }
    client.settle("stable")
}
