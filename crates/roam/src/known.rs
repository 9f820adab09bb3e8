//! What the machine knows, whatever it is doing.

use crate::api::{Config, DIALS_MAX, Parents, Server, ServerKind};
use crate::choice::{Draw, JOIN_PAUSE, Seen, draw};
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::{NodeId, Time};

/// Where a server stands in the order of all clients: a station before a home, then by key.
pub(crate) type Rank = (ServerKind, NodeId);

/// Servers, the user's will, and the state of the session.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) config: Config,
    pub(crate) servers: Vec<Server>,
    pub(crate) is_online: bool,
    pub(crate) pinned: Option<NodeId>,
    /// The user wants the other servers measured.
    pub(crate) measure_now: bool,
    pub(crate) holds_locks: bool,
    /// Round trip of the session.
    pub(crate) parent_rtt: Duration,
    /// When a server was left because another is nearer.
    left: BTreeMap<NodeId, Time>,
}

impl Known {
    pub(crate) const fn new(config: Config) -> Self {
        Self {
            is_online: config.is_online,
            config,
            servers: Vec::new(),
            pinned: None,
            measure_now: false,
            holds_locks: false,
            parent_rtt: Duration::ZERO,
            left: BTreeMap::new(),
        }
    }

    /// Whether a key is one of a server of the volume.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.servers.iter().any(|server| server.node == node)
    }

    /// The servers that may be the parent, whatever the user chose.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = &Server> {
        let homes_only = self.config.parents == Parents::HomeOnly;
        let may_be = move |server: &&Server| !homes_only || server.kind == ServerKind::Home;
        self.servers.iter().filter(|server| server.addresses.is_some()).filter(may_be).take(DIALS_MAX)
    }

    /// The servers that may be the parent now.
    pub(crate) fn wanted(&self) -> Vec<Server> {
        let is_wanted = |server: &&Server| self.pinned.is_none_or(|pinned| server.node == pinned);
        self.candidates().filter(is_wanted).cloned().collect()
    }

    /// Whether the user wants another server than this one.
    pub(crate) fn is_unwanted(&self, parent: NodeId) -> bool {
        self.pinned.is_some_and(|pinned| pinned != parent)
    }

    /// Whether servers that are no parent for this machine are asked where one is.
    pub(crate) fn looks_around(&self) -> bool {
        self.config.parents == Parents::HomeOnly || self.pinned.is_some()
    }

    /// A server was left because another is nearer.
    pub(crate) fn note_left(&mut self, now: Time, server: NodeId) {
        self.left.retain(|_, at| now.since(*at) < JOIN_PAUSE);
        self.left.insert(server, now);
    }

    /// Why to leave the parent for another. Locks may be lost on the way, which only a nearer server is worth.
    pub(crate) fn drawn_to(
        &self,
        now: Time,
        parent: &Seen<Rank>,
        (other, seen): (NodeId, &Seen<Rank>),
        nearest: Duration,
    ) -> Option<Draw> {
        let why = draw(parent, seen, nearest)?;
        let has_left = self.left.get(&other).is_some_and(|at| now.since(*at) < JOIN_PAUSE);
        let may_join = !self.holds_locks && !has_left;
        (why != Draw::Shared || may_join).then_some(why)
    }
}

/// What servers are compared by.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) known: &'a Known,
    pub(crate) parent: &'a Server,
}
