//! Sessions over simulated lines: how they begin, carry messages, and end.

use super::{Event, World};
use crate::network::{End, Ends, IDLE_TIMEOUT, Session};
use bytes::Bytes;
use rand::Rng;
use std::time::Duration;
use wayfs_proto::{Input, PeerId};
use wayfs_types::{OriginId, Time};

impl World {
    /// A session begins, as both ends see it.
    pub(super) fn open_session(&mut self, ends: Ends) -> PeerId {
        let peer = PeerId(self.next_peer);
        self.next_peer += 1;
        let made_before = self.last_record(ends.child);
        self.sessions.insert(peer, Session::new(peer, ends, self.now, made_before));
        self.hosts[ends.child].parent_session = Some(peer);
        peer
    }

    /// A child has another session in place of this one: its parent learns that, or finds that out.
    pub(super) fn replace_session(&mut self, peer: PeerId) {
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        session.alive[End::Child.index()] = false;
        let child = session.child;
        if session.alive == [false; 2] {
            self.sessions.remove(&peer);
        } else {
            let was_left = self.random.random_bool(0.5);
            self.sessions.entry(peer).and_modify(|session| session.was_left = was_left);
            let later = self.millis(1..=IDLE_TIMEOUT.as_millis() as u64);
            self.after(later, Event::Notice { session: peer, end: End::Parent });
        }
        self.interrupt_pushes(child, peer);
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
        let bytes = crate::planted::tamper(self.bug.filter(|_| !self.healed), from, bytes, &mut self.random);
        let link = self.links.get_mut(&(session.child, session.parent)).expect("sessions run over links");
        let arrival = session.send(from, link, self.now, bytes, &mut self.random);
        session.is_slow |= arrival >= self.now + Duration::from_secs(self.plan.limits.lease) / 4;
        self.at(arrival, Event::Deliver { session: peer, from });
    }

    /// How long something is on its way over the line of a session.
    pub(crate) fn across(&mut self, peer: PeerId, from: End, len: usize) -> Duration {
        let Some(session) = self.sessions.get(&peer) else { return Duration::ZERO };
        let link = self.links.get_mut(&(session.child, session.parent)).expect("sessions run over links");
        link.arrival(from, self.now, len, &mut self.random) - self.now
    }

    pub(crate) fn is_cut(&self, peer: PeerId) -> bool {
        let link = self.sessions.get(&peer).map(|session| (session.child, session.parent));
        link.is_some_and(|link| self.links[&link].cut_since.is_some())
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
            if host == 0 {
                self.note_heard(peer, &bytes);
            }
            self.feed(host, Input::Message { peer, bytes });
            if self.is_chosen {
                return;
            }
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
            self.interrupt_pushes(child, peer);
        }
        if other_alive && end == End::Child && self.hosts[child].replica.is_some() && self.random.random_bool(0.5) {
            self.sessions.entry(peer).and_modify(|session| session.was_left = true);
        }
        if other_alive {
            let later = self.millis(1..=IDLE_TIMEOUT.as_millis() as u64);
            self.after(later, Event::Notice { session: peer, end: end.other() });
        }
        self.interrupt_looks(host, peer);
        let is_told = end == End::Parent && was_left;
        self.feed(host, if is_told { Input::PeerLeft { peer } } else { Input::PeerDown { peer } });
        if end == End::Child && self.hosts[child].parent_session.is_none() {
            self.session_lost(child);
        }
    }

    pub(super) fn cut_check(&mut self, link: (usize, usize), since: Time) {
        if self.links[&link].cut_since != Some(since) {
            return;
        }
        let dead: Vec<PeerId> =
            self.sessions.values().filter(|s| (s.child, s.parent) == link).map(|s| s.peer).collect();
        for peer in dead {
            for end in [End::Child, End::Parent] {
                let later = self.millis(1..=2000);
                self.after(later, Event::Notice { session: peer, end });
            }
        }
    }
}
