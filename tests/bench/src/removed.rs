//! When the space of a removed file is back on the disks of its writer, the station and the home.

use crate::bytes::{GIB, write_new};
use crate::site::Site;
use crate::size::Size;
use crate::table::Row;
use anyhow::Result;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wayfs_lab::usage::space;

/// Longest wait. What is not back by then counts as never.
const PATIENCE: Duration = Duration::from_secs(1_200);
/// How often disks are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// What may stay of it: a tenth. Segments keep some of what is dead.
const LEFT_PART: u64 = 10;
/// What is promised: ten minutes of grace, a sweep each minute.
const LIMIT: &str = "the grace of 600 s and a minute: 660 s; infinite: not within 1,200 s";

/// The rows. They take a quarter of an hour in either form: contents that nobody refers to are kept for ten minutes.
pub(crate) fn rows(size: Size, _rounds: usize) -> Result<Vec<Row>> {
    let len = size.choose(64 << 20, GIB);
    let site = Site::new();
    let client = site.client("client", &[]);
    let disks = [
        ("writer", client.machine.path("cache")),
        ("station", site.station.server.data.clone()),
        ("home", site.home.server.data.clone()),
    ];
    let look = || disks.each_ref().map(|(_, directory)| space(directory));
    let before = look();
    let path = client.mount.path("removed");
    write_new(&path, len)?.sync_all()?;
    client.settle("stable")?;
    let with = look();
    fs::remove_file(&path)?;
    client.settle("stable")?;
    eprintln!("waiting for the space of what was removed, ten minutes at least");
    let start = Instant::now();
    let mut back = [None; 3];
    while back.contains(&None) && start.elapsed() < PATIENCE {
        sleep(LOOK);
        for ((back, now), before) in back.iter_mut().zip(look()).zip(before) {
            if back.is_none() && now <= before + len / LEFT_PART {
                *back = Some(start.elapsed().as_secs_f64());
            }
        }
    }
    let mut rows = Vec::new();
    for (n, (machine, _)) in disks.iter().enumerate() {
        let kept = with[n].saturating_sub(before[n]) as f64 / len as f64;
        rows.push(Row {
            what: format!("space of {} MiB back after its removal: {machine}", len >> 20),
            unit: "s",
            figures: [None, None, Some(back[n].unwrap_or(f64::INFINITY))],
            limit: format!("{LIMIT}; it took {kept:.2} times its size"),
            is_time: true,
        });
    }
    Ok(rows)
}
