//! Where is measured: a directory, a loopback mount, a mounted volume.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use wayfs_fuse::loopback::{Loopback, LoopbackOptions};
use wayfs_fuse::{Config, Mount, MountOptions, Session};
use wayfs_system_tests::{Machine, Process, Server, eventually, free_port, is_mounted};

/// The three places, on one disk.
pub(crate) struct Places {
    scratch: TempDir,
    pub(crate) home: Machine,
    pub(crate) server: Server,
    pub(crate) client: Machine,
    pub(crate) mount: wayfs_system_tests::Mount,
    loopback: Process,
}

impl Places {
    /// Sets all up.
    pub(crate) fn new() -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("wayfs-bench-").tempdir()?;
        for name in ["native", "behind", "loopback"] {
            std::fs::create_dir(scratch.path().join(name))?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("loopback").arg(scratch.path().join("behind")).arg(scratch.path().join("loopback"));
        let loopback = Process::start(&mut command, &scratch.path().join("loopback.log"));
        let mountpoint = scratch.path().join("loopback");
        eventually("the loopback is mounted", Duration::from_secs(10), || is_mounted(&mountpoint));
        let home = Machine::new("home");
        let server = home.serve(free_port(), &[]);
        server.wayfs(&home, &["volume", "create", "bench"]).ok();
        let client = Machine::new("client");
        let mount = client.mount(&server.ticket(&home, "bench"), &[]);
        Ok(Self { scratch, home, server, client, mount, loopback })
    }

    /// Name and directory of each place.
    pub(crate) fn all(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("native", self.scratch.path().join("native")),
            ("loopback", self.scratch.path().join("loopback")),
            ("wayfs", self.mount.root().to_owned()),
        ]
    }

    /// A directory on the same disk for sources.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let directory = self.scratch.path().join("loopback");
        let _ = rustix::mount::unmount(&directory, rustix::mount::UnmountFlags::DETACH);
        self.loopback.kill();
    }
}

/// The loopback's process.
pub(crate) fn serve_loopback(source: &Path, mountpoint: &Path) -> Result<()> {
    if !source.is_dir() {
        bail!("{} is not a directory", source.display());
    }
    let loopback = Loopback::new(source, LoopbackOptions::default()).context("open the source directory")?;
    let mount = Mount::new(&MountOptions::new(mountpoint)).context("mount the loopback")?;
    Session::new(mount, Config::default()).run(Arc::new(loopback), 2).context("serve the loopback")?;
    Ok(())
}
