//! Contents on their way home, and from there to who reads them for the first time.

use super::super::noise::write_noise;
use super::{Cell, Extent, Line, PATIENCE, Transfer, Tried, Way, tcp};
use crate::experiments::noise::Noise;
use crate::usage::peak_memory;
use crate::{Context, LabError, LinePlan, Sites, SitesPlan, client_of, line, station_of};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is noted what has crossed.
const NOTE_EVERY: Duration = Duration::from_millis(50);
/// Bytes read at once.
const PIECE_LEN: usize = 1 << 20;

/// On one line, with what TCP makes of it: the first site is behind it, the second beside the home.
pub(super) fn measure(context: &mut Context<'_>, line_of_cell: Line, extent: &Extent) -> Result<Cell, LabError> {
    let len = line_of_cell.bytes_in(extent.milliseconds);
    // Contents go home as soon as they are at the station: the line is to be what they wait for.
    let plan = SitesPlan {
        wide: vec![line_of_cell.plan()?, line("perfect")?],
        local: LinePlan::default(),
        serve: vec!["--policy".into(), "write-through".into()],
        ..SitesPlan::profiles(&[])?
    };
    let mut sites = Sites::start(context, line_of_cell.name, context.seed(), plan)?;
    let tcp = tcp::measure(&sites, len, extent.trials)?;
    let mut ours = Tried { who: "WayFS", ..Tried::default() };
    for trial in 0..extent.trials {
        let seed = context.seed() + 2 * trial as u64;
        ours.ways[Way::Up.index()].push(up(&sites, &format!("up-{trial}"), Noise { seed, len })?);
        ours.ways[Way::Down.index()].push(down(&sites, &format!("down-{trial}"), Noise { seed: seed + 1, len })?);
    }
    let mut memory = [0; 3];
    for (memory, host) in memory.iter_mut().zip([client_of(0), station_of(0), "home".to_owned()]) {
        *memory = sites.daemon(&host).map_or(0, |process| peak_memory(process.id()));
    }
    sites.finish(context, line_of_cell.name);
    Ok(Cell { line: line_of_cell, ours, tcp, peers: Vec::new(), failures: Vec::new(), memory })
}

/// From the first byte that a program writes until the home has them all.
fn up(sites: &Sites, name: &str, noise: Noise) -> Result<Transfer, LabError> {
    let path = sites.at(0).join(name);
    let crossed = || sites.lab().statistics(sites.wide(0)).up.delivered_len;
    let (start, before, is_done) = (Instant::now(), crossed(), AtomicBool::new(false));
    let (done, notes) = std::thread::scope(|scope| {
        let notes = scope.spawn(|| {
            let mut notes = vec![(Duration::ZERO, 0)];
            while !is_done.load(Ordering::Relaxed) {
                std::thread::sleep(NOTE_EVERY);
                notes.push((start.elapsed(), crossed() - before));
            }
            notes
        });
        let done = write_noise(&path, noise).and_then(|()| sites.sync(0, "stable", PATIENCE));
        let took = start.elapsed();
        is_done.store(true, Ordering::Relaxed);
        (done.map(|()| took), notes.join().expect("noting does not panic"))
    });
    Ok(Transfer { took: done?, len: noise.len, notes })
}

/// From the open of a file that the home has until its last byte is read by a machine that had nothing of it.
fn down(sites: &Sites, name: &str, noise: Noise) -> Result<Transfer, LabError> {
    write_noise(&sites.at(1).join(name), noise)?;
    sites.sync(1, "stable", PATIENCE)?;
    let path = sites.at(0).join(name);
    let start = Instant::now();
    while std::fs::metadata(&path).map_or(0, |metadata| metadata.len()) != noise.len {
        if start.elapsed() > PATIENCE {
            return Err(LabError::TimedOut { what: "the file at the other site".into(), within: PATIENCE });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    read(&path, noise.len)
}

/// Reads a file from its begin to its end and notes how it comes along.
pub(super) fn read(path: &Path, len: u64) -> Result<Transfer, LabError> {
    let doing = || LabError::io(format!("read {}", path.display()));
    let mut piece = vec![0; PIECE_LEN];
    let (start, mut notes, mut there) = (Instant::now(), vec![(Duration::ZERO, 0)], 0);
    let mut file = File::open(path).map_err(doing())?;
    loop {
        let read = file.read(&mut piece).map_err(doing())?;
        there += read as u64;
        let now = start.elapsed();
        if read == 0 || notes.last().is_none_or(|(last, _)| *last + NOTE_EVERY <= now) {
            notes.push((now, there));
        }
        if read == 0 {
            break;
        }
    }
    if there != len {
        return Err(LabError::Experiment(format!("{there} of {len} bytes of {} were read", path.display())));
    }
    Ok(Transfer { took: start.elapsed(), len, notes })
}
