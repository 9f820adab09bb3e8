//! The servers of the volume, as the machine is told of them.

use super::shared::Shared;
use crate::nearby::Nearby;
use crate::servers::{ServerInfo, ServerKind};
use wayfs_net::Address;
use wayfs_proto::Role;
use wayfs_roam::{AddressVersion, Server};
use wayfs_types::NodeId;

/// Addresses heard on the local network that go before the others.
const NEARBY_MAX: usize = 4;

/// What the machine was told last, in the order of the directory: who is dialled first answers first on a busy machine, and that is
/// the home, which is not to look farther than it is.
#[derive(Default)]
pub(super) struct KnownServers {
    servers: Vec<(ServerInfo, u64)>,
    versions: u64,
}

impl KnownServers {
    pub(super) fn find(&self, node: NodeId) -> Option<&ServerInfo> {
        self.servers.iter().map(|(server, _)| server).find(|server| server.node == node)
    }

    /// Takes in what is known now; the list for the machine if something changed.
    pub(super) fn update(&mut self, list: Vec<ServerInfo>, own: NodeId) -> Option<Vec<Server>> {
        if list.iter().eq(self.servers.iter().map(|(server, _)| server)) {
            return None;
        }
        let mut servers = Vec::new();
        for server in list {
            let known = self.servers.iter().find(|(known, _)| *known == server);
            let version = known.map_or_else(|| self.versions + 1, |(_, version)| *version);
            self.versions = self.versions.max(version);
            servers.push((server, version));
        }
        self.servers = servers;
        Some(self.servers.iter().map(|(server, version)| told(server, *version, own)).collect())
    }
}

fn told(server: &ServerInfo, version: u64, own: NodeId) -> Server {
    let kind = match server.kind {
        ServerKind::Home => wayfs_roam::ServerKind::Home,
        ServerKind::Station => wayfs_roam::ServerKind::Station,
    };
    let may_be_dialled = server.node != own && !server.addresses.is_empty();
    Server { node: server.node, kind, addresses: may_be_dialled.then(|| AddressVersion::new(version)) }
}

impl Shared {
    /// All servers of the volume.
    pub(super) fn servers(&self) -> Vec<ServerInfo> {
        let Some(volume) = self.volume.upgrade() else { return Vec::new() };
        let mut list = volume.directory().list();
        if let Some(nearby) = self.nearby.get() {
            list.iter_mut().for_each(|server| add_nearby(server, nearby));
        }
        list
    }

    /// Those that may be the parent, for people.
    pub(super) fn candidates(&self) -> Vec<ServerInfo> {
        let own = self.endpoint.id();
        let homes_only = self.volume.upgrade().is_some_and(|volume| volume.role() != Role::Client);
        let mut list = self.servers();
        list.retain(|server| {
            server.node != own && !server.addresses.is_empty() && (!homes_only || server.kind == ServerKind::Home)
        });
        list
    }
}

/// Puts where a server was heard on the local network before where it is known to be.
fn add_nearby(server: &mut ServerInfo, nearby: &Nearby) {
    let mut addresses: Vec<Address> = nearby.addresses(server.node).into_iter().map(Address::from).collect();
    addresses.truncate(NEARBY_MAX);
    for known in std::mem::take(&mut server.addresses) {
        if !addresses.contains(&known) {
            addresses.push(known);
        }
    }
    server.addresses = addresses;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(key: u8, port: u16) -> ServerInfo {
        let addresses = vec![std::net::SocketAddr::from(([127, 0, 0, 1], port)).into()];
        ServerInfo { node: NodeId::from_bytes([key; 32]), kind: ServerKind::Station, label: "s".into(), addresses }
    }

    #[test]
    fn only_what_changes_has_another_version_and_this_machine_is_never_dialled() {
        let (mut known, own) = (KnownServers::default(), NodeId::from_bytes([3; 32]));
        let first = known.update(vec![server(1, 1), server(2, 1), server(3, 1)], own).expect("new");
        assert_eq!(first.iter().map(|server| server.addresses.is_some()).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(known.update(vec![server(1, 1), server(2, 1), server(3, 1)], own), None);
        let second = known.update(vec![server(1, 1), server(2, 9), server(3, 1)], own).expect("one has moved");
        assert_eq!((&second[0], second[1] == first[1]), (&first[0], false));
        let third = known.update(vec![server(1, 1), server(2, 1)], own).expect("one is gone");
        assert!(third[1] != first[1] && third[1] != second[1], "it came back, and is tried anew");
        assert_eq!(known.find(NodeId::from_bytes([3; 32])), None);
    }
}
