//! sshfs: a directory of a server over SFTP, each call a round trip.

use super::sshd::{PORT, Sshd};
use super::{Peer, PeerMount, PeerServer, mount_point};
use crate::{LabError, Sites};
use std::path::Path;
use std::process::Command;

/// sshfs.
pub(super) struct Sshfs;

impl Peer for Sshfs {
    fn name(&self) -> &'static str {
        "sshfs"
    }

    fn about(&self) -> &'static str {
        "sshfs and OpenSSH as they come: names and attributes cached for 20 s, contents not; what was written is at the server when the file is closed"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["sshfs", "ssh", "sshd", "ssh-keygen"]
    }

    fn serve(&self, sites: &Sites) -> Result<Box<dyn PeerServer>, LabError> {
        Ok(Box::new(Server(Sshd::start(sites)?)))
    }
}

struct Server(Sshd);

impl PeerServer for Server {
    fn mount(&mut self, sites: &Sites, site: usize) -> Result<PeerMount, LabError> {
        let (host, mount) = mount_point(sites, site)?;
        let mut command = Command::new("sshfs");
        let remote = format!("root@{}:{}", self.0.address(), self.0.export().display());
        command.arg("-f").arg(remote).arg(mount.path());
        let port = PORT.to_string();
        let key = self.0.key().display().to_string();
        for (name, value) in [
            ("port", port.as_str()),
            ("IdentityFile", &key),
            ("IdentitiesOnly", "yes"),
            // The key of a server that lives for minutes is not worth remembering.
            ("StrictHostKeyChecking", "no"),
            ("UserKnownHostsFile", "/dev/null"),
            ("BatchMode", "yes"),
        ] {
            command.arg("-o").arg(format!("{name}={value}"));
        }
        PeerMount::start(sites, &host, mount, command)
    }

    fn tree(&self) -> &Path {
        self.0.export()
    }
}
