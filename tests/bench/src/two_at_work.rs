//! What names and files cost where two machines of one station work in one directory, beside the same where nobody else looks.
//!
//! The first change where the other looked, and the first look where the other changed, ask the station, and that asks the
//! other: a way there and back twice (`docs/decisions/0024-rights-to-change-alone.md`).

use crate::measure::median;
use crate::site::{Client, Site};
use crate::table::Row;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_system_tests::eventually;

/// Turns: in each a file is made, opened, edited and looked at.
const TURNS: usize = 300;
/// Longest time for a client to be told how it shares.
const SOON: Duration = Duration::from_secs(30);

/// Two clients of one station.
struct Together {
    clients: [Client; 2],
    _site: Site,
}

impl Together {
    fn new() -> Self {
        let site = Site::new();
        let clients = ["ann", "bob"].map(|name| {
            let client = site.client(name, &["--sharing", "close-to-open"]);
            eventually("the client sees at its next look what the other closes", SOON, || is_close_to_open(&client));
            client
        });
        Self { clients, _site: site }
    }

    /// The round trip to the station as the sessions measured it, in us.
    fn round_trip(&self) -> Result<f64> {
        let mut trips = self.clients.iter().map(Site::round_trip).collect::<Result<Vec<_>>>()?;
        median(&mut trips).context("no session to the station")
    }
}

fn is_close_to_open(client: &Client) -> bool {
    let status = client.mount.wayfs(&client.machine, &["status", "--json"]).ok().json();
    status[0]["volumes"][0]["sharing"] == "close-to-open"
}

/// What the turns took, in us: medians.
#[derive(Default)]
struct Turns {
    create: Vec<f64>,
    open: Vec<f64>,
    stat: Vec<f64>,
}

/// Measures both on one site.
pub(crate) fn costs() -> Result<Vec<Row>> {
    eprintln!("two at work");
    let site = Together::new();
    let [ann, bob] = [0, 1].map(|client| site.clients[client].mount.path(""));
    for name in ["apart", "shared"] {
        fs::create_dir(ann.join(name))?;
    }
    // The one who looks is the one who works: nobody else looks there.
    let alone = turns(&ann.join("apart"), &ann.join("apart"))?;
    let before = site.round_trip()?;
    let shared = turns(&ann.join("shared"), &bob.join("shared"))?;
    let trip = before.midpoint(site.round_trip()?);
    let limit =
        format!("alone in the column native; a round trip to the station, as its sessions see it, {trip:.0} us");
    let row = |what: &str, mut alone: Vec<f64>, mut shared: Vec<f64>| Row {
        what: what.to_owned(),
        unit: "us",
        figures: [median(&mut alone), None, median(&mut shared)],
        limit: limit.clone(),
        is_time: true,
    };
    Ok(vec![
        row("create, write 4 KiB, close, where another machine looked", alone.create, shared.create),
        row("open, read 4 KiB, close, of what another machine made", alone.open, shared.open),
        row("stat of what another machine changed", alone.stat, shared.stat),
    ])
}

/// One works, the other looks; each time after the other.
fn turns(works: &Path, looks: &Path) -> Result<Turns> {
    let mut turns = Turns::default();
    fs::read_dir(looks)?.for_each(drop);
    let timed = |samples: &mut Vec<f64>, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let begin = Instant::now();
        work()?;
        samples.push(begin.elapsed().as_secs_f64() * 1e6);
        Ok(())
    };
    for turn in 0..TURNS {
        let name = format!("file-{turn}");
        timed(&mut turns.create, &mut || Ok(fs::write(works.join(&name), [7; 4096])?))?;
        timed(&mut turns.open, &mut || {
            ensure!(fs::read(looks.join(&name))?.len() == 4096, "what was closed is not whole");
            Ok(())
        })?;
        File::options()
            .append(true)
            .open(works.join(&name))
            .and_then(|mut file| std::io::Write::write_all(&mut file, &[8; 100]))?;
        timed(&mut turns.stat, &mut || {
            ensure!(black_box(fs::metadata(looks.join(&name))?).len() == 4196, "what was closed is not seen");
            Ok(())
        })?;
    }
    Ok(turns)
}
