//! Replicas joined by queues under a virtual clock.

mod checks;
mod hooks;
mod requests;

use crate::testing::{MemoryStore, ToyKey};
use crate::{Config, Input, Neighbour, Output, PeerId, Replica, Role};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Outcome, RequestId};
use wayfs_types::{
    Admitted, Content, Digest, FileId, Life, Limits, Name, NodeId, OriginId, RecordId, Standing, Ticket, Time, Top,
    VolumeId, WallTime,
};

/// Rounds after which a world that does not come to rest is taken for stuck.
const ROUNDS_MAX: usize = 20_000;

/// One replica with what its driver would keep.
pub(crate) struct Host {
    pub(crate) replica: Replica<MemoryStore>,
    pub(crate) origin: OriginId,
    /// The number that its driver's settings name: which one a store goes on under since a fork only the store knows.
    granted: OriginId,
    role: Role,
    /// Roots in its chunk store.
    pub(crate) chunks: BTreeSet<Digest>,
    pub(crate) answers: BTreeMap<RequestId, Outcome>,
    pub(crate) events: Vec<Output>,
    syncs: VecDeque<Ticket>,
    /// Syncs wait until told.
    pub(crate) hold_syncs: bool,
    /// Programs are slow to close files that others want to look at.
    pub(crate) holds_rights: bool,
    /// Its driver takes its time to look for contents.
    pub(crate) holds_seeks: bool,
    /// Roots that its disk lost.
    pub(crate) lost: BTreeSet<Digest>,
}

/// A session between two hosts.
struct Session {
    child: usize,
    parent: usize,
    peer: PeerId,
    up: VecDeque<Bytes>,
    down: VecDeque<Bytes>,
    pushes: VecDeque<(RecordId, Digest)>,
    open: bool,
    /// Messages stay on the way.
    pub(crate) stalled: bool,
    /// Contents stay on the way.
    holds_pushes: bool,
}

pub(crate) struct World {
    pub(crate) hosts: Vec<Host>,
    sessions: Vec<Session>,
    pub(crate) now: Time,
    next_request: u64,
    next_peer: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Not zero: some messages are damaged on the way, as this number has it.
    pub(crate) damage: u64,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn big(text: &str) -> Content {
    Content::Tree { size: 1_000_000, root: Digest::of(text.as_bytes()), depth: 1, holes: 0 }
}

/// What an engine is told of one of these.
pub(crate) fn top(root: Digest) -> Top {
    Top { root, depth: 1 }
}

pub(crate) fn small(text: &str) -> Content {
    Content::Inline(Bytes::copy_from_slice(text.as_bytes()))
}

pub(crate) const HOME: usize = 0;

fn node(number: u32) -> NodeId {
    NodeId::from_bytes(*Digest::of(&number.to_be_bytes()).as_bytes())
}

fn config(role: Role, origin: OriginId, label: &str) -> Config {
    let mut config = Config::new(VolumeId::from_bytes([7; 16]), role, origin, label.to_owned(), node(origin.raw()));
    // These tests settle without letting time pass.
    config.sync_gather = Duration::ZERO;
    config.reconcile_gather = Duration::ZERO;
    config.records_per_message = 64;
    config.images_per_message = 64;
    config.seals = Some(Arc::new(ToyKey(config.node)));
    config.home = Some(node(1));
    config
}

impl World {
    /// A home alone.
    pub(crate) fn new() -> Self {
        let origin = OriginId::new(1).unwrap();
        let mut world = Self {
            hosts: Vec::new(),
            sessions: Vec::new(),
            now: Time::from_micros(1),
            next_request: 1,
            next_peer: 1,
            messages: 0,
            bytes: 0,
            damage: 0,
        };
        world.open(config(Role::Home, origin, "home@h"), MemoryStore::new());
        world.settle();
        world
    }

    fn open(&mut self, config: Config, store: MemoryStore) -> usize {
        let (origin, role) = (config.origin, config.role);
        let replica = Replica::open(config, store, self.now).unwrap();
        self.hosts.push(Host {
            replica,
            origin,
            granted: origin,
            role,
            chunks: BTreeSet::new(),
            answers: BTreeMap::new(),
            events: Vec::new(),
            syncs: VecDeque::new(),
            hold_syncs: false,
            holds_rights: false,
            holds_seeks: false,
            lost: BTreeSet::new(),
        });
        self.hosts.len() - 1
    }

