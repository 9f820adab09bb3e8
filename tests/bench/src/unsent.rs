//! Small work of a machine that has a long backlog which its station has not heard of, and how that goes up.

use crate::beside::Beside;
use crate::full_volume::fill;
use crate::measure::median;
use crate::meter::processor_seconds;
use crate::size::Size;
use crate::small_files::create;
use crate::table::Row;
use anyhow::Result;
use std::fs;
use std::time::Instant;

/// Place of the mount among the three.
const OURS: usize = 2;

/// The rows.
pub(crate) fn rows(size: Size, rounds: usize) -> Result<Vec<Row>> {
    let (unsent, creates) = size.choose((1_000, 200), (100_000, 4_000));
    let beside = Beside::new(&[])?;
    let client = &beside.client;
    // Whether a name is free can be told offline only of a directory that was listed before.
    fs::read_dir(client.mount.root())?.for_each(drop);
    client.mount.wayfs(&client.machine, &["offline"]).ok();
    let mut rows = batches(&beside, 0, creates, rounds)?;
    eprintln!("{unsent} files offline");
    fill(&client.mount.path("backlog"), unsent)?;
    rows.extend(batches(&beside, unsent, creates, rounds)?);
    rows.extend(catch_up(&beside, unsent + 2 * rounds * creates)?);
    Ok(rows)
}

/// Files are made at each place in turns while so many wait.
fn batches(beside: &Beside, unsent: usize, creates: usize, rounds: usize) -> Result<Vec<Row>> {
    let mut figures = [const { Vec::new() }; 3];
    // Of the loopback and of the client.
    let mut spent = [const { Vec::new() }; 2];
    let processes = [beside.ground.loopback(), beside.client.process()];
    for round in 0..rounds {
        eprintln!("round {} of {rounds}: create offline, {unsent} unsent", round + 1);
        for (place, (_, directory)) in beside.all().iter().enumerate() {
            let process = place.checked_sub(1).map(|other| processes[other]);
            let before = process.map_or(Ok(0.0), processor_seconds)?;
            let directory = directory.join(format!("{unsent}-{round}"));
            fs::create_dir(&directory)?;
            figures[place].push(create(&directory, creates, 1)?);
            if let Some(process) = process {
                spent[place - 1].push((processor_seconds(process)? - before) * 1e6 / creates as f64);
            }
            // The loopback has a descriptor for each file; what the mount made is to go up.
            if place < OURS {
                fs::remove_dir_all(&directory)?;
            }
        }
    }
    let what = format!("create, write 4 KiB, close, offline, {unsent} unsent");
    let [loopback, client] = spent.map(|mut samples| median(&mut samples));
    Ok(vec![
        Row {
            what: what.clone(),
            unit: "k/s",
            figures: figures.map(|mut samples| median(&mut samples)),
            limit: "within 10 % of what it is when nothing waits; 0.8 of the loopback".to_owned(),
            is_time: false,
        },
        Row {
            what: format!("{what}: processor time of the client, a file"),
            unit: "us",
            figures: [None, loopback, client],
            limit: "the same; while they are made, nothing is sent".to_owned(),
            is_time: true,
        },
    ])
}

/// The line is back: how soon all is at the station, and what it costs.
fn catch_up(beside: &Beside, files: usize) -> Result<Vec<Row>> {
    eprintln!("{files} files go up");
    let processes = [beside.client.process(), beside.site.station.process(), beside.site.home.process()];
    let look = || processes.iter().map(|process| processor_seconds(*process)).collect::<Result<Vec<_>>>();
    let before = look()?;
    let start = Instant::now();
    beside.client.mount.wayfs(&beside.client.machine, &["auto"]).ok();
    beside.client.settle("safe")?;
    let took = start.elapsed().as_secs_f64();
    beside.client.settle("stable")?;
    let after = look()?;
    let what = format!("{files} files that were made offline go up");
    let row = |what, unit, figure, limit: &str, is_time| Row {
        what,
        unit,
        figures: [None, None, Some(figure)],
        limit: limit.to_owned(),
        is_time,
    };
    let mut rows = vec![row(format!("{what}: until safe"), "k/s", files as f64 / took / 1e3, "no sight", false)];
    for ((machine, after), before) in ["client", "station", "home"].into_iter().zip(after).zip(before) {
        let what = format!("{what}: processor time of the {machine}, a file");
        rows.push(row(what, "us", (after - before) * 1e6 / files as f64, "until all is at the home", true));
    }
    Ok(rows)
}
