//! Time to safe of a 4 KiB file: close that waits, beside one round trip plus one group commit.
//!
//! Of a volume of its own, in which nobody else works; and again while another machine watches the directory, which must
//! have heard of the change before it is safe: a round trip more.

use crate::measure::median;
use crate::places::Places;
use crate::table::Row;
use anyhow::Result;
use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_system_tests::Machine;

/// Files written.
const FILES: usize = 200;

/// Measures it on a mount whose close waits.
pub(crate) fn time_to_safe(places: &Places) -> Result<Vec<Row>> {
    eprintln!("time to safe");
    places.server.wayfs(&places.home, &["volume", "create", "safe"]).ok();
    let ticket = || places.server.ticket(&places.home, "safe");
    let writer = Machine::new("safe");
    let mount = writer.mount(&ticket(), &["--close", "safe"]);
    let before = (group_commit(places.scratch())?, round_trip()?);
    let alone = closes(mount.root(), "alone")?;
    let after = (group_commit(places.scratch())?, round_trip()?);
    let (commit, trip) = (before.0.midpoint(after.0), before.1.midpoint(after.1));
    let reader = Machine::new("watching");
    let watching = reader.mount(&ticket(), &[]);
    std::fs::read_dir(watching.root())?.for_each(drop);
    let watched = closes(mount.root(), "watched")?;
    let limit = Some(commit + trip);
    let Closes { close, whole, per_second } = alone;
    Ok(vec![
        Row {
            what: "time to safe, 4 KiB file, from its close".to_owned(),
            unit: "us",
            figures: [limit, None, close],
            limit: format!(
                "round trip {trip:.0} us + group commit {commit:.0} us (in the column native); sight 1.5 of it: 0.67"
            ),
            is_time: true,
        },
        Row {
            what: "the same, while another machine watches the directory".to_owned(),
            unit: "us",
            figures: [Some(commit + 2.0 * trip), None, watched.close],
            limit: "a round trip more: the other must have heard of it".to_owned(),
            is_time: true,
        },
        Row {
            what: "create, write and close when safe".to_owned(),
            unit: "us",
            figures: [limit, None, whole],
            limit: "the same, and what creating and writing cost".to_owned(),
            is_time: true,
        },
        Row {
            what: "create, write 4 KiB, close when safe".to_owned(),
            unit: "k/s",
            figures: [None, None, Some(per_second)],
            limit: "one at a time: the time to safe".to_owned(),
            is_time: false,
        },
    ])
}

/// What writing files took, in us.
struct Closes {
    close: Option<f64>,
    whole: Option<f64>,
    /// Thousands.
    per_second: f64,
}

fn closes(directory: &Path, round: &str) -> Result<Closes> {
    let (mut closes, mut wholes) = (Vec::new(), Vec::new());
    let start = Instant::now();
    for n in 0..FILES {
        let begin = Instant::now();
        let mut file = File::create(directory.join(format!("{round}-{n}")))?;
        file.write_all(&[7; 4096])?;
        // From here on there is a version that can be safe or not.
        let written = Instant::now();
        drop(file);
        closes.push(written.elapsed().as_secs_f64() * 1e6);
        wholes.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    let per_second = FILES as f64 / start.elapsed().as_secs_f64() / 1000.0;
    Ok(Closes { close: median(&mut closes), whole: median(&mut wholes), per_second })
}

/// Median of appending 4 KiB and making it durable.
fn group_commit(directory: &Path) -> Result<f64> {
    let mut file = File::create(directory.join("commit"))?;
    let mut samples = Vec::new();
    for _ in 0..FILES {
        let begin = Instant::now();
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        samples.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&mut samples).unwrap_or_default())
}

/// Median of a datagram there and back on loopback.
fn round_trip() -> Result<f64> {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    near.set_read_timeout(Some(Duration::from_secs(1)))?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        far.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut bytes = [0; 100];
        for _ in 0..FILES {
            far.recv(&mut bytes)?;
            far.send(&bytes)?;
        }
        Ok(())
    });
    let mut samples = Vec::new();
    let mut bytes = [0; 100];
    for _ in 0..FILES {
        let begin = Instant::now();
        near.send(&bytes)?;
        near.recv(&mut bytes)?;
        samples.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    echo.join().map_err(|_| anyhow::anyhow!("the echo ended early"))??;
    Ok(median(&mut samples).unwrap_or_default())
}