    /// Admits one more replica, without a session.
    pub(crate) fn add(&mut self, role: Role, label: &str) -> usize {
        let admitted = if role == Role::Station { Admitted::Station } else { Admitted::Client };
        let number = u32::try_from(self.hosts.len() + 1).unwrap();
        let origin = self.admit(admitted, label);
        // A later life of a home gives other origins: a machine's key is its own all the same.
        let own =
            Config { node: node(number), seals: Some(Arc::new(ToyKey(node(number)))), ..config(role, origin, label) };
        self.open(own, MemoryStore::new())
    }

    /// Admits one more client, with limits.
    pub(crate) fn add_limited(&mut self, limits: Limits, label: &str) -> usize {
        let origin = self.admit(Standing { admitted: Admitted::Client, limits }, label);
        self.open(config(Role::Client, origin, label), MemoryStore::new())
    }

    /// Admits a machine that is nobody's replica.
    pub(crate) fn admit(&mut self, standing: impl Into<Standing>, label: &str) -> OriginId {
        let number = u32::try_from(self.hosts.len() + 1).unwrap();
        let (now, wall) = (self.now, self.wall());
        let origin = self.hosts[HOME].replica.grant_origin(now, wall, node(number), standing, label).unwrap();
        self.drain(HOME);
        origin
    }

    /// What a home's driver does with a member whose number the home does not know.
    pub(crate) fn admit_again(&mut self, home: usize, member: usize, origin: OriginId) -> bool {
        let (now, wall, node) = (self.now, self.wall(), self.hosts[member].replica.config().node);
        let admission = self.hosts[member].replica.admission().unwrap();
        let done = self.hosts[home].replica.admit_again(now, wall, node, origin, admission).unwrap();
        self.drain(home);
        done
    }

    pub(crate) fn configure(&mut self, host: usize, change: impl FnOnce(&mut Config)) {
        self.hosts[host].replica.configure(change);
    }

    pub(crate) fn wall(&self) -> WallTime {
        WallTime::from_nanos(1_700_000_000_000_000_000 + i64::try_from(self.now.as_micros()).unwrap() * 1000)
    }

    pub(crate) fn input(&mut self, host: usize, input: Input) {
        let (now, wall) = (self.now, self.wall());
        self.hosts[host].replica.handle(now, wall, input);
        self.drain(host);
    }

    fn drain(&mut self, host: usize) {
        while let Some(output) = self.hosts[host].replica.poll_output() {
            self.output(host, output);
        }
    }

    pub(crate) fn output(&mut self, host: usize, output: Output) {
        match output {
            Output::Answer { id, outcome } => {
                assert!(self.hosts[host].answers.insert(id, outcome).is_none(), "answered twice");
            }
            Output::Send { peer, bytes } => {
                if !self.sessions.iter().any(|session| session.peer == peer) {
                    // Of a stranger that a test speaks for itself.
                    return self.hosts[host].events.push(Output::Send { peer, bytes });
                }
                self.messages += 1;
                self.bytes += bytes.len() as u64;
                let bytes = self.damaged(bytes);
                let session = self.session(peer);
                if session.child == host { session.up.push_back(bytes) } else { session.down.push_back(bytes) }
            }
            Output::Disconnect { peer, reason } => {
                self.hosts[host].events.push(Output::Disconnect { peer, reason });
                self.close(peer);
            }
            Output::Sync { ticket } => self.hosts[host].syncs.push_back(ticket),
            Output::Push { file, version, content } if self.hosts[host].lost.contains(&content.root().unwrap()) => {
                self.find_again(host, file, version, content);
            }
            Output::Seek { .. } if self.hosts[host].holds_seeks => self.hosts[host].events.push(output),
            Output::Seek { file, version, content } => {
                let root = content.root().unwrap();
                let is_here = self.hosts[host].chunks.contains(&root) || self.is_below(host, root);
                if is_here {
                    self.hosts[host].chunks.insert(root);
                }
                self.input(host, Input::Sought { file, version, content, is_here });
            }
            Output::LookHere { .. } if self.hosts[host].holds_seeks => self.hosts[host].events.push(output),
            Output::LookHere { version, content, .. } => {
                let is_here = content.root().is_some_and(|root| self.hosts[host].chunks.contains(&root));
                let (here, not_here) = if is_here { (vec![version], vec![]) } else { (vec![], vec![version]) };
                self.input(host, Input::LookedHere { here, not_here });
            }
            Output::Push { version, content, .. } => {
                let root = content.root().unwrap();
                assert!(self.hosts[host].chunks.contains(&root), "pushes what it does not have");
                if let Some(session) = self.sessions.iter_mut().find(|s| s.open && s.child == host) {
                    session.pushes.push_back((version, root));
                }
            }
            Output::Applied { content: Some(content), .. } => {
                let root = content.root().unwrap();
                if self.hosts[host].chunks.contains(&root) {
                    self.input(host, Input::ContentsHere { tops: vec![top(root)] });
                }
            }
            Output::Failed { reason } if self.damage == 0 => panic!("host {host} failed: {reason}"),
            Output::GiveBack { serial, .. } if !self.hosts[host].holds_rights => {
                self.input(host, Input::GivenBack { serial });
            }
            other => self.hosts[host].events.push(other),
        }
    }

