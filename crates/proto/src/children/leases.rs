//! Leases of the children: for how long a silent one is waited for, and what is noted of those that kept others waiting.

use crate::api::{PeerId, PeerRole};
use crate::children::lapses::Lapse;
use crate::children::{Child, ChildKind, ChildState, Children, Parting};
use crate::replica::Replica;
use crate::replica::errors::StepError;
use crate::state::tables::{origin_key, table};
use std::time::Duration;
use wayfs_types::{MetaStore, OriginId, Time};

impl Child {
    /// When to give it up: it is silent, or takes nothing of what it is sent.
    fn lease_end(&self, lease: Duration) -> Time {
        let silent = self.heard + lease;
        if self.peer.is_some() && self.state == ChildState::Live && !self.is_station && !self.unreceived.is_empty() {
            return silent.min(self.unreceived_since + lease);
        }
        silent
    }
}

impl Children {
    /// When the first lease ends, as things are.
    fn next_lease_end(&self, lease: Duration) -> Option<Time> {
        let sessions = self.by_origin.values().map(|child| child.lease_end(lease));
        sessions.min()
    }

    /// A child goes, or comes anew: if somebody waits for what it did not confirm, that is noted. Whoever was sent away for that and
    /// may trust its cache for a while still is counted once, however often it tries to come back meanwhile.
    pub(crate) fn note_lapse(&mut self, origin: OriginId, now: Time, lease: Duration) {
        let Some(child) = self.by_origin.get(&origin) else { return };
        if child.peer.is_none() && self.lapses.was_noted(origin, child.heard) {
            return;
        }
        let clear = child.clear_through();
        // Who comes again soon held up nobody for long.
        let is_long = now >= child.heard.min(child.unreceived_since) + lease / 2;
        if is_long && !child.unknown && self.blocked.values().flatten().any(|(_, change)| *change > clear) {
            let is_heard = !child.unreceived.is_empty() && child.heard >= child.unreceived_since + lease / 2;
            let lapse = if is_heard { Lapse::Unconfirmed } else { Lapse::Outage };
            self.lapses.note(origin, lapse, (now, child.heard + lease), lease);
        }
    }
}

impl<S: MetaStore> Replica<S> {
    /// A child went of its own accord.
    pub(crate) fn handle_peer_left(&mut self, peer: PeerId) {
        if let Some(PeerRole::Child(origin)) = self.peers.get(&peer).copied() {
            self.children.note_lapse(origin, self.core.now, self.core.config.lease);
        }
        self.part_from(peer, Parting::Left);
    }

    /// A child's session is over. A client that trusts its cache is waited for until its lease ends.
    pub(crate) fn child_lost(&mut self, origin: OriginId, parting: Parting) {
        self.contents.note_holders_moved(&self.core);
        self.contents.note_child_away(&self.core);
        self.contents.note_went(origin);
        self.locks.locks_child_away(&mut self.core, &mut self.children, origin);
        self.settle_requests();
        self.locks.end_lock_rounds_of(&mut self.core, &mut self.children, origin);
        self.settle_requests();
        self.uplink.drop_fact_asks_of(origin);
        if parting == Parting::Left {
            self.children.returning.forget(origin);
        }
        // It does not come to account for what the home has of it by now.
        self.children.dirty.insert(origin);
        let (now, lease) = (self.core.now, self.core.config.lease);
        let Some(child) = self.children.by_origin.get_mut(&origin) else { return };
        // One that never was live in its session trusts nothing.
        let trusts = parting == Parting::Lost && child.state == ChildState::Live && now < child.heard + lease;
        if child.is_station || !trusts {
            return self.forget_child(origin);
        }
        child.peer = None;
        child.outbox.clear();
        child.echo_filter.forget();
        child.asks.clear();
        child.catches.clear();
        child.state = ChildState::Detached;
        child.unknown = false;
        self.children.next_check = None;
        self.children.unblock();
    }

    /// Nobody waits for a child's caches any more. Its locks it keeps for a lease: it may believe that it has them, and reclaim them.
    fn forget_child(&mut self, origin: OriginId) {
        self.children.rights.forget(origin);
        let Some(child) = self.children.remove(origin) else { return };
        if child.is_station {
            self.children.station_cursors.insert(origin, child.cursor);
            Children::write_child_row(&mut self.core, origin, ChildKind::Station, child.cursor);
        } else {
            self.core.state.delete_row(origin_key(table::CHILD, origin));
        }
        // One that is on its way to it from the home comes yet.
        self.locks.note_away(origin, child.kind(), child.heard);
        self.children.next_check = None;
        self.children.unblock();
    }

    /// When the next child is given up, or is waited for no longer for its locks.
    fn next_child_end(&self) -> Option<Time> {
        let lease = self.core.config.lease;
        self.children.next_lease_end(lease).into_iter().chain(self.locks.next_child_end(lease)).min()
    }

    /// Ends sessions and detached clients whose lease is over.
    pub(crate) fn check_children(&mut self) -> Result<(), StepError> {
        if self.children.next_check.is_some_and(|next| self.core.now < next) {
            return Ok(());
        }
        let lease = self.core.config.lease;
        let over: Vec<(OriginId, Option<PeerId>)> = self
            .children
            .by_origin
            .iter()
            .filter(|(_, child)| self.core.now >= child.lease_end(lease))
            .map(|(origin, child)| (*origin, child.peer))
            .collect();
        for (origin, peer) in over {
            self.children.note_lapse(origin, self.core.now, lease);
            if let Some(peer) = peer {
                self.disconnect(peer, "silent, or receives nothing, for a lease".to_owned());
            }
            if self.children.by_origin.get(&origin).is_some_and(|child| self.core.now < child.heard + lease) {
                // It may trust its cache until its lease ends, and keeps its locks so long.
                continue;
            }
            self.children.rights.forget(origin);
            // The locks of a station are kept for longer.
            if self.children.remove(origin).is_some_and(|child| !child.is_station) {
                self.core.state.delete_row(origin_key(table::CHILD, origin));
                self.locks.locks_leave(&mut self.core, &mut self.children, origin);
                self.settle_requests();
            }
        }
        self.locks.check_kept_locks(&mut self.core, &mut self.children);
        self.settle_requests();
        self.locks.check_lock_grace(&mut self.core, &mut self.children);
        self.settle_requests();
        self.children.unblock();
        self.children.next_check = self.next_child_end();
        Ok(())
    }

    pub(crate) fn children_timeout(&self) -> Option<Time> {
        let check = match self.children.next_check {
            Some(next) => Some(next),
            None => self.next_child_end(),
        };
        let waiting = self.children.waiting.iter();
        let behind =
            waiting.filter_map(|origin| crate::children::stream::behind_deadline(self.children.by_origin.get(origin)?));
        // A question whose time is over waits for a child that has what it asks for alone.
        behind.filter(|at| *at > self.core.now).chain(check).min()
    }
}
