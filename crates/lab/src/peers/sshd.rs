//! An SSH server on the host `home`, with keys and configuration of its own.

use super::until_it_answers;
use crate::{LabError, Process, Sites};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where it listens: not where a machine's own server does.
pub(super) const PORT: u16 = 2222;
/// Longest time to make a key.
const TOOL: Duration = Duration::from_secs(30);

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Sshd {
    _process: Process,
    address: Ipv4Addr,
    directory: PathBuf,
    export: PathBuf,
}

impl Sshd {
    /// Starts it, and makes the directory that it is to export.
    pub(super) fn start(sites: &Sites) -> Result<Self, LabError> {
        let lab = sites.lab();
        let directory = lab.directory("home")?.join("sshd");
        let export = directory.join("export");
        // OpenSSH wants this directory, empty, where a service manager would have made it.
        for needed in [export.as_path(), Path::new("/run/sshd")] {
            std::fs::create_dir_all(needed).map_err(LabError::io(format!("make {}", needed.display())))?;
        }
        for key in ["host-key", "user-key"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(key));
            let output = lab.run("home", make, TOOL)?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(LabError::Tool { tool: "ssh-keygen".into(), message });
            }
        }
        let address = lab.address("home")?;
        let config = directory.join("config");
        std::fs::write(&config, configuration(address, &directory)).map_err(LabError::io("configure sshd"))?;
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f"]).arg(&config);
        let mut process = lab.spawn("home", "sshd", command)?;
        until_it_answers(sites, &mut process, PORT)?;
        Ok(Self { _process: process, address, directory, export })
    }

    /// The directory that clients mount, as an absolute path.
    pub(super) fn export(&self) -> &Path {
        &self.export
    }

    /// Where it is.
    pub(super) const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The key that lets users in.
    pub(super) fn key(&self) -> PathBuf {
        self.directory.join("user-key")
    }
}

fn configuration(address: Ipv4Addr, directory: &Path) -> String {
    let directory = directory.display();
    // Whoever runs the laboratory is root, and so is the user of the mount.
    format!(
        "ListenAddress {address}:{PORT}\nHostKey {directory}/host-key\nAuthorizedKeysFile {directory}/user-key.pub\n\
         PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n\
         UseDNS no\nMaxStartups 100\nSubsystem sftp internal-sftp\n"
    )
}
