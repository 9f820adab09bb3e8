//! Which server is whose parent: the simulated driver of `wayfs_roam::Roam`. It decides nothing.
//!
//! A dial takes a round trip of the line. It fails at once where no process listens, and after [`DIAL_TIMEOUT`] where nothing passes
//! or the server sleeps. What a dial measures is the line's delay and, now and then, what a busy machine adds.

use super::event::RoamingEvent;
use super::{Event, World};
use crate::coverage::Branch;
use crate::network::{End, Ends};
use crate::parent_choice::Roaming;
use rand::Rng;
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_proto::{Input, Neighbour, Replica, Role};
use wayfs_roam::{
    AddressVersion, AskedIn, Config, DialId, GreetRefusal, Leaving, Output, Parents, Roam, Server, ServerKind, Why,
};
use wayfs_types::{Admitted, NodeId, Origin, OriginId};

/// A dial that nobody answers ends after this time, as the live one does.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// The same of a handshake.
const GREET_TIMEOUT: Duration = Duration::from_secs(10);
/// Chance that a machine is so busy that it adds to a round trip.
const BUSY: f64 = 0.05;
/// Most that it adds.
const BUSY_MS_MAX: u64 = 80;

impl World {
    /// A process looks for a parent.
    pub(crate) fn begin_roaming(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let parents = if host.role() == Role::Client { Parents::Any } else { Parents::HomeOnly };
        let config = Config { parents, is_online: host.is_online, measure_period: self.plan.measure_period };
        host.roaming = Some(Roaming {
            machine: Roam::new(config, self.now),
            dialled: BTreeMap::new(),
            session: None,
            servers: Vec::new(),
            wake_at: None,
            was_refused: false,
            was_offline: !host.is_online,
        });
        let pinned = host.pinned.map(|server| self.hosts[server].config.node);
        self.roam(index, wayfs_roam::Input::Tick);
        if pinned.is_some() {
            self.roam(index, wayfs_roam::Input::Pinned(pinned));
        }
    }

    /// Gives an input to a host's machine, behind what must be known of the moment, and carries its outputs out.
    pub(crate) fn roam(&mut self, index: usize, input: wayfs_roam::Input) {
        if self.hosts[index].roaming.is_none() {
            return;
        }
        self.tell_servers(index);
        self.tell_session(index);
        self.hand(index, input);
        self.arm_roaming(index);
    }

    fn hand(&mut self, index: usize, input: wayfs_roam::Input) {
        let now = self.now;
        if let Some(roaming) = self.hosts[index].roaming.as_mut() {
            roaming.machine.handle(now, input);
        }
        while let Some(output) = self.hosts[index].roaming.as_mut().and_then(|roaming| roaming.machine.poll_output()) {
            self.note(|| format!("  host {index} {output:?}"));
            self.carry_out_roaming(index, output);
        }
    }

    fn arm_roaming(&mut self, index: usize) {
        let now = self.now;
        let host = &mut self.hosts[index];
        let Some(roaming) = host.roaming.as_mut() else { return };
        let Some(due) = roaming.machine.poll_timeout().map(|due| due.max(now + Duration::from_micros(50))) else {
            return;
        };
        if roaming.wake_at.is_none_or(|at| at > due) {
            roaming.wake_at = Some(due);
            let life = host.life;
            self.at(due, Event::Roaming { host: index, life, event: RoamingEvent::Wake });
        }
    }

    /// Something of how a process chooses a parent.
    pub(super) fn roaming(&mut self, index: usize, life: u32, event: RoamingEvent) {
        if self.hosts[index].life != life {
            return;
        }
        match event {
            RoamingEvent::Done(input) => self.roam(index, input),
            RoamingEvent::Wake => self.wake_roaming(index),
            RoamingEvent::Greeted(dial) => self.greeted(index, dial),
        }
    }

    /// The time of a host's machine has come.
    fn wake_roaming(&mut self, index: usize) {
        if self.is_roaming_due(index) {
            self.hosts[index].roaming.iter_mut().for_each(|roaming| roaming.wake_at = None);
            self.roam(index, wayfs_roam::Input::Tick);
        }
    }

    /// Whether the timer of a host's machine is due, and no earlier one has taken its place.
    pub(super) fn is_roaming_due(&self, index: usize) -> bool {
        let wake_at = self.hosts[index].roaming.as_ref().and_then(|roaming| roaming.wake_at);
        wake_at.is_some_and(|at| at <= self.now)
    }

    fn tell_servers(&mut self, index: usize) {
        let host = &self.hosts[index];
        let is_left = |server: &&usize| !self.removed.contains(*server);
        let servers: Vec<Server> = host.parents.iter().filter(is_left).map(|server| self.server(*server)).collect();
        let Some(roaming) = self.hosts[index].roaming.as_mut() else { return };
        if roaming.servers != servers {
            roaming.servers.clone_from(&servers);
            self.hand(index, wayfs_roam::Input::Servers(servers));
        }
    }

