//! A home and a mount beside it, for tests that share one.

use crate::{Machine, Mount, Server, free_port, within};
use std::path::PathBuf;
use std::time::Duration;

/// The two machines and their daemons. The daemons end with this process, also if this is never dropped.
#[derive(Debug)]
pub struct World {
    /// The machine of the home.
    pub home: Machine,
    /// The home, with the volume `work`.
    pub server: Server,
    /// The machine of the mount.
    pub client: Machine,
    /// The mount.
    pub mount: Mount,
}

impl Default for World {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl World {
    /// Starts everything; `more` are arguments of the mount.
    pub fn new(more: &[&str]) -> Self {
        let home = Machine::new("home");
        let server = home.serve(free_port(), &[]);
        server.wayfs(&home, &["volume", "create", "work"]).ok();
        let client = Machine::new("client");
        let mount = client.mount(&server.ticket(&home, "work"), more);
        Self { home, server, client, mount }
    }

    /// A second client of the volume.
    pub fn other(&self, name: &str) -> (Machine, Mount) {
        let machine = Machine::new(name);
        let mount = machine.mount(&self.server.ticket(&self.home, "work"), &[]);
        (machine, mount)
    }

    /// A fresh directory in the mount.
    pub fn directory(&self, name: &str) -> PathBuf {
        let directory = self.mount.path(name);
        let made = directory.clone();
        within("make a directory", Duration::from_secs(20), move || {
            std::fs::create_dir(made).expect("make a directory in the mount");
        });
        directory
    }
}
