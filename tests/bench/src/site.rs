//! A home, a station that joined it, and clients at the station: three kinds of machine, here on one.

use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port};

/// The volume.
pub(crate) const VOLUME: &str = "bench";
/// Longest time for a client to come to the station.
const SOON: Duration = Duration::from_secs(30);
/// Longest time for what was written to be where it is to be.
const SETTLED: Duration = Duration::from_secs(900);

/// Home and station.
pub(crate) struct Site {
    pub(crate) station: Daemon,
    pub(crate) home: Daemon,
}

/// A server, and where it tells its metrics.
pub(crate) struct Daemon {
    pub(crate) server: Server,
    pub(crate) machine: Machine,
    pub(crate) metrics: u16,
}

impl Daemon {
    fn start(name: &str) -> Self {
        let machine = Machine::new(name);
        let (port, metrics) = (free_port(), free_port());
        let server = machine.serve(port, &["--metrics", &format!("127.0.0.1:{metrics}")]);
        Self { server, machine, metrics }
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.server.process.id()
    }
}

/// A machine with a mount.
pub(crate) struct Client {
    pub(crate) mount: Mount,
    pub(crate) machine: Machine,
}

impl Client {
    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.mount.process.id()
    }

    /// Where it is connected.
    pub(crate) fn parent(&self) -> serde_json::Value {
        let status = self.mount.wayfs(&self.machine, &["status", "--json"]).ok().json();
        status[0]["volumes"][0]["parent"].clone()
    }

    /// Waits until everything written here is `safe` at the station, or `stable` at the home.
    ///
    /// # Errors
    /// It is not within a quarter of an hour.
    pub(crate) fn settle(&self, level: &str) -> Result<()> {
        let end = Instant::now() + SETTLED;
        let arguments = ["sync", "--until", level, "--timeout", "60"];
        while !self.mount.wayfs(&self.machine, &arguments).status.success() {
            ensure!(Instant::now() < end, "what was written is not {level} within {SETTLED:?}");
        }
        Ok(())
    }
}

impl Site {
    /// A home with a volume, and its station.
    pub(crate) fn new() -> Self {
        let home = Daemon::start("home");
        home.server.wayfs(&home.machine, &["volume", "create", VOLUME]).ok();
        let station = Daemon::start("station");
        let ticket = home.server.station_ticket(&home.machine, VOLUME);
        station.server.wayfs(&station.machine, &["station", "join", &ticket]).ok();
        Self { station, home }
    }

    /// A new machine that mounts the volume by way of the station; `more` are arguments of its mount.
    pub(crate) fn client(&self, name: &str, more: &[&str]) -> Client {
        let machine = Machine::new(name);
        let mount = machine.mount(&self.home.server.ticket(&self.home.machine, VOLUME), more);
        let client = Client { mount, machine };
        let station = format!("127.0.0.1:{}", self.station.server.port);
        eventually("the client knows the station", SOON, || {
            client.mount.wayfs(&client.machine, &["station", "use", &station]).status.success()
        });
        eventually("the client is at the station", SOON, || {
            let parent = client.parent();
            parent["connected"] == true && parent["addresses"].to_string().contains(&station)
        });
        client
    }

    /// Round trip to the station in us, as the session of a client measured it.
    ///
    /// # Errors
    /// It has no session.
    pub(crate) fn round_trip(client: &Client) -> Result<f64> {
        Ok(client.parent()["rtt_ms"].as_f64().context("no session to the station")? * 1e3)
    }
}
