//! rclone mount: a remote behind a full local cache, written back in the background.

use super::sshd::{PORT, Sshd};
use super::{Peer, PeerMount, PeerServer, mount_point};
use crate::{LabError, Sites};
use std::path::Path;
use std::process::Command;

/// rclone mount.
pub(super) struct Rclone;

impl Peer for Rclone {
    fn name(&self) -> &'static str {
        "rclone"
    }

    fn about(&self) -> &'static str {
        "rclone mount of an SFTP remote with --vfs-cache-mode full and --vfs-fast-fingerprint, otherwise as it comes: directories cached for 5 minutes, contents on disk; written back 5 s after a file is closed, four at a time"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["rclone", "sshd", "ssh-keygen", "fusermount3"]
    }

    fn serve(&self, sites: &Sites) -> Result<Box<dyn PeerServer>, LabError> {
        Ok(Box::new(Server { sshd: Sshd::start(sites)?, mounts: 0 }))
    }
}

struct Server {
    sshd: Sshd,
    /// Mounts so far: each gets a cache of its own.
    mounts: u32,
}

impl PeerServer for Server {
    fn mount(&mut self, sites: &Sites, site: usize) -> Result<PeerMount, LabError> {
        let (host, mount) = mount_point(sites, site)?;
        let own = sites.lab().directory(&host)?.join(format!("rclone-{}", self.mounts));
        self.mounts += 1;
        let mut command = Command::new("rclone");
        command.arg("mount").arg(format!(":sftp:{}", self.sshd.export().display())).arg(mount.path());
        command.arg("--sftp-host").arg(self.sshd.address().to_string());
        command.args(["--sftp-port", &PORT.to_string(), "--sftp-user", "root", "--sftp-key-file"]).arg(self.sshd.key());
        command.args(["--vfs-cache-mode", "full", "--cache-dir"]).arg(own.join("cache"));
        // Without it each file costs a program at the server that hashes it; the manual advises it for such remotes.
        command.arg("--vfs-fast-fingerprint");
        // Without a configuration of the machine's user.
        command.arg("--config").arg(own.join("none.conf"));
        PeerMount::start(sites, &host, mount, command)
    }

    fn tree(&self) -> &Path {
        self.sshd.export()
    }
}