    fn server(&self, index: usize) -> Server {
        let kind = if index == 0 { ServerKind::Home } else { ServerKind::Station };
        Server { node: self.hosts[index].config.node, kind, addresses: Some(AddressVersion::new(0)) }
    }

    fn tell_session(&mut self, index: usize) {
        let Some(parent) = self.parent_believed_in(index) else { return };
        let rtt = self.links[&(index, parent)].delay() * 2;
        let holds_locks = self.hosts[index].replica.as_ref().is_some_and(Replica::holds_locks);
        self.hand(index, wayfs_roam::Input::ParentRtt(rtt));
        self.hand(index, wayfs_roam::Input::HoldsLocks(holds_locks));
    }

    /// The server at the other end of a host's session, as the host sees it.
    pub(crate) fn parent_believed_in(&self, index: usize) -> Option<usize> {
        let session = self.sessions.get(&self.hosts[index].parent_session?)?;
        Some(session.parent)
    }

    fn carry_out_roaming(&mut self, index: usize, output: Output) {
        match output {
            Output::Dial { dial, server } => self.dial(index, dial, server),
            Output::Close { dial } => drop(self.close_dialled(index, dial)),
            Output::Greet { dial } => {
                let later = self.round_trip(index, dial).took;
                let life = self.hosts[index].life;
                self.after(later, Event::Roaming { host: index, life, event: RoamingEvent::Greeted(dial) });
            }
            Output::Look { dial } => {
                let later = self.round_trip(index, dial).took;
                self.close_dialled(index, dial);
                self.roam_after(later, index, wayfs_roam::Input::Looked { dial });
            }
            Output::Adopt { dial, why } => {
                self.cover_adopted(index);
                self.adopt(index, dial, why);
            }
            Output::MoveTo { dial, why } => {
                if matches!(why, Why::Near { .. }) {
                    self.cover(Branch::MovedNearer);
                }
                if why == Why::Shared {
                    self.cover(Branch::MovedToShared);
                }
                self.adopt(index, dial, why);
            }
            Output::Leave { why } => self.leave_parent(index, why),
            Output::SwapNews { task } => {
                let later = self.millis(1..=200);
                self.roam_after(later, index, wayfs_roam::Input::NewsSwapped { task });
            }
            Output::AskIn { task } => {
                let outcome = AskedIn::NoTicket;
                self.roam_after(Duration::from_millis(1), index, wayfs_roam::Input::AskedIn { task, outcome });
            }
            Output::LookAround { task } => {
                let later = self.millis(1..=6000);
                self.roam_after(later, index, wayfs_roam::Input::LookedAround { task });
            }
            Output::StopTask { .. } | Output::Online | Output::Offline | Output::Failed(_) => {}
        }
    }

    fn roam_after(&mut self, later: Duration, index: usize, input: wayfs_roam::Input) {
        let life = self.hosts[index].life;
        self.after(later, Event::Roaming { host: index, life, event: RoamingEvent::Done(input) });
    }

    fn close_dialled(&mut self, index: usize, dial: DialId) -> Option<usize> {
        self.hosts[index].roaming.as_mut()?.dialled.remove(&dial)
    }

    fn dialled(&self, index: usize, dial: DialId) -> Option<usize> {
        self.hosts[index].roaming.as_ref()?.dialled.get(&dial).copied()
    }

    fn dial(&mut self, index: usize, dial: DialId, node: NodeId) {
        let parents = self.hosts[index].parents.clone();
        let Some(server) = parents.into_iter().find(|server| self.hosts[*server].config.node == node) else {
            return self.roam_after(Duration::ZERO, index, wayfs_roam::Input::DialFailed { dial });
        };
        if let Some(roaming) = self.hosts[index].roaming.as_mut() {
            roaming.dialled.insert(dial, server);
        }
        let trip = self.round_trip(index, dial);
        let (later, input) = match self.silence(Ends { child: index, parent: server }) {
            None => {
                let busy = if self.random.random_bool(BUSY) { self.millis(0..=BUSY_MS_MAX) } else { Duration::ZERO };
                (trip.took + busy, wayfs_roam::Input::Dialled { dial, node, rtt: trip.rtt + busy })
            }
            Some(Silence::Refused) => (trip.took, wayfs_roam::Input::DialFailed { dial }),
            Some(Silence::Dark) => (DIAL_TIMEOUT, wayfs_roam::Input::DialFailed { dial }),
        };
        self.roam_after(later, index, input);
    }

    fn round_trip(&mut self, index: usize, dial: DialId) -> crate::network::RoundTrip {
        let server = self.dialled(index, dial).unwrap_or(0);
        let line = self.links.get_mut(&(index, server)).expect("hosts dial over lines");
        line.round_trip(self.now, &mut self.random)
    }