    /// What a driver does that cannot read what it is to push: it asks whom it can, and says so if nobody has it.
    fn find_again(&mut self, host: usize, file: FileId, version: RecordId, content: Content) {
        let root = content.root().unwrap();
        if self.finds(host, None, (file, version), root) {
            self.hosts[host].lost.remove(&root);
            self.hosts[host].chunks.insert(root);
            return self.output(host, Output::Push { file, version, content });
        }
        self.input(host, Input::ContentGone { file, version, content });
    }

    /// A host's disk loses contents; its driver finds out when it is to push them.
    pub(crate) fn lose(&mut self, host: usize, content: &Content) {
        let root = content.root().unwrap();
        assert!(self.hosts[host].chunks.remove(&root), "it had them");
        self.hosts[host].lost.insert(root);
    }

    /// They are there again.
    pub(crate) fn find(&mut self, host: usize, content: &Content) {
        let root = content.root().unwrap();
        self.hosts[host].lost.remove(&root);
        self.hosts[host].chunks.insert(root);
    }

    fn damaged(&mut self, bytes: Bytes) -> Bytes {
        if self.damage == 0 {
            return bytes;
        }
        self.damage = self.damage.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) | 1;
        let roll = usize::try_from(self.damage >> 33).unwrap();
        if roll % 6 != 0 {
            return bytes;
        }
        let mut bytes = bytes.to_vec();
        let at = roll / 6 % bytes.len();
        bytes[at] ^= 1 << (roll / 4096 % 8);
        Bytes::from(bytes)
    }

    fn session(&mut self, peer: PeerId) -> &mut Session {
        self.sessions.iter_mut().find(|session| session.peer == peer).unwrap()
    }

    /// Connects a child with a parent.
    pub(crate) fn connect(&mut self, child: usize, parent: usize) -> PeerId {
        let peer = PeerId(self.next_peer);
        self.next_peer += 1;
        let origin = self.hosts[child].replica.config().origin;
        self.hosts[child].origin = origin;
        self.sessions.push(Session {
            child,
            parent,
            peer,
            up: VecDeque::new(),
            down: VecDeque::new(),
            pushes: VecDeque::new(),
            open: true,
            stalled: false,
            holds_pushes: false,
        });
        let neighbour = match self.hosts[child].role {
            Role::Station => Neighbour::ChildStation { origin },
            Role::Home | Role::Client => Neighbour::ChildClient { origin },
        };
        self.input(parent, Input::PeerUp { peer, neighbour });
        self.input(child, Input::PeerUp { peer, neighbour: Neighbour::Parent });
        peer
    }

    pub(crate) fn close(&mut self, peer: PeerId) {
        self.end(peer, Input::PeerDown { peer });
    }

    /// The child ends a session of its own accord, and its parent is told so.
    pub(crate) fn leave(&mut self, peer: PeerId) {
        self.end(peer, Input::PeerLeft { peer });
    }

