//! How sessions begin and end.

use crate::api::{Neighbour, PeerId, PeerRole};
use crate::children::{Child, ChildKind, ChildState, Children, Parting};
use crate::replica::Replica;
use crate::replica::errors::StepError;
use wayfs_types::{MetaStore, OriginId};

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_peer_up(&mut self, peer: PeerId, neighbour: Neighbour) -> Result<(), StepError> {
        if self.peers.contains_key(&peer) {
            return Err(StepError::Peer(peer, "the session number is in use".to_owned()));
        }
        let (origin, kind) = match neighbour {
            Neighbour::Parent => return self.handle_parent_up(peer),
            Neighbour::ChildStation { origin } => (origin, ChildKind::Station),
            Neighbour::ChildClient { origin } => (origin, ChildKind::Client),
        };
        if !self.core.serves() || origin == self.core.config.origin || origin == OriginId::GENESIS {
            self.core.outputs.push_back(crate::api::Output::Disconnect { peer, reason: "no child of ours".to_owned() });
            return Ok(());
        }
        self.children.note_lapse(origin, self.core.now, self.core.config.lease);
        if let Some(old) = self.children.peer_of(origin) {
            self.disconnect(old, "the child opened another session".to_owned());
        }
        if let Some(pause) = self.children.lapses.pause_of(origin, self.core.now) {
            let reason = format!("kept others waiting again: may come back in {} s", pause.as_secs().max(1));
            self.core.outputs.push_back(crate::api::Output::Disconnect { peer, reason });
            return Ok(());
        }
        self.children.note_former_session(&self.core, origin);
        if let Some(detached) = self.children.remove(origin) {
            drop(detached);
            self.children.unblock();
        }
        self.children.by_origin.insert(origin, Child::new(kind, Some(peer), ChildState::Greeting, self.core.now));
        self.children.next_check = None;
        self.peers.insert(peer, PeerRole::Child(origin));
        self.contents.note_holders_moved(&self.core);
        self.contents.ask_again(origin);
        self.locks.locks_child_returns(&mut self.core, origin);
        let cursor = self.children.station_cursors.get(&origin).copied().unwrap_or_default();
        Children::write_child_row(&mut self.core, origin, kind, cursor);
        Ok(())
    }

    pub(crate) fn handle_peer_down(&mut self, peer: PeerId) -> Result<(), StepError> {
        self.forget_peer(peer);
        Ok(())
    }

    /// A session is over.
    pub(crate) fn forget_peer(&mut self, peer: PeerId) {
        self.part_from(peer, Parting::Lost);
    }

    /// The same, by how it ended.
    pub(crate) fn part_from(&mut self, peer: PeerId, parting: Parting) {
        match self.peers.remove(&peer) {
            None => {}
            Some(PeerRole::Parent) => self.parent_lost(),
            Some(PeerRole::Child(origin)) => self.child_lost(origin, parting),
        }
    }
}
