//! NFS version 3: nfs-ganesha at home, mounted by the NFS client of our own program.

use super::{Peer, PeerMount, PeerServer, mount_point};
use crate::nfs::{MOUNT_PORT, NFS_PORT, NfsServer};
use crate::{LabError, Sites};
use std::path::Path;

/// NFS over one transport.
pub(crate) struct Nfs {
    name: &'static str,
    proto: &'static str,
}

/// Over UDP, and over TCP. Not among the peers of experiments about wide areas: it is there for bad hops.
pub(crate) const NFS: [Nfs; 2] = [Nfs { name: "nfs-udp", proto: "udp" }, Nfs { name: "nfs-tcp", proto: "tcp" }];

impl Peer for Nfs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        "nfs-ganesha and `wayfs mount nfs://` as they come: close-to-open, what was written is on the server's disk when the file is closed"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["ganesha.nfsd", "rpcbind"]
    }

    fn serve(&self, sites: &Sites) -> Result<Box<dyn PeerServer>, LabError> {
        Ok(Box::new(Server { server: NfsServer::start(sites.lab(), "home")?, proto: self.proto }))
    }
}

struct Server {
    server: NfsServer,
    proto: &'static str,
}

impl PeerServer for Server {
    fn mount(&mut self, sites: &Sites, site: usize) -> Result<PeerMount, LabError> {
        let (host, mount) = mount_point(sites, site)?;
        let export = format!("nfs://{}:{NFS_PORT}{}", sites.lab().address("home")?, self.server.export().display());
        let options = format!("proto={},mountport={MOUNT_PORT}", self.proto);
        let mut command = sites.command(&host, &["mount", &export])?;
        command.arg(mount.path()).args(["-o", &options]);
        PeerMount::start(sites, &host, mount, command)
    }

    fn tree(&self) -> &Path {
        self.server.export()
    }
}
