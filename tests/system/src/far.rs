//! Two machines that are far from each other: one at a station, the other at the home.

use crate::{Machine, Mount, Server, eventually, free_port};
use std::path::PathBuf;
use std::time::Duration;

/// Longest time for a machine to find a station.
const FOUND: Duration = Duration::from_secs(60);

/// A home, a station, a client at each of them. What one client does crosses every kind of session before the other sees it.
#[derive(Debug)]
pub struct Far {
    _home: (Machine, Server),
    _station: (Machine, Server),
    /// The client at the station.
    pub near: (Machine, Mount),
    /// The client at the home.
    pub far: (Machine, Mount),
}

impl Far {
    /// Starts everything.
    ///
    /// # Panics
    /// If a machine cannot be set up.
    pub fn new() -> Self {
        let machine = Machine::new("home");
        let home = machine.serve(free_port(), &[]);
        home.wayfs(&machine, &["volume", "create", "work"]).ok();
        let post = Machine::new("station");
        let station = post.serve(free_port(), &[]);
        station.wayfs(&post, &["station", "join", &home.station_ticket(&machine, "work")]).ok();
        let [near, far] = [("near", station.port), ("far", home.port)].map(|(name, port)| {
            let client = Machine::new(name);
            let mount = client.mount(&home.ticket(&machine, "work"), &[]);
            choose(&client, &mount, port);
            (client, mount)
        });
        Self { _home: (machine, home), _station: (post, station), near, far }
    }

    /// A path at the near and at the far client.
    pub fn paths(&self, name: &str) -> [PathBuf; 2] {
        [self.near.1.path(name), self.far.1.path(name)]
    }

    /// The far client sees all that the near one did before.
    ///
    /// # Panics
    /// If it does not within a minute.
    pub fn hand_over(&self) {
        self.near.1.sync(&self.near.0, "visible");
        self.far.1.wayfs(&self.far.0, &["refresh"]).ok();
    }

    /// The near client's daemon dies and begins anew, at the station or without a network.
    ///
    /// # Panics
    /// If it does not begin again.
    pub fn remount_near(&mut self) {
        self.near.1.kill();
        self.near.1 = self.near.0.mount("work", &[]);
    }
}

impl Default for Far {
    fn default() -> Self {
        Self::new()
    }
}

fn choose(client: &Machine, mount: &Mount, port: u16) {
    let address = format!("127.0.0.1:{port}");
    eventually("the server is chosen", FOUND, || {
        mount.wayfs(client, &["station", "use", &address]).status.success()
            && mount.wayfs(client, &["status", "--json"]).out.contains(&port.to_string())
    });
}
