//! What a lone user's work costs while a program listens to `wayfs events` of its mount.

use crate::measure::{Measure, median};
use crate::places::Places;
use crate::table::Row;
use anyhow::Result;
use std::time::Duration;
use wayfs_system_tests::{Process, eventually};

/// Longest time for a listener to be there.
const SOON: Duration = Duration::from_secs(20);

/// One kind of work: name, unit, whether it is a time, and how it is done.
pub(crate) type Work<'a> = (&'static str, &'static str, bool, Measure<'a>);

/// Each work without a listener and with one, in turns, as often as said.
pub(crate) fn costs(places: &Places, rounds: usize, works: &[Work<'_>]) -> Result<Vec<Row>> {
    let mount = places.mount.root();
    let mut samples = vec![[const { Vec::<f64>::new() }; 2]; works.len()];
    for round in 0..rounds {
        eprintln!("round {} of {rounds}: while somebody listens", round + 1);
        for (n, (.., work)) in works.iter().enumerate() {
            samples[n][0].push(work(mount)?);
            let mut listener = listen(places);
            samples[n][1].push(work(mount)?);
            listener.kill();
        }
    }
    let row = |((what, unit, is_time, _), [mut without, mut with]): (&Work<'_>, [Vec<f64>; 2])| Row {
        what: format!("{what}, while `wayfs events` listens"),
        unit,
        figures: [median(&mut without), None, median(&mut with)],
        limit: "without a listener, in the column native".to_owned(),
        is_time: *is_time,
    };
    Ok(works.iter().zip(samples).map(row).collect())
}

/// A listener that has heard something.
fn listen(places: &Places) -> Process {
    let mut command = places.client.command();
    command.env("WAYFS_AT", places.mount.root()).args(["events", "--json"]);
    let listener = Process::start(&mut command, &places.client.path("events.log"));
    let mut number = 0;
    eventually("the listener hears", SOON, || {
        number += 1;
        std::fs::write(places.mount.path(&format!("heard-{number}")), "").is_ok() && listener.has_said("heard-")
    });
    listener
}
