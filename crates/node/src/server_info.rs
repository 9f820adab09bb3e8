//! Who serves a volume, and where.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use wayfs_types::NodeId;

/// Most servers that a list may hold: what a peer says beyond is cut off. With eight long addresses each they still fit
/// into a message of the handshake (64 KiB).
pub const SERVERS_MAX: usize = 80;
/// Most addresses of one server.
pub const ADDRESSES_MAX: usize = 8;

/// What a server is in a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// Its home.
    Home,
    /// A station.
    Station,
}

/// A server of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Its key.
    pub node: NodeId,
    /// What it is.
    pub kind: ServerKind,
    /// A name for people, `USER@HOST`.
    pub label: String,
    /// Where it listens; at most [`ADDRESSES_MAX`].
    pub addresses: Vec<SocketAddr>,
}

impl ServerInfo {
    /// Whether the bounds hold.
    pub fn is_well_formed(&self) -> bool {
        self.addresses.len() <= ADDRESSES_MAX && self.label.len() <= 64
    }
}

/// Puts a server into a list: an older word of the same node is replaced. Answers whether the list changed.
pub(crate) fn merge(list: &mut Vec<ServerInfo>, server: ServerInfo) -> bool {
    if !server.is_well_formed() {
        return false;
    }
    if let Some(known) = list.iter_mut().find(|known| known.node == server.node) {
        let is_news = *known != server;
        *known = server;
        return is_news;
    }
    let has_room = list.len() < SERVERS_MAX;
    if has_room {
        list.push(server);
    }
    has_room
}
