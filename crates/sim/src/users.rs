//! What users do about servers, and lines that become longer or shorter: why clients move.

use crate::host::Host;
use crate::network::Link;
use crate::world::{Event, World};
use rand::Rng;
use std::time::Duration;
use wayfs_proto::Role;
use wayfs_roam::Input;

/// One way to a server nearby.
const NEAR: Duration = Duration::from_micros(300);

impl World {
    pub(crate) fn new_link(&mut self, role: Role, parent: usize) -> Link {
        // Some clients are near the home, or far from a station.
        let near = role == Role::Client && self.random.random_bool(if parent == 0 { 0.25 } else { 0.75 });
        Link::new(if near { NEAR } else { self.plan.wide_delay }, self.plan.loss)
    }

    /// A user chooses a server, or goes offline, or a line becomes another.
    pub(crate) fn disturb_roaming(&mut self, index: usize) {
        let is_asleep = self.hosts[index].asleep_until > self.now;
        match self.random.random_range(0..8) {
            5..8 => self.change_delay(index),
            // Nobody is at a machine that sleeps.
            _ if is_asleep => {}
            0..3 => self.pin(index),
            _ => self.go_offline_for_a_while(index),
        }
    }

    /// A user chooses a server, or leaves the choice to the machine.
    fn pin(&mut self, index: usize) {
        if self.hosts[index].role() != Role::Client {
            return;
        }
        let pinned = self.drawn_pin(index, 0.7);
        self.note(|| format!("the user of host {index} pins {pinned:?}"));
        self.wish(index, |host| host.pinned = pinned);
    }

    /// A server that a user may choose, with a chance.
    pub(crate) fn drawn_pin(&mut self, index: usize, chance: f64) -> Option<usize> {
        let parents = &self.hosts[index].parents;
        let parent = parents[self.random.random_range(0..parents.len())];
        self.random.random_bool(chance).then_some(parent)
    }

    fn go_offline_for_a_while(&mut self, index: usize) {
        if self.hosts[index].role() == Role::Home {
            return;
        }
        let span = self.millis(100..=20_000);
        self.note(|| format!("host {index} goes offline for {span:?}"));
        self.wish(index, |host| host.is_online = false);
        self.after(span, Event::GoOnline { host: index });
    }

    /// A user wants something of this process and of those after it.
    pub(crate) fn wish(&mut self, index: usize, wish: impl FnOnce(&mut Host)) {
        let (pinned, is_online) = (self.hosts[index].pinned, self.hosts[index].is_online);
        wish(&mut self.hosts[index]);
        let host = &self.hosts[index];
        let pin = (host.pinned != pinned).then(|| host.pinned.map(|server| self.hosts[server].config.node));
        let online = (host.is_online != is_online).then_some(host.is_online);
        if let Some(is_online) = online {
            self.roam(index, if is_online { Input::GoOnline } else { Input::GoOffline });
        }
        if let Some(pin) = pin {
            self.roam(index, Input::Pinned(pin));
        }
    }

    /// One of a client's lines becomes long, short, or something between.
    fn change_delay(&mut self, index: usize) {
        let parents = self.hosts[index].parents.clone();
        if self.hosts[index].role() != Role::Client || parents.is_empty() {
            return;
        }
        let parent = parents[self.random.random_range(0..parents.len())];
        let delay = match self.random.random_range(0..3) {
            0 => NEAR,
            1 => self.plan.wide_delay,
            _ => self.plan.wide_delay.mul_f64(self.random.random_range(0.0..1.0)),
        };
        self.note(|| format!("the line from host {index} to host {parent} is {delay:?} long"));
        if let Some(line) = self.links.get_mut(&(index, parent)) {
            line.set_delay(delay);
        }
    }

    /// Everybody is online, and leaves the choice of a server to the machine.
    pub(crate) fn leave_all_to_machines(&mut self) {
        for index in 0..self.hosts.len() {
            self.hosts[index].moves = 0;
            self.wish(index, |host| (host.pinned, host.is_online) = (None, true));
        }
    }
}
