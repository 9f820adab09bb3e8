//! Where is measured: a directory, a loopback mount, a mounted volume.

use crate::ground::Ground;
use anyhow::Result;
use std::path::{Path, PathBuf};
use wayfs_system_tests::{Machine, Mount, Server, free_port};

/// The three places, on one disk; the mount is at a home, without a station.
pub(crate) struct Places {
    // It is taken away before what it is compared with.
    pub(crate) mount: Mount,
    pub(crate) client: Machine,
    pub(crate) server: Server,
    pub(crate) home: Machine,
    ground: Ground,
}

impl Places {
    /// Sets all up.
    pub(crate) fn new() -> Result<Self> {
        let ground = Ground::new()?;
        let home = Machine::new("home");
        let server = home.serve(free_port(), &[]);
        server.wayfs(&home, &["volume", "create", "bench"]).ok();
        let client = Machine::new("client");
        let mount = client.mount(&server.ticket(&home, "bench"), &[]);
        Ok(Self { mount, client, server, home, ground })
    }

    /// Name and directory of each place.
    pub(crate) fn all(&self) -> [(&'static str, PathBuf); 3] {
        let [native, loopback] = self.ground.both();
        [native, loopback, ("wayfs", self.mount.root().to_owned())]
    }

    /// A directory on the same disk for sources.
    pub(crate) fn scratch(&self) -> &Path {
        self.ground.scratch()
    }
}
