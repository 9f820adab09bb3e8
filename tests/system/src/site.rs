//! Machines at one server, or two at two.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use crate::{Machine, Mount, Server, eventually, free_port};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time for news to travel.
const SOON: Duration = Duration::from_secs(20);

/// A home and two clients, or more.
pub struct Site {
    /// The home's machine, and the home.
    pub home: (Machine, Server),
    stations: Vec<(Machine, Server)>,
    /// Which station each client uses, if each uses one.
    uses: Vec<usize>,
    /// The machines, with their mounts.
    pub clients: Vec<(Machine, Mount)>,
    /// Where in the volume the tests are.
    base: &'static str,
}

impl Site {
    /// Both are connected to the home, and see each other's closes at their next look: there is no other server that one of
    /// them could move to.
    ///
    /// # Panics
    /// If a machine cannot be set up.
    pub fn new() -> Self {
        Self::of(&["ann", "bob"])
    }

    /// The same with clients of these names.
    ///
    /// # Panics
    /// If a machine cannot be set up.
    pub fn of(names: &[&str]) -> Self {
        let machine = Machine::new("home");
        let home = machine.serve(free_port(), &[]);
        home.wayfs(&machine, &["volume", "create", "work"]).ok();
        let client = |name: &&str| {
            let client = Machine::new(name);
            // The way to a server on a busy machine may look far.
            let mount = client.mount(&home.ticket(&machine, "work"), &["--sharing", "close-to-open"]);
            (client, mount)
        };
        let clients = names.iter().map(client).collect();
        Self { home: (machine, home), stations: Vec::new(), uses: Vec::new(), clients, base: "" }
    }

    /// Each is connected to a station of its own, and the tests are in an exclusive directory.
    ///
    /// # Panics
    /// If a machine cannot be set up.
    pub fn apart() -> Self {
        let machine = Machine::new("home");
        let home = machine.serve(free_port(), &[]);
        home.wayfs(&machine, &["volume", "create", "work"]).ok();
        let stations = ["east", "west"].map(|name| {
            let site = Machine::new(name);
            let station = site.serve(free_port(), &[]);
            station.wayfs(&site, &["station", "join", &home.station_ticket(&machine, "work")]).ok();
            (site, station)
        });
        let mut ports = stations.iter().map(|(_, station)| station.port);
        let clients = ["ann", "bob"].map(|name| {
            let client = Machine::new(name);
            let mount = client.mount(&home.ticket(&machine, "work"), &["--sharing", "close-to-open"]);
            let port = ports.next().expect("a station for each");
            eventually("the client uses its station", SOON, || {
                mount.wayfs(&client, &["station", "use", &format!("127.0.0.1:{port}")]).status.success()
            });
            (client, mount)
        });
        let (stations, clients) = (stations.into(), clients.into());
        let site = Self { home: (machine, home), stations, uses: vec![0, 1], clients, base: "shared" };
        fs::create_dir(site.root(0)).expect("make a directory in the mount");
        let (client, mount) = &site.clients[0];
        mount.wayfs(client, &["exclusive", &site.root(0).to_string_lossy()]).ok();
        let (client, mount) = &site.clients[1];
        mount.wayfs(client, &["refresh", &site.root(1).to_string_lossy()]).ok();
        site
    }

    /// Has a client use the other station.
    ///
    /// # Panics
    /// If it does not within some seconds, or there are no two.
    pub fn move_client(&mut self, client: usize) {
        self.uses[client] = 1 - self.uses[client];
        self.use_station(client);
    }

    fn use_station(&self, client: usize) {
        let port = self.stations[self.uses[client]].1.port;
        let (machine, mount) = &self.clients[client];
        eventually("the client uses its station", SOON, || {
            mount.wayfs(machine, &["station", "use", &format!("127.0.0.1:{port}")]).status.success()
        });
    }

    /// Kills the daemon of a client, and mounts again.
    ///
    /// # Panics
    /// If it cannot be mounted.
    pub fn kill_client(&mut self, client: usize) {
        let (machine, mount) = &mut self.clients[client];
        mount.abandon();
        *mount = machine.mount("work", &["--sharing", "close-to-open"]);
        if !self.stations.is_empty() {
            self.use_station(client);
        }
    }

    /// Kills a station, and starts it again after a while.
    ///
    /// # Panics
    /// If it does not start, or there is none.
    pub fn kill_station(&mut self, station: usize, down: Duration) {
        let (machine, server) = &mut self.stations[station];
        server.process.kill();
        std::thread::sleep(down);
        *server = machine.serve(server.port, &[]);
    }

    /// Kills the home, and starts it again after a while.
    ///
    /// # Panics
    /// If it does not start.
    pub fn kill_home(&mut self, down: Duration) {
        let (machine, server) = &mut self.home;
        server.process.kill();
        std::thread::sleep(down);
        *server = machine.serve(server.port, &[]);
    }

    /// Where a client has the directory of the tests.
    pub fn root(&self, client: usize) -> PathBuf {
        self.clients[client].1.path(self.base)
    }

    /// Puts a file where both see it.
    ///
    /// # Panics
    /// If they do not within some seconds.
    pub fn share(&self, name: &str, bytes: &[u8]) -> [PathBuf; 2] {
        let paths = [0, 1].map(|client| self.root(client).join(name));
        // For reading, too: what is written only may be written past the daemon, and whoever opens it to write before that
        // handle is gone keeps what it opened (the exception of [S-remote-change]).
        let mut file = File::options().read(true).write(true).create_new(true).open(&paths[0]).unwrap();
        file.write_all(bytes).unwrap();
        file.sync_all().unwrap();
        let (there, wanted) = (paths[1].clone(), bytes.to_vec());
        eventually("both see the file", SOON, move || fs::read(&there).is_ok_and(|found| found == wanted));
        paths
    }
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Site {
    /// Ends the mounts before what they are mounted on is taken away, while the servers are there: who looks into one whose server is gone
    /// waits for it.
    fn drop(&mut self) {
        for (_, mount) in &mut self.clients {
            mount.kill();
        }
    }
}
