//! MooseFS: a metadata server and a chunk server, both on the host `home`.

use super::{Peer, PeerMount, PeerServer, READY, mount_point, until_it_answers};
use crate::{LabError, MountPoint, Process, Sites};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The tree that the package brings for a new file system.
const EMPTY: &str = "/var/lib/mfs/metadata.mfs.empty";

/// Where the metadata server listens for clients unless told otherwise.
const CLIENTS_PORT: u16 = 9421;

/// MooseFS.
pub(super) struct MooseFs;

impl Peer for MooseFs {
    fn name(&self) -> &'static str {
        "MooseFS"
    }

    fn about(&self) -> &'static str {
        "MooseFS 3 as it comes, one metadata server and one chunk server at the home: attributes cached for 1 s; closing a file waits for the chunk server"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["mfsmaster", "mfschunkserver", "mfsmount"]
    }

    fn serve(&self, sites: &Sites) -> Result<Box<dyn PeerServer>, LabError> {
        Ok(Box::new(Server::start(sites)?))
    }
}

struct Server {
    // The mount at the home goes before the servers.
    tree: PeerMount,
    address: Ipv4Addr,
    _chunks: Process,
    _master: Process,
}

impl Server {
    fn start(sites: &Sites) -> Result<Self, LabError> {
        let address = sites.lab().address("home")?;
        let own = sites.lab().directory("home")?.join("moosefs");
        let master = configure(&own, "master", &[("EXPORTS_FILENAME", &path(&own, "exports"))])?;
        write(&own.join("exports"), "* / rw,alldirs,maproot=0\n")?;
        let metadata = own.join("master/metadata.mfs");
        std::fs::copy(EMPTY, &metadata).map_err(LabError::io(format!("copy {EMPTY}")))?;
        let place = address.to_string();
        let more = [("MASTER_HOST", place.as_str()), ("HDD_CONF_FILENAME", &path(&own, "disks"))];
        let chunks = configure(&own, "chunks", &more)?;
        write(&own.join("disks"), &format!("{}\n", path(&own, "blocks")))?;
        std::fs::create_dir_all(own.join("blocks")).map_err(LabError::io("make a directory for blocks"))?;
        let mut master = daemon(sites, "mfsmaster", &master)?;
        until_it_answers(sites, &mut master, CLIENTS_PORT)?;
        let chunks = daemon(sites, "mfschunkserver", &chunks)?;
        let point = sites.lab().mount_point("home-peer")?;
        let tree = mount(sites, "home", address, point)?;
        let server = Self { tree, address, _chunks: chunks, _master: master };
        server.wait_until_it_stores()?;
        Ok(server)
    }

    /// The master takes files before it knows of a server for their chunks.
    fn wait_until_it_stores(&self) -> Result<(), LabError> {
        let probe = self.tree().join(".probe");
        let start = Instant::now();
        while std::fs::write(&probe, "x").is_err() {
            if start.elapsed() > READY {
                return Err(LabError::TimedOut { what: "a chunk server for MooseFS".into(), within: READY });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        std::fs::remove_file(&probe).map_err(LabError::io("remove the probe"))
    }
}

impl PeerServer for Server {
    fn mount(&mut self, sites: &Sites, site: usize) -> Result<PeerMount, LabError> {
        let (host, point) = mount_point(sites, site)?;
        mount(sites, &host, self.address, point)
    }

    fn tree(&self) -> &Path {
        self.tree.at()
    }
}

fn mount(sites: &Sites, host: &str, master: Ipv4Addr, point: MountPoint) -> Result<PeerMount, LabError> {
    let mut command = Command::new("mfsmount");
    command.arg("-f").arg(point.path()).arg("-H").arg(master.to_string());
    // Not above everything else on the machine, as it would choose by itself.
    command.args(["-o", "mfsnice=0"]);
    PeerMount::start(sites, host, point, command)
}

fn daemon(sites: &Sites, program: &str, configuration: &Path) -> Result<Process, LabError> {
    let mut command = Command::new(format!("/usr/sbin/{program}"));
    command.arg("-f").arg("-c").arg(configuration).arg("start");
    sites.lab().spawn("home", program, command)
}

/// Writes the configuration of a daemon that keeps its state in a directory of this name.
fn configure(own: &Path, name: &str, more: &[(&str, &str)]) -> Result<PathBuf, LabError> {
    let data = own.join(name);
    std::fs::create_dir_all(&data).map_err(LabError::io(format!("make {}", data.display())))?;
    let mut text =
        format!("WORKING_USER = root\nWORKING_GROUP = root\nNICE_LEVEL = 0\nDATA_PATH = {}\n", data.display());
    for (key, value) in more {
        writeln!(text, "{key} = {value}").expect("a string takes everything");
    }
    let file = own.join(format!("{name}.cfg"));
    write(&file, &text)?;
    Ok(file)
}

fn path(own: &Path, name: &str) -> String {
    own.join(name).display().to_string()
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    std::fs::write(path, text).map_err(LabError::io(format!("write {}", path.display())))
}