    fn end(&mut self, peer: PeerId, for_parent: Input) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.peer == peer) else { return };
        if !session.open {
            return;
        }
        session.open = false;
        let (child, parent) = (session.child, session.parent);
        session.up.clear();
        session.down.clear();
        session.pushes.clear();
        self.input(child, Input::PeerDown { peer });
        self.input(parent, for_parent);
    }

    pub(crate) fn is_open(&mut self, peer: PeerId) -> bool {
        self.session(peer).open
    }

    /// Whether a host has a session with a parent.
    pub(crate) fn has_session(&self, host: usize) -> bool {
        self.sessions.iter().any(|session| session.open && session.child == host)
    }

    pub(crate) fn stall(&mut self, peer: PeerId, stalled: bool) {
        self.session(peer).stalled = stalled;
    }

    /// The open session of a child with its parent.
    pub(crate) fn line_of(&self, child: usize) -> PeerId {
        self.sessions.iter().find(|session| session.open && session.child == child).unwrap().peer
    }

    pub(crate) fn hold_pushes(&mut self, peer: PeerId, held: bool) {
        self.session(peer).holds_pushes = held;
    }

    /// Lets a number of messages of a session arrive at the parent, stalled or not.
    pub(crate) fn step_up(&mut self, peer: PeerId, count: usize) {
        for _ in 0..count {
            let session = self.session(peer);
            let (parent, bytes) = (session.parent, session.up.pop_front());
            let bytes = bytes.expect("so many messages are on their way");
            self.input(parent, Input::Message { peer, bytes });
        }
    }

    /// Whether anything is on its way to the parent of a session.
    pub(crate) fn waits_up(&mut self, peer: PeerId) -> bool {
        !self.session(peer).up.is_empty()
    }

    /// Lets all that is on its way to the child of a session arrive, stalled or not.
    pub(crate) fn step_down(&mut self, peer: PeerId) {
        loop {
            let session = self.session(peer);
            let child = session.child;
            let Some(bytes) = session.down.pop_front() else { return };
            self.input(child, Input::Message { peer, bytes });
        }
    }

    /// Moves one thing that is on its way. Answers whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        for host in 0..self.hosts.len() {
            if !self.hosts[host].hold_syncs
                && let Some(ticket) = self.hosts[host].syncs.pop_front()
            {
                self.hosts[host].replica.store_mut().sync(ticket);
                self.input(host, Input::Stored { ticket });
                return true;
            }
        }
        for index in 0..self.sessions.len() {
            if self.sessions[index].stalled || !self.sessions[index].open {
                continue;
            }
            let (child, parent, peer) =
                (self.sessions[index].child, self.sessions[index].parent, self.sessions[index].peer);
            if let Some(bytes) = self.sessions[index].up.pop_front() {
                self.input(parent, Input::Message { peer, bytes });
                return true;
            }
            if let Some(bytes) = self.sessions[index].down.pop_front() {
                self.input(child, Input::Message { peer, bytes });
                return true;
            }
            if !self.sessions[index].holds_pushes && !self.sessions[index].pushes.is_empty() {
                // As one sync has them all.
                let pushes = std::mem::take(&mut self.sessions[index].pushes);
                let (versions, roots): (Vec<_>, Vec<_>) = pushes.into_iter().unzip();
                self.hosts[parent].chunks.extend(&roots);
                self.input(parent, Input::ContentsHere { tops: roots.into_iter().map(top).collect() });
                self.input(child, Input::Pushed { versions });
                return true;
            }
        }
        for host in 0..self.hosts.len() {
            if self.hosts[host].replica.poll_timeout().is_some_and(|at| at <= self.now) {
                self.input(host, Input::Tick);
                return true;
            }
        }
        false
    }

    /// Syncs that a host has asked for and not done.
    pub(crate) fn syncs_asked(&self, host: usize) -> usize {
        self.hosts[host].syncs.len()
    }

    /// A host whose syncs are held does the one that was asked for first.
    pub(crate) fn sync_once(&mut self, host: usize) {
        if let Some(ticket) = self.hosts[host].syncs.pop_front() {
            self.hosts[host].replica.store_mut().sync(ticket);
            self.input(host, Input::Stored { ticket });
        }
    }

    /// Lets everything that is on its way arrive, without time passing.
    pub(crate) fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX * 50 {
            if !self.step() {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, span: Duration) {
        self.settle();
        let until = self.now + span;
        for _ in 0..ROUNDS_MAX {
            let next = self.hosts.iter().filter_map(|host| host.replica.poll_timeout()).min();
            match next {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => {
                    self.now = until;
                    self.settle();
                    return;
                }
            }
            self.settle();
        }
        panic!("timers never end");
    }

    /// Loses power: the host comes back with what was durable and `kept` more batches.
    pub(crate) fn crash(&mut self, host: usize, kept: usize) {
        let peers: Vec<PeerId> =
            self.sessions.iter().filter(|s| s.open && (s.child == host || s.parent == host)).map(|s| s.peer).collect();
        for peer in peers {
            let session = self.session(peer);
            session.open = false;
            let other = if session.child == host { session.parent } else { session.child };
            self.input(other, Input::PeerDown { peer });
        }
        let config = self.hosts[host].replica.config().clone();
        let spare = Replica::open(config.clone(), MemoryStore::new(), self.now).unwrap();
        let old = std::mem::replace(&mut self.hosts[host].replica, spare);
        let store = old.into_store().crash(kept);
        self.hosts[host].replica = Replica::open(config, store, self.now).unwrap();
        self.hosts[host].syncs.clear();
    }

    /// A machine is gone for good, with its disk.
    pub(crate) fn destroy(&mut self, host: usize) {
        let peers: Vec<PeerId> =
            self.sessions.iter().filter(|s| s.open && (s.child == host || s.parent == host)).map(|s| s.peer).collect();
        for peer in peers {
            self.close(peer);
        }
        self.hosts[host].chunks.clear();
        self.hosts[host].hold_syncs = true;
    }

    /// Whether a replica finds the bytes of a file's version: with it, or by asking whom the engines name, one after
    /// the other, as the driver does.
    pub(crate) fn can_read(&self, host: usize, file: FileId, content: &Content) -> bool {
        let version = self.hosts[HOME].replica.inode(file).unwrap().unwrap().version;
        self.finds(host, None, (file, version), content.root().unwrap())
    }

    fn finds(&self, host: usize, asker: Option<usize>, of: (FileId, RecordId), root: Digest) -> bool {
        if self.hosts[host].chunks.contains(&root) {
            return true;
        }
        let connected = |child: usize, parent: usize| {
            self.sessions.iter().any(|s| s.open && s.child == child && s.parent == parent)
        };
        let parent = (0..self.hosts.len()).find(|parent| connected(host, *parent) && Some(*parent) != asker);
        let above = || parent.is_some_and(|parent| self.finds(parent, Some(host), of, root));
        let below = self.hosts[host].replica.holders(of.0, of.1).unwrap().into_iter().any(|holder| match holder {
            crate::Holder::Child(origin, _) => {
                let child = self.hosts.iter().position(|other| other.origin == origin).unwrap();
                connected(child, host) && Some(child) != asker && self.finds(child, Some(host), of, root)
            }
            crate::Holder::Here | crate::Holder::Parent | crate::Holder::Unknown => false,
        });
        below || above()
    }

    /// Whether somebody below a server has contents and is there, on record or not.
    fn is_below(&self, host: usize, root: Digest) -> bool {
        let children = self.sessions.iter().filter(|session| session.open && session.parent == host);
        children
            .map(|session| session.child)
            .any(|child| self.hosts[child].chunks.contains(&root) || self.is_below(child, root))
    }

    /// A copy of what is durable on a host's disk, as a snapshot takes it.
    pub(crate) fn snapshot(&self, host: usize) -> MemoryStore {
        self.hosts[host].replica.store().clone().crash(0)
    }

    /// Opens a copy of a store in place of a host's own, in a life of its own.
    pub(crate) fn restore(&mut self, host: usize, store: MemoryStore, life: u32) {
        self.crash(host, 0);
        let mut config = self.hosts[host].replica.config().clone();
        (config.life, config.origin) = (Life(life), self.hosts[host].granted);
        let replica = Replica::open(config, store, self.now).unwrap();
        self.hosts[host].origin = replica.config().origin;
        self.hosts[host].replica = replica;
    }

    /// A station takes the place of the home, as a driver opens it.
    pub(crate) fn promote(&mut self, host: usize, life: u32) {
        self.crash(host, 0);
        let store = self.snapshot(host);
        let mut config = self.hosts[host].replica.config().clone();
        (config.role, config.life, config.succeeds) = (Role::Home, Life(life), true);
        self.hosts[host].role = Role::Home;
        self.hosts[host].replica = Replica::open(config, store, self.now).unwrap();
        self.drain(host);
        let tops = self.hosts[host].chunks.iter().copied().map(top).collect();
        self.input(host, Input::ContentsHere { tops });
        self.settle();
    }

    /// Opens a copy of a store as a host of its own, with the chunks of the one that it was taken from.
    pub(crate) fn clone_of(&mut self, host: usize, store: MemoryStore, life: u32) -> usize {
        let mut config = self.hosts[host].replica.config().clone();
        config.life = Life(life);
        let clone = self.open(config, store);
        self.hosts[clone].chunks = self.hosts[host].chunks.clone();
        self.hosts[clone].origin = self.hosts[clone].replica.config().origin;
        clone
    }
}
