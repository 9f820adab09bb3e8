//! Large files on a mount with a station and a home beside it: written until safe, closed, copied, read cold, edited.

use crate::beside::{Beside, Per, Work, nothing};
use crate::bytes::{GIB, megabytes, read_whole, write_new};
use crate::measure::median;
use crate::meter::processor_seconds;
use crate::metrics;
use crate::size::Size;
use crate::table::Row;
use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// What closes without a wait up to a gigabyte is looked at beyond it, in both forms.
const BEYOND: u64 = GIB + GIB / 4;
/// Bytes of one edit.
const EDIT_LEN: usize = 4096;
/// Edits, of each of which what crosses is counted.
const EDITS: usize = 5;

/// The rows.
pub(crate) fn rows(size: Size, rounds: usize) -> Result<Vec<Row>> {
    let len = size.choose(64 << 20, GIB);
    let beside = Beside::new(&[])?;
    let mut rows = beside.rows(&works(len), rounds)?;
    rows.extend(cold_read(&beside, len, rounds)?);
    rows.extend(edit(&beside, len)?);
    Ok(rows)
}

fn works<'a>(len: u64) -> Vec<Work<'a>> {
    let mib = len >> 20;
    vec![
        Work {
            what: format!("write, fsync, {mib} MiB, safe at a station"),
            unit: "MB/s",
            is_time: false,
            limit: "600 MB/s",
            prepare: nothing(),
            run: Box::new(move |directory| write_safely(directory, len)),
            per: Some(Per::Gib(len as f64 / GIB as f64)),
        },
        Work {
            what: format!("write, close, {} MiB, with a station", BEYOND >> 20),
            unit: "MB/s",
            is_time: false,
            limit: "the disk: a close beyond 1 GiB does not wait either",
            prepare: nothing(),
            run: Box::new(|directory| write_and_close(directory, BEYOND)),
            per: None,
        },
        Work {
            what: format!("cp, {mib} MiB, within the mount"),
            unit: "s",
            is_time: true,
            limit: "milliseconds: contents are shared, no byte is copied",
            prepare: Box::new(move |directory| write_new(&directory.join("big"), len).map(drop)),
            run: Box::new(move |directory| copy(directory, len)),
            per: None,
        },
    ]
}

fn write_safely(directory: &Path, len: u64) -> Result<f64> {
    let start = Instant::now();
    let file = write_new(&directory.join("big"), len)?;
    file.sync_all()?;
    Ok(megabytes(len, start))
}

fn write_and_close(directory: &Path, len: u64) -> Result<f64> {
    let start = Instant::now();
    drop(write_new(&directory.join("big"), len)?);
    Ok(megabytes(len, start))
}

/// As `cp` does it: by `copy_file_range`.
fn copy(directory: &Path, len: u64) -> Result<f64> {
    let start = Instant::now();
    let copied = fs::copy(directory.join("big"), directory.join("copy"))?;
    let took = start.elapsed().as_secs_f64();
    ensure!(copied == len, "{copied} of {len} bytes were copied");
    Ok(took)
}

/// A machine that has nothing reads what its station has, beside a plain file that is not in the page cache.
fn cold_read(beside: &Beside, len: u64, rounds: usize) -> Result<Vec<Row>> {
    let (mut figures, mut readers, mut stations) = ([Vec::new(), Vec::new()], Vec::new(), Vec::new());
    let [(_, native), _] = beside.ground.both();
    let plain = native.join("cold");
    write_new(&plain, len)?.sync_all()?;
    write_new(&beside.client.mount.path("cold"), len)?.sync_all()?;
    beside.client.settle("stable")?;
    let station = beside.site.station.process();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}: cold read", round + 1);
        fadvise(File::open(&plain)?, 0, None, Advice::DontNeed)?;
        figures[0].push(read_whole(&plain, len)?);
        let reader = beside.site.client("reader", &[]);
        let before = (processor_seconds(reader.process())?, processor_seconds(station)?);
        figures[1].push(read_whole(&reader.mount.path("cold"), len).context("read what another machine wrote")?);
        readers.push(processor_seconds(reader.process())? - before.0);
        stations.push(processor_seconds(station)? - before.1);
    }
    for path in [plain, beside.client.mount.path("cold")] {
        fs::remove_file(path)?;
    }
    let [mut native, mut ours] = figures;
    let what = format!("cold read, {} MiB, of what the station has", len >> 20);
    let of_machine = |machine: &str, mut samples: Vec<f64>, limit: &str| Row {
        what: format!("{what}: processor time of the {machine}, a GiB"),
        unit: "s",
        figures: [None, None, median(&mut samples).map(|time| time * GIB as f64 / len as f64)],
        limit: limit.to_owned(),
        is_time: true,
    };
    let machines =
        [of_machine("reader", readers, "2 s"), of_machine("station", stations, "beside the reader's: no sight")];
    let read = Row {
        what: what.clone(),
        unit: "MB/s",
        figures: [median(&mut native), None, median(&mut ours)],
        limit: "0.8 of native, whose file is not in the page cache".to_owned(),
        is_time: false,
    };
    Ok([read].into_iter().chain(machines).collect())
}

/// What crosses for 4 KiB in the middle of a large file, one edit at a time.
fn edit(beside: &Beside, len: u64) -> Result<Vec<Row>> {
    eprintln!("edits of a large file");
    let path = beside.client.mount.path("edited");
    write_new(&path, len)?.sync_all()?;
    beside.client.settle("stable")?;
    let (mut closes, mut crossed) = (Vec::new(), [Vec::new(), Vec::new()]);
    for edit in 0..EDITS {
        let before = received(beside)?;
        let file = File::options().write(true).open(&path)?;
        let at = (len / EDITS as u64 * edit as u64 + len / 11) & !(EDIT_LEN as u64 - 1);
        file.write_all_at(&[edit as u8 + 1; EDIT_LEN], at)?;
        let start = Instant::now();
        drop(file);
        closes.push(start.elapsed().as_secs_f64() * 1e3);
        beside.client.settle("stable")?;
        let after = received(beside)?;
        (0..2).for_each(|server| crossed[server].push((after[server] - before[server]) / 1e3));
    }
    fs::remove_file(&path)?;
    let what = format!("4 KiB in the middle of {} MiB", len >> 20);
    let row = |what: String, unit, mut samples: Vec<f64>, limit: &str| Row {
        what,
        unit,
        figures: [None, None, median(&mut samples)],
        limit: limit.to_owned(),
        is_time: true,
    };
    let [station, home] = crossed;
    Ok(vec![
        row(format!("{what}: close"), "ms", closes, "no sight: what is cut again is what was touched"),
        row(format!("{what}: bytes that the station received"), "KB", station, "16 KB where the line is worth it"),
        row(format!("{what}: bytes that the home received"), "KB", home, "16 KB where the line is worth it"),
    ])
}

/// Bytes that station and home received so far, with acknowledgements and signs of life.
fn received(beside: &Beside) -> Result<[f64; 2]> {
    let of = |port| metrics::value(port, "wayfs_net_received_bytes_total");
    Ok([of(beside.site.station.metrics)?, of(beside.site.home.metrics)?])
}
