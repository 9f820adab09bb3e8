//! Peers: file systems of others, on the same emulated networks as ours.
//!
//! The server of a peer runs on the host `home`, its clients on `client-X`; a `station-X` only routes. Each is run as
//! its documentation suggests, without tuning; what is set is said in [`Peer::about`]. A peer whose programs are not
//! installed is named as such and left out: `scripts/peers.sh` installs them.
//!
//! ```no_run
//! # use wayfs_lab::{Context, LabError, Sites, SitesPlan, peers};
//! # fn f(context: &Context<'_>) -> Result<(), LabError> {
//! for peer in peers::PEERS.iter().filter(|peer| peers::missing(**peer).is_empty()) {
//!     let sites = Sites::network(context, peer.name(), 1, SitesPlan::profiles(&["intercontinental"])?)?;
//!     let mut server = peer.serve(&sites)?;
//!     std::fs::write(server.tree().join("letter"), "from home").map_err(LabError::io("write"))?;
//!     let client = server.mount(&sites, 0)?;
//!     assert!(client.at().join("letter").exists());
//!     drop(client); // before the server, and that before the network
//! }
//! # Ok(())
//! # }
//! ```

mod juicefs;
mod moosefs;
mod nfs;
mod rclone;
mod sshd;
mod sshfs;

use crate::sites::client_of;
use crate::{LabError, MountPoint, Process, Sites};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use nfs::NFS;

/// All peers of experiments about wide areas.
pub const PEERS: &[&dyn Peer] = &[&sshfs::Sshfs, &rclone::Rclone, &moosefs::MooseFs, &juicefs::JuiceFs];

/// Longest time for a server to answer or a mount to appear, on a slow line and a busy machine.
const READY: Duration = Duration::from_secs(60);

/// Somebody else's network file system.
pub trait Peer: Sync {
    /// Its name, as people know it.
    fn name(&self) -> &'static str;

    /// How it is set up here, and what it promises of consistency and safety by its documentation.
    fn about(&self) -> &'static str;

    /// Programs that it needs.
    fn programs(&self) -> &'static [&'static str];

    /// Starts its server on the host `home`.
    ///
    /// # Errors
    /// [`LabError`] if it does not answer.
    fn serve(&self, sites: &Sites) -> Result<Box<dyn PeerServer>, LabError>;
}

/// A running server of a peer. Dropping it ends it; its clients go first.
pub trait PeerServer: Send {
    /// Mounts at the client of a site, with empty caches.
    ///
    /// # Errors
    /// [`LabError`] if it is not mounted in time.
    fn mount(&mut self, sites: &Sites, site: usize) -> Result<PeerMount, LabError>;

    /// A directory in which the files are as the server has them. To use it crosses no emulated line.
    fn tree(&self) -> &Path;
}

/// A mount of a peer. Dropping it takes it away at once, whatever it has not sent.
#[derive(Debug)]
pub struct PeerMount {
    // The mount goes before the process: whoever waits in it must be let go.
    mount: MountPoint,
    process: Process,
}

impl PeerMount {
    /// Starts what mounts, and waits until it has.
    fn start(sites: &Sites, host: &str, mount: MountPoint, command: Command) -> Result<Self, LabError> {
        let process = sites.lab().spawn(host, "peer-mount", command)?;
        let mut new = Self { mount, process };
        until("the peer to be mounted", &mut new.process, |mount| mount.is_mounted(), &new.mount)?;
        Ok(new)
    }

    /// Where it is mounted. Mounts are seen by the whole machine.
    pub fn at(&self) -> &Path {
        self.mount.path()
    }

    /// The program that serves it.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The programs of a peer that are not installed.
pub fn missing(peer: &dyn Peer) -> Vec<&'static str> {
    peer.programs().iter().copied().filter(|program| !is_installed(program)).collect()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers lie where only root looks, and `PATH` may be somebody else's.
    let system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|directory| directory.join(program).is_file())
}

/// A fresh mount point for a client of a site, and the host's name.
fn mount_point(sites: &Sites, site: usize) -> Result<(String, MountPoint), LabError> {
    let host = client_of(site);
    let mount = sites.lab().mount_point(&format!("{host}-peer"))?;
    Ok((host, mount))
}

/// Waits until a server on the host `home` takes connections.
fn until_it_answers(sites: &Sites, process: &mut Process, port: u16) -> Result<(), LabError> {
    let address = sites.lab().address("home")?;
    let answers =
        |sites: &Sites| sites.lab().inside("home", || TcpStream::connect((address, port)).is_ok()).unwrap_or(false);
    until(&format!("an answer at port {port}"), process, answers, sites)
}

/// Waits until something holds while a program runs; gives what the program said if it ends.
fn until<T: ?Sized>(
    what: &str,
    process: &mut Process,
    condition: impl Fn(&T) -> bool,
    subject: &T,
) -> Result<(), LabError> {
    let start = Instant::now();
    while !condition(subject) {
        if let Some(status) = process.ended() {
            return Err(LabError::Tool {
                tool: what.to_owned(),
                message: format!("{status}: {}", process.output().trim()),
            });
        }
        if start.elapsed() > READY {
            return Err(LabError::TimedOut { what: what.to_owned(), within: READY });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
