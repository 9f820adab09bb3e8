//! JuiceFS: metadata in Redis, contents as objects behind SFTP, both on the host `home`.

use super::sshd::{PORT, Sshd};
use super::{Peer, PeerMount, PeerServer, mount_point, until_it_answers};
use crate::{LabError, MountPoint, Process, Sites};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where Redis listens: not where a machine's own does.
const REDIS_PORT: u16 = 6399;
/// Longest time to make the file system.
const TOOL: Duration = Duration::from_secs(60);

/// JuiceFS.
pub(super) struct JuiceFs;

impl Peer for JuiceFs {
    fn name(&self) -> &'static str {
        "JuiceFS"
    }

    fn about(&self) -> &'static str {
        "JuiceFS as it comes (attributes cached for 1 s, contents on the client's disk; closing a file waits until its objects are uploaded), metadata in Redis with an append-only file synced each second, objects behind SFTP, both at the home"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["juicefs", "redis-server", "sshd", "ssh-keygen", "fusermount3"]
    }

    fn serve(&self, sites: &Sites) -> Result<Box<dyn PeerServer>, LabError> {
        Ok(Box::new(Server::start(sites)?))
    }
}

struct Server {
    // The mount at the home goes before the servers.
    tree: PeerMount,
    volume: Volume,
    _redis: Process,
    _sshd: Sshd,
    /// Mounts so far: each gets a cache of its own.
    mounts: u32,
}

/// What a client has to know.
struct Volume {
    metadata: String,
    key: PathBuf,
}

impl Volume {
    fn command(&self, what: &str) -> Command {
        let mut command = Command::new("juicefs");
        command.arg(what).env("SSH_PRIVATE_KEY_PATH", &self.key).env_remove("SSH_AUTH_SOCK");
        // Seconds. By itself it gives a mount up after ten, which over a satellite is too soon.
        command.env("JFS_MOUNT_TIMEOUT", "60");
        command
    }

    /// Makes the file system.
    fn format(&self, sites: &Sites, sshd: &Sshd) -> Result<(), LabError> {
        let mut command = self.command("format");
        let bucket = format!("{}:{PORT}:{}/objects/", sshd.address(), sshd.export().display());
        command.args(["--storage", "sftp", "--access-key", "root", "--bucket", &bucket]);
        command.args([&self.metadata, "lab"]);
        let output = sites.lab().run("home", command, TOOL)?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(LabError::Tool { tool: "juicefs format".into(), message })
    }

    fn mount(&self, sites: &Sites, host: &str, cache: &Path, point: MountPoint) -> Result<PeerMount, LabError> {
        let mut command = self.command("mount");
        command.arg("--no-usage-report").arg("--cache-dir").arg(cache).arg(&self.metadata).arg(point.path());
        PeerMount::start(sites, host, point, command)
    }
}

impl Server {
    fn start(sites: &Sites) -> Result<Self, LabError> {
        let sshd = Sshd::start(sites)?;
        let own = sites.lab().directory("home")?.join("juicefs");
        std::fs::create_dir_all(&own).map_err(LabError::io("make a directory for Redis"))?;
        let address = sites.lab().address("home")?;
        let redis = redis(sites, address, &own)?;
        let volume = Volume { metadata: format!("redis://{address}:{REDIS_PORT}/1"), key: sshd.key() };
        volume.format(sites, &sshd)?;
        let point = sites.lab().mount_point("home-peer")?;
        let tree = volume.mount(sites, "home", &own.join("cache"), point)?;
        Ok(Self { tree, volume, _redis: redis, _sshd: sshd, mounts: 0 })
    }
}

impl PeerServer for Server {
    fn mount(&mut self, sites: &Sites, site: usize) -> Result<PeerMount, LabError> {
        let (host, point) = mount_point(sites, site)?;
        let cache = sites.lab().directory(&host)?.join(format!("juicefs-{}", self.mounts));
        self.mounts += 1;
        self.volume.mount(sites, &host, &cache, point)
    }

    fn tree(&self) -> &Path {
        self.tree.at()
    }
}

fn redis(sites: &Sites, address: Ipv4Addr, own: &Path) -> Result<Process, LabError> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &REDIS_PORT.to_string(), "--bind", &address.to_string(), "--protected-mode", "no"]);
    command.args(["--appendonly", "yes", "--save", "", "--dir"]).arg(own);
    let mut process = sites.lab().spawn("home", "redis", command)?;
    until_it_answers(sites, &mut process, REDIS_PORT)?;
    Ok(process)
}