    /// Why a server does not answer; `None`: it does.
    fn silence(&self, Ends { child, parent }: Ends) -> Option<Silence> {
        let is_dark = self.links[&(child, parent)].cut_since.is_some() || self.hosts[parent].asleep_until > self.now;
        if is_dark {
            return Some(Silence::Dark);
        }
        self.hosts[parent].replica.is_none().then_some(Silence::Refused)
    }

    /// A server's answer to a greeting arrives, if there is one.
    fn greeted(&mut self, index: usize, dial: DialId) {
        let Some(server) = self.dialled(index, dial) else { return };
        let ends = Ends { child: index, parent: server };
        let refused = match self.silence(ends) {
            Some(Silence::Dark) => {
                let why = GreetRefusal::Failed;
                return self.roam_after(GREET_TIMEOUT, index, wayfs_roam::Input::Refused { dial, why });
            }
            Some(Silence::Refused) => Some(GreetRefusal::Failed),
            None => self.refuses(ends),
        };
        let rtt = self.links[&(index, server)].delay() * 2;
        match refused {
            None => self.roam(index, wayfs_roam::Input::Greeted { dial, rtt }),
            Some(why) => {
                self.note(|| format!("host {server} refuses host {index}: {why:?}"));
                if let Some(roaming) = self.hosts[index].roaming.as_mut() {
                    roaming.was_refused |= why != GreetRefusal::Failed;
                }
                self.roam(index, wayfs_roam::Input::Refused { dial, why });
            }
        }
    }

    /// What a server's driver asks of a machine that would be its child (`node::host`).
    fn refuses(&mut self, Ends { child, parent: server }: Ends) -> Option<GreetRefusal> {
        let origin = self.hosts[child].config.origin;
        if server == 0 && self.origin_at(0, origin).is_none() {
            self.admit_again(child, origin);
        }
        match self.origin_at(server, origin) {
            Some(known) if known.admitted == Admitted::Revoked => Some(GreetRefusal::NotMember),
            Some(_) => None,
            None if server == 0 => Some(GreetRefusal::NotMember),
            None => Some(GreetRefusal::NotReady),
        }
    }

    fn origin_at(&self, server: usize, origin: OriginId) -> Option<Origin> {
        let origins = self.hosts[server].replica.as_ref()?.origins().ok()?;
        origins.into_iter().find(|(of, _)| *of == origin).map(|(_, known)| known)
    }

    fn cover_adopted(&mut self, index: usize) {
        let Some(roaming) = self.hosts[index].roaming.as_mut() else { return };
        let was_refused = std::mem::take(&mut roaming.was_refused);
        let was_offline = std::mem::take(&mut roaming.was_offline);
        if was_refused {
            self.cover(Branch::RefusedElsewhere);
        }
        if was_offline {
            self.cover(Branch::CameOnline);
        }
    }

    /// Makes a session, in place of the one that there is. The engine is told of the new one only.
    fn adopt(&mut self, child: usize, dial: DialId, why: Why) {
        let Some(parent) = self.close_dialled(child, dial) else { return };
        if let Some(old) = self.hosts[child].parent_session.take() {
            self.note(|| format!("host {child} moves to host {parent}: {why:?}"));
            self.hosts[child].moves += 1;
            self.replace_session(old);
        }
        if let Some(roaming) = self.hosts[child].roaming.as_mut() {
            roaming.session = Some(dial);
        }
        self.hosts[child].attached_at = self.now;
        let peer = self.open_session(Ends { child, parent });
        let origin = self.hosts[child].config.origin;
        let neighbour = match self.hosts[child].role() {
            Role::Client => Neighbour::ChildClient { origin },
            Role::Station | Role::Home => Neighbour::ChildStation { origin },
        };
        self.feed(parent, Input::PeerUp { peer, neighbour });
        self.feed(child, Input::PeerUp { peer, neighbour: Neighbour::Parent });
    }

    fn leave_parent(&mut self, child: usize, why: Leaving) {
        if let Some(roaming) = self.hosts[child].roaming.as_mut() {
            roaming.session = None;
            roaming.was_offline = why == Leaving::WentOffline;
        }
        if let Some(peer) = self.hosts[child].parent_session {
            self.end_session(peer, End::Child);
        }
    }

    /// A child learnt that its session is dead.
    pub(super) fn session_lost(&mut self, child: usize) {
        let lost = self.hosts[child].roaming.as_mut().and_then(|roaming| roaming.session.take());
        if let Some(dial) = lost {
            self.roam(child, wayfs_roam::Input::SessionEnded { dial });
        }
    }
}

/// Why nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// No process listens.
    Refused,
    /// Nothing passes, or the machine sleeps.
    Dark,
}
