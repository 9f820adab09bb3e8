//! A server of a volume, as it is shown and dialled.

use serde::{Deserialize, Serialize};
use wayfs_net::Address;
use wayfs_types::NodeId;

/// Most servers that serve one volume. What a list says beyond is refused.
pub(crate) const SERVERS_MAX: usize = 64;
/// Most addresses of one server that one source may tell.
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

/// A server of a volume: what is known of it from all sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its key.
    pub node: NodeId,
    /// What it is.
    pub kind: ServerKind,
    /// A name for people, `USER@HOST`.
    pub label: String,
    /// Where it may be reached, the best first: by hand, of a new ticket, by its own word, by the home's.
    pub addresses: Vec<Address>,
}

impl ServerInfo {
    /// Whether a user means this server: by its label, its host, at least eight letters of its key, one of its addresses, or
    /// `home` for the home.
    pub fn is_called(&self, wanted: &str) -> bool {
        self.label == wanted
            || self.label.split_once('@').is_some_and(|(_, host)| host == wanted)
            || (wanted.len() >= 8 && self.node.to_string().starts_with(wanted))
            || (self.kind == ServerKind::Home && wanted == "home")
            || self.addresses.iter().any(|address| address.to_string() == wanted)
    }
}
