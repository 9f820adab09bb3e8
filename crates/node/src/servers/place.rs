//! A server's own word on where it listens.

use super::info::ADDRESSES_MAX;
use super::signed::Statement;
use serde::{Deserialize, Serialize};
use wayfs_net::Address;
use wayfs_types::NodeId;

/// Longest that all addresses of a place may be together, in bytes of text: the places of all servers of a volume fit into one
/// message.
const ADDRESSES_LEN_MAX: usize = 600;

/// Where a server listens. Signed by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its key.
    pub node: NodeId,
    /// Grows with each place of this server, as the number of a list does.
    pub number: u64,
    /// The addresses, the best first.
    pub addresses: Vec<Address>,
}

impl Place {
    /// As many of the addresses as a place may hold.
    pub(crate) fn cut(addresses: Vec<Address>) -> Vec<Address> {
        let mut len = 0;
        let fits = |address: &Address| {
            len += address.to_string().len();
            len <= ADDRESSES_LEN_MAX
        };
        addresses.into_iter().filter(Address::is_dialable).take_while(fits).take(ADDRESSES_MAX).collect()
    }
}

impl Statement for Place {
    const CONTEXT: &'static str = "wayfs server place 1";
    const TEXT_LEN_MAX: usize = 1024;

    fn is_well_formed(&self) -> bool {
        self.addresses.len() <= ADDRESSES_MAX && self.addresses.iter().all(Address::is_dialable)
    }
}
