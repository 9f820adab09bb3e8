//! Sessions with neighbours, from the end of their handshake on.

use super::Volume;
use crate::core::Orders;
use crate::serving;
use crate::session::{Session, SessionReport};
use std::sync::{Arc, Mutex, Weak};
use wayfs_net::{Connection, FrameReceiver, FrameSender};
use wayfs_proto::{Input, Neighbour, PeerId};
use wayfs_types::NodeId;

impl Volume {
    /// Live sessions.
    pub fn sessions(&self) -> Vec<SessionReport> {
        let core = self.lock();
        core.sessions
            .values()
            .map(|session| SessionReport {
                peer: session.peer,
                node: session.node,
                address: session.connection.remote_addr(),
                neighbour: session.neighbour.clone(),
                rtt: session.connection.rtt(),
            })
            .collect()
    }

    /// Ends the sessions of a machine: it was revoked.
    pub(crate) fn disconnect_node(&self, node: NodeId, reason: &str) {
        let mut core = self.lock();
        let peers: Vec<PeerId> = core.sessions.values().filter(|s| s.node == node).map(|s| s.peer).collect();
        for peer in peers {
            core.disconnect(peer, wayfs_net::CloseCode::NOT_ADMITTED, reason);
        }
    }

    /// Takes a session in whose handshake is done.
    pub(crate) fn attach(
        self: &Arc<Self>,
        connection: &Connection,
        frames: (FrameSender, FrameReceiver),
        neighbour: Neighbour,
    ) -> PeerId {
        self.attach_in_place_of(None, connection, frames, neighbour)
    }

    /// The same, and the session that it replaces, if any, is over without a moment between the two.
    pub(crate) fn attach_in_place_of(
        self: &Arc<Self>,
        old: Option<(PeerId, &str)>,
        connection: &Connection,
        (sender, receiver): (FrameSender, FrameReceiver),
        neighbour: Neighbour,
    ) -> PeerId {
        // A ticket may have named another home since the last session.
        self.note_home();
        let mut orders = Orders::default();
        let mut left = None;
        let peer = {
            let mut core = self.lock();
            if let Some((old, reason)) = old {
                left = core.leave(old, reason, &mut orders).then_some(old);
            }
            let peer = core.next_peer();
            let session = Session {
                peer,
                node: connection.peer(),
                neighbour,
                moved: Arc::new(Mutex::new(connection.moved())),
                connection: connection.clone(),
                sender,
                history: Arc::default(),
                servers: Arc::default(),
                entitled: Arc::default(),
                broken: None,
            };
            core.attach(session, &mut orders);
            peer
        };
        if let Some(left) = left {
            self.forget_uploads(left);
        }
        let runtime = &self.settings.runtime;
        runtime.spawn(serving::read_frames(Weak::clone(&self.me), peer, connection.clone(), receiver));
        runtime.spawn(serving::serve_requests(Weak::clone(&self.me), peer, connection.clone()));
        self.carry_out(orders);
        peer
    }

    pub(crate) fn detach(&self, peer: PeerId, reason: &str) {
        self.detach_as(Input::PeerDown { peer }, peer, reason);
    }

    /// The same, with the word for the engine.
    pub(crate) fn detach_as(&self, end: Input, peer: PeerId, reason: &str) {
        let mut orders = Orders::default();
        let has_ended = self.lock().detach_as(end, peer, reason, &mut orders);
        if has_ended {
            self.forget_uploads(peer);
        }
        self.carry_out(orders);
    }

    /// Ends the session with the parent, if there is one, for the engine.
    pub(crate) fn detach_parent(&self, reason: &str) {
        let parent = self.all_sessions().into_iter().find(|session| session.neighbour == Neighbour::Parent);
        if let Some(parent) = parent {
            self.detach(parent.peer, reason);
        }
    }

    /// All live sessions.
    pub(crate) fn all_sessions(&self) -> Vec<Session> {
        self.lock().sessions.values().cloned().collect()
    }

    pub(crate) fn session(&self, peer: PeerId) -> Option<Session> {
        self.lock().sessions.get(&peer).cloned()
    }
}
