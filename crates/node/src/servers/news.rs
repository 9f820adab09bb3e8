//! What two machines tell each other of the servers of a volume.

use super::info::SERVERS_MAX;
use super::list::ServerList;
use super::place::Place;
use super::signed::Signed;
use serde::{Deserialize, Serialize};
use wayfs_types::NodeId;

/// What one machine has, by numbers: the other leaves that out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    /// The number of its list; 0 for none.
    pub list: u64,
    /// The numbers of its places.
    pub places: Vec<(NodeId, u64)>,
}

impl Have {
    /// Whether the bounds hold.
    pub(crate) fn is_well_formed(&self) -> bool {
        self.places.len() <= SERVERS_MAX
    }

    pub(crate) fn place_of(&self, node: NodeId) -> u64 {
        self.places.iter().find(|(known, _)| *known == node).map_or(0, |(_, number)| *number)
    }

    /// Notes that the other side has been told this, or told it.
    pub(crate) fn note(&mut self, other: &Self) {
        self.list = self.list.max(other.list);
        for (node, number) in &other.places {
            match self.places.iter_mut().find(|(known, _)| known == node) {
                Some((_, known)) => *known = (*known).max(*number),
                None => self.places.push((*node, *number)),
            }
        }
        self.places.truncate(2 * SERVERS_MAX);
    }
}

/// What one machine has and the other has not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    /// The list of the home.
    pub list: Option<Signed>,
    /// Where servers are.
    pub places: Vec<Signed>,
}

impl News {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_none() && self.places.is_empty()
    }

    /// Whether the bounds hold.
    pub(crate) fn is_well_formed(&self) -> bool {
        self.places.len() <= SERVERS_MAX
            && self.list.as_ref().is_none_or(Signed::is_short::<ServerList>)
            && self.places.iter().all(Signed::is_short::<Place>)
    }
}
