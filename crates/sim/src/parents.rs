//! Everybody finds a parent in the end, and stays there.

use crate::world::World;
use std::time::Duration;
use wayfs_proto::Role;

/// So long a client compares servers at most before it moves: three rounds over the longest lines.
const COMPARED: Duration = Duration::from_secs(15);

impl World {
    /// Whether a host has measured all servers since its last session began, and moved to none. Worlds in which somebody moves for
    /// ever never become quiet.
    pub(crate) fn stays_where_it_is(&self, index: usize) -> bool {
        let host = &self.hosts[index];
        if host.role() != Role::Client || host.parents.len() < 2 {
            return true;
        }
        let since = self.healed_at.map_or(host.attached_at, |healed| healed.max(host.attached_at));
        self.now.since(since) >= self.plan.measure_period + COMPARED
    }

    /// In a healed world each machine is attached to a server, and came there in few moves.
    pub(crate) fn check_parents(&mut self) {
        for index in self.running() {
            let host = &self.hosts[index];
            if host.role() == Role::Home {
                continue;
            }
            // Each move is to a nearer server, or down in the order of all: `wayfs_roam` proves that it needs no more of them
            // than there are servers. Noise may cost one more for each.
            let (moves, most) = (host.moves, 2 * host.parents.len());
            if moves > most {
                self.violate("moves come to an end", format!("host {index} moved {moves} times since all was healed"));
            } else if self.parent_of(index).is_none() {
                self.violate("everybody has a parent in the end", format!("host {index} has none"));
            }
        }
    }
}
