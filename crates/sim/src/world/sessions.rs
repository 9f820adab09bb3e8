//! Sessions over simulated lines: how they begin, carry messages, and end.

use super::{Event, World};
use crate::network::{End, IDLE_TIMEOUT, Session};
use bytes::Bytes;
use rand::Rng;
use std::time::Duration;
use wayfs_proto::{Input, Neighbour, PeerId, Role};
use wayfs_types::{OriginId, Time};

impl World {
    pub(super) fn connect(&mut self, child: usize, life: u32) {
        let host = &self.hosts[child];
        if host.life != life || host.replica.is_none() {
            return;
        }
        if host.parent_session.is_some() {
            return;
        }
        let parent = host.parent_wanted;
        let link = &self.links[&(child, parent)];
        let awake = self.hosts[parent].asleep_until <= self.now;
        if link.cut_since.is_some() || self.hosts[parent].replica.is_none() || !awake {
            let later = self.millis(100, 2000);
            if self.hosts[child].parents.len() > 1 && self.random.random_bool(0.3) {
                let parents = &self.hosts[child].parents;
                let other = parents[self.random.random_range(0..parents.len())];
                self.hosts[child].parent_wanted = other;
            }
            return self.after(later, Event::Connect { host: child, life });
        }
        let peer = PeerId(self.next_peer);
        self.next_peer += 1;
        self.sessions.insert(peer, Session::new(peer, child, parent, self.now));
        self.hosts[child].parent_session = Some(peer);
        let origin = self.hosts[child].config.origin;
        if parent == 0 {
            self.admit_again(child, origin);
        }
        let neighbour = match self.hosts[child].role() {
            Role::Client => Neighbour::ChildClient { origin },
            Role::Station | Role::Home => Neighbour::ChildStation { origin },
        };
        self.feed(parent, Input::PeerUp { peer, neighbour });
        self.feed(child, Input::PeerUp { peer, neighbour: Neighbour::Parent });
    }

    /// What a home's driver does with a member that names an origin which the home does not know.
    pub(super) fn admit_again(&mut self, child: usize, origin: OriginId) {
        let (now, wall, node) = (self.now, self.hosts[0].wall(self.now), self.hosts[child].config.node);
        let shown = self.hosts[child].replica.as_ref().and_then(|replica| replica.admission().ok()).flatten();
        let Some(home) = self.hosts[0].replica.as_mut() else { return };
        let done = home.admit_again(now, wall, node, origin, shown);
        if done.is_ok_and(|done| done) {
            self.note(|| format!("host {child} has origin {origin} again"));
        }
    }

    /// A client that a server does not know goes to another, at last to the home.
    pub(super) fn leave_unknown(&mut self, peer: PeerId, reason: &str) {
        let Some(session) = self.sessions.get(&peer) else { return };
        let child = session.child;
        if reason.contains("its origin is not known here") && self.hosts[child].is_client() {
            self.hosts[child].parent_wanted = 0;
        }
    }

    /// The host at an end of a session, if that end believes in it and runs.
    pub(crate) fn living_end(&self, session: PeerId, end: End) -> Option<usize> {
        let session = self.sessions.get(&session)?;
        let host = session.host(end);
        (session.alive[end.index()] && self.hosts[host].replica.is_some()).then_some(host)
    }

    pub(super) fn send(&mut self, index: usize, peer: PeerId, bytes: Bytes) {
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        let from = if session.child == index { End::Child } else { End::Parent };
        if !session.alive[from.index()] {
            return;
        }
        if from == End::Child {
            self.note_cancelled(index, &bytes);
        }
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        let bytes = crate::planted::tamper(self.bug, from, self.healed, bytes, &mut self.random);
        let link = self.links.get_mut(&(session.child, session.parent)).expect("sessions run over links");
        let arrival = session.send(from, link, self.now, bytes, &mut self.random);
        session.is_slow |= arrival >= self.now + Duration::from_secs(self.plan.limits.lease) / 4;
        self.at(arrival, Event::Deliver { session: peer, from });
    }

    pub(super) fn deliver(&mut self, peer: PeerId, from: End) {
        let Some(session) = self.sessions.get(&peer) else { return };
        let link = &self.links[&(session.child, session.parent)];
        if link.cut_since.is_some() {
            return self.after(Duration::from_millis(200), Event::Deliver { session: peer, from });
        }
        loop {
            let Some(host) = self.living_end(peer, from.other()) else { return };
            let Some(bytes) = self.sessions.get_mut(&peer).and_then(|s| s.receive(from, self.now)) else { return };
            self.feed(host, Input::Message { peer, bytes });
        }
    }

    /// An end learns that its session is dead; the other learns it in its own time.
    pub(crate) fn end_session(&mut self, peer: PeerId, end: End) {
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        if !std::mem::replace(&mut session.alive[end.index()], false) {
            return;
        }
        let (host, child) = (session.host(end), session.child);
        let other_alive = session.alive[end.other().index()];
        let was_left = session.was_left;
        if !other_alive {
            self.sessions.remove(&peer);
        }
        if end == End::Child && self.hosts[child].parent_session == Some(peer) {
            self.hosts[child].parent_session = None;
            self.hosts[child].pushing.clear();
            let (later, life) = (self.millis(10, 1000), self.hosts[child].life);
            self.after(later, Event::Connect { host: child, life });
        }
        if other_alive && end == End::Child && self.hosts[child].replica.is_some() && self.random.random_bool(0.5) {
            self.sessions.entry(peer).and_modify(|session| session.was_left = true);
        }
        if other_alive {
            let later = self.millis(1, IDLE_TIMEOUT.as_millis() as u64);
            self.after(later, Event::Notice { session: peer, end: end.other() });
        }
        let is_told = end == End::Parent && was_left;
        self.feed(host, if is_told { Input::PeerLeft { peer } } else { Input::PeerDown { peer } });
    }

    pub(super) fn cut_check(&mut self, link: (usize, usize), since: Time) {
        if self.links[&link].cut_since != Some(since) {
            return;
        }
        let dead: Vec<PeerId> =
            self.sessions.values().filter(|s| (s.child, s.parent) == link).map(|s| s.peer).collect();
        for peer in dead {
            for end in [End::Child, End::Parent] {
                let later = self.millis(1, 2000);
                self.after(later, Event::Notice { session: peer, end });
            }
        }
    }
}
