//! What a mount is compared with: a plain directory, and a plain loopback FUSE file system over another, on one disk.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use wayfs_fuse::loopback::{Loopback, LoopbackOptions};
use wayfs_fuse::{Config, Mount, MountOptions, Session};
use wayfs_system_tests::{Process, eventually, is_mounted};

/// What the loopback and the directory where it is mounted are called.
pub(crate) const LOOPBACK: &str = "loopback";

/// Both, and a directory for what is needed beside them.
pub(crate) struct Ground {
    scratch: TempDir,
    loopback: Process,
}

impl Ground {
    /// Sets both up.
    pub(crate) fn new() -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("wayfs-bench-").tempdir()?;
        for name in ["native", "behind", LOOPBACK] {
            std::fs::create_dir(scratch.path().join(name))?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("loopback").arg(scratch.path().join("behind")).arg(scratch.path().join(LOOPBACK));
        let loopback = Process::start(&mut command, &scratch.path().join("loopback.log"));
        let mountpoint = scratch.path().join(LOOPBACK);
        eventually("the loopback is mounted", Duration::from_secs(10), || is_mounted(&mountpoint));
        Ok(Self { scratch, loopback })
    }

    /// Name and directory of both.
    pub(crate) fn both(&self) -> [(&'static str, PathBuf); 2] {
        ["native", LOOPBACK].map(|name| (name, self.scratch.path().join(name)))
    }

    /// A directory on the same disk for sources.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The process that serves the loopback.
    pub(crate) fn loopback(&self) -> u32 {
        self.loopback.id()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let directory = self.scratch.path().join(LOOPBACK);
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
