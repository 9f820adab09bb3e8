//! Two machines at one server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use crate::{Machine, Mount, Server, eventually, free_port};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time for news to travel.
const SOON: Duration = Duration::from_secs(20);

/// A home and two clients that are connected to it: there is no other server that one of them could move to.
pub struct Site {
    _home: (Machine, Server),
    /// The two machines, with their mounts.
    pub clients: [(Machine, Mount); 2],
}

impl Site {
    /// Both see each other's closes at their next look.
    ///
    /// # Panics
    /// If a machine cannot be set up.
    pub fn new() -> Self {
        let machine = Machine::new("home");
        let home = machine.serve(free_port(), &[]);
        home.wayfs(&machine, &["volume", "create", "work"]).ok();
        let clients = ["ann", "bob"].map(|name| {
            let client = Machine::new(name);
            // The way to a server on a busy machine may look far.
            let mount = client.mount(&home.ticket(&machine, "work"), &["--sharing", "close-to-open"]);
            (client, mount)
        });
        Self { _home: (machine, home), clients }
    }

    /// Where a client has the volume.
    pub fn root(&self, client: usize) -> PathBuf {
        self.clients[client].1.root().to_owned()
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
