//! Engines joined by queues under a virtual clock: a home, its stations, their clients.
//!
//! What they do does not depend on the machine: the same sizes give the same counts.

use super::counting::{CountingStore, Work};
use anyhow::{Context, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use wayfs_proto::{Config, Input, Neighbour, Output, PeerId, Replica, Role};
use wayfs_store::Syncer;
use wayfs_types::request::{Answer, Change, Outcome, Request, RequestId};
use wayfs_types::{Admitted, FileId, Kind, Name, NodeId, OriginId, Time, VolumeId, WallTime};

/// Inputs after which a world that does not come to rest is taken for stuck.
const INPUTS_MAX: usize = 50_000_000;
/// Time between two operations of a program: 10,000 a second.
const PACE: Duration = Duration::from_micros(100);
/// So long after the last operation all that is gathered has left.
const REST: Duration = Duration::from_secs(3);

/// Which machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostId(usize);

/// The home of the world.
pub(crate) const HOME: HostId = HostId(0);

struct Host {
    replica: Replica<CountingStore>,
    syncer: Syncer,
    origin: OriginId,
    work: Rc<Cell<Work>>,
    /// Who is at the other end of each session.
    peers: BTreeMap<PeerId, usize>,
}

/// All machines.
pub(crate) struct World {
    hosts: Vec<Host>,
    queue: VecDeque<(usize, Input)>,
    now: Time,
    next_request: u64,
    next_peer: u64,
    answers: BTreeMap<RequestId, Outcome>,
}

fn node(number: u32) -> NodeId {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    NodeId::from_bytes(bytes)
}

/// A name of a generated file.
pub(crate) fn name(text: &str) -> Result<Name> {
    Ok(Name::new(text)?)
}

impl World {
    /// A home alone.
    pub(crate) fn new() -> Result<Self> {
        let mut world = Self {
            hosts: Vec::new(),
            queue: VecDeque::new(),
            now: Time::from_micros(1),
            next_request: 1,
            next_peer: 1,
            answers: BTreeMap::new(),
        };
        world.open(Role::Home, OriginId::new(1)?, "home@scale")?;
        world.rest()?;
        Ok(world)
    }

    fn open(&mut self, role: Role, origin: OriginId, label: &str) -> Result<HostId> {
        let store = CountingStore::new();
        let (work, syncer) = (store.work(), store.syncer());
        let volume = VolumeId::from_bytes([1; 16]);
        let mut config = Config::new(volume, role, origin, label.to_owned(), node(origin.raw()));
        // All that is looked at counts. What is kept in memory would hide it where the volume is small.
        config.view_rows_kept = 0;
        let replica = Replica::open(config, store, self.now)?;
        self.hosts.push(Host { replica, syncer, origin, work, peers: BTreeMap::new() });
        Ok(HostId(self.hosts.len() - 1))
    }

    /// Admits one more machine and connects it, and waits until it is at rest.
    pub(crate) fn add(&mut self, role: Role, parent: HostId) -> Result<HostId> {
        let host = self.begin(role, parent)?;
        self.rest()?;
        Ok(host)
    }

    /// Admits one more machine and connects it; many at once come to rest together.
    pub(crate) fn begin(&mut self, role: Role, parent: HostId) -> Result<HostId> {
        let admitted = if role == Role::Station { Admitted::Station } else { Admitted::Client };
        let number = u32::try_from(self.hosts.len() + 1)?;
        let (now, wall) = (self.now, self.wall());
        let label = format!("machine-{number}@scale");
        let origin = self.hosts[HOME.0].replica.grant_origin(now, wall, node(number), admitted, &label)?;
        self.drain(HOME.0)?;
        let host = self.open(role, origin, &label)?;
        self.connect(host, parent);
        Ok(host)
    }

    /// Begins a session.
    pub(crate) fn connect(&mut self, child: HostId, parent: HostId) {
        let peer = PeerId(self.next_peer);
        self.next_peer += 1;
        let origin = self.hosts[child.0].origin;
        let is_station = self.hosts[child.0].replica.config().role == Role::Station;
        let neighbour = if is_station { Neighbour::ChildStation { origin } } else { Neighbour::ChildClient { origin } };
        self.hosts[child.0].peers.insert(peer, parent.0);
        self.hosts[parent.0].peers.insert(peer, child.0);
        self.queue.push_back((parent.0, Input::PeerUp { peer, neighbour }));
        self.queue.push_back((child.0, Input::PeerUp { peer, neighbour: Neighbour::Parent }));
    }

    /// Ends the sessions between two.
    pub(crate) fn disconnect(&mut self, child: HostId, parent: HostId) {
        let peers: Vec<PeerId> =
            self.hosts[child.0].peers.iter().filter(|(_, other)| **other == parent.0).map(|(peer, _)| *peer).collect();
        for peer in peers {
            self.part(child.0, peer);
        }
    }

    fn part(&mut self, host: usize, peer: PeerId) {
        let Some(other) = self.hosts[host].peers.remove(&peer) else { return };
        self.hosts[other].peers.remove(&peer);
        self.queue.push_back((host, Input::PeerDown { peer }));
        self.queue.push_back((other, Input::PeerDown { peer }));
    }

    fn wall(&self) -> WallTime {
        let since = i64::try_from(self.now.as_micros()).expect("the clock began at zero");
        WallTime::from_nanos(1_800_000_000_000_000_000 + since * 1000)
    }

    /// What a machine did so far.
    pub(crate) fn work(&self, host: HostId) -> Work {
        self.hosts[host.0].work.get()
    }

    fn input(&mut self, host: usize, input: Input) -> Result<()> {
        let (now, wall) = (self.now, self.wall());
        let before = processor_time();
        self.hosts[host].replica.handle(now, wall, input);
        let spent = processor_time().saturating_sub(before);
        self.count(host, |work| {
            work.inputs += 1;
            work.cpu_ns += u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        });
        self.drain(host)
    }

    fn count(&self, host: usize, change: impl FnOnce(&mut Work)) {
        let mut work = self.hosts[host].work.get();
        change(&mut work);
        self.hosts[host].work.set(work);
    }

    fn drain(&mut self, host: usize) -> Result<()> {
        while let Some(output) = self.hosts[host].replica.poll_output() {
            match output {
                Output::Send { peer, bytes } => {
                    self.count(host, |work| {
                        work.messages += 1;
                        work.message_bytes += bytes.len() as u64;
                    });
                    if let Some(other) = self.hosts[host].peers.get(&peer) {
                        self.queue.push_back((*other, Input::Message { peer, bytes }));
                    }
                }
                Output::Sync { ticket } => {
                    let ticket = self.hosts[host].syncer.sync_to(ticket)?;
                    self.queue.push_back((host, Input::Stored { ticket }));
                }
                Output::Answer { id, outcome } => drop(self.answers.insert(id, outcome)),
                Output::GiveBack { serial, .. } => self.queue.push_back((host, Input::GivenBack { serial })),
                Output::Disconnect { reason, .. } => bail!("machine {host} ended a session: {reason}"),
                Output::Failed { reason } => bail!("machine {host} failed: {reason}"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Everything that is on its way arrives, without time passing.
    fn settle(&mut self) -> Result<()> {
        for _ in 0..INPUTS_MAX {
            let Some((host, input)) = self.queue.pop_front() else { return Ok(()) };
            let is_over = |peer: &PeerId| !self.hosts[host].peers.contains_key(peer);
            if matches!(&input, Input::Message { peer, .. } if is_over(peer)) {
                continue;
            }
            self.input(host, input)?;
        }
        bail!("the machines talk for ever")
    }

    /// Time passes, and what is due in it happens.
    pub(crate) fn pass(&mut self, span: Duration) -> Result<()> {
        let until = self.now + span;
        self.settle()?;
        for _ in 0..INPUTS_MAX {
            let due = |host: &Host| host.replica.poll_timeout();
            let next = self.hosts.iter().enumerate().filter_map(|(at, host)| Some((due(host)?, at))).min();
            let Some((at, host)) = next.filter(|(at, _)| *at <= until) else {
                self.now = until;
                return Ok(());
            };
            self.now = self.now.max(at);
            self.input(host, Input::Tick)?;
            self.settle()?;
        }
        bail!("timers never end")
    }

    /// All that was gathered has left and arrived.
    pub(crate) fn rest(&mut self) -> Result<()> {
        self.pass(REST)
    }

    /// Asks something; the clock goes on by the time between two operations of a program.
    pub(crate) fn ask(&mut self, host: HostId, request: Request) -> Result<Answer> {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let deadline = self.now + Duration::from_secs(60);
        self.input(host.0, Input::Request { id, request, deadline })?;
        self.pass(PACE)?;
        for _ in 0..10_000 {
            if let Some(outcome) = self.answers.remove(&id) {
                return outcome.with_context(|| format!("machine {} was asked", host.0));
            }
            self.pass(Duration::from_millis(1))?;
        }
        bail!("no answer")
    }

    fn change(&mut self, host: HostId, change: Change) -> Result<FileId> {
        match self.ask(host, Request::Change { user: 0, change })? {
            Answer::Changed { file, .. } => Ok(file),
            other => bail!("unexpected {other:?}"),
        }
    }

    /// Makes a file.
    pub(crate) fn create(&mut self, host: HostId, parent: FileId, text: &str) -> Result<FileId> {
        let name = name(text)?;
        self.change(host, Change::Create { parent, name, kind: Kind::File, mode: 0o644, uid: 0, gid: 0 })
    }

    /// Makes a directory.
    pub(crate) fn mkdir(&mut self, host: HostId, parent: FileId, text: &str) -> Result<FileId> {
        self.change(host, Change::Mkdir { parent, name: name(text)?, mode: 0o755, uid: 0, gid: 0 })
    }

    /// Removes a file.
    pub(crate) fn unlink(&mut self, host: HostId, parent: FileId, text: &str) -> Result<()> {
        self.change(host, Change::Unlink { parent, name: name(text)? }).map(drop)
    }

    /// Lists a whole directory; answers how many names it has.
    pub(crate) fn list(&mut self, host: HostId, directory: FileId) -> Result<usize> {
        let (mut after, mut count) = (None, 0);
        loop {
            match self.ask(host, Request::List { directory, after, limit: 256 })? {
                Answer::List { entries, end } => {
                    count += entries.len();
                    if end {
                        return Ok(count);
                    }
                    after = entries.last().map(|(name, ..)| name.clone());
                    ensure!(after.is_some(), "a page that is not the last has names");
                }
                other => bail!("unexpected {other:?}"),
            }
        }
    }

    /// Finds a file by its name.
    pub(crate) fn lookup(&mut self, host: HostId, parent: FileId, text: &str) -> Result<FileId> {
        match self.ask(host, Request::Lookup { parent, name: name(text)? })? {
            Answer::File(file, _) => Ok(file),
            other => bail!("unexpected {other:?}"),
        }
    }

    /// Records that the parent has not confirmed.
    pub(crate) fn unsent(&self, host: HostId) -> u64 {
        self.hosts[host.0].replica.progress().records_waiting
    }
}

/// What this thread has used of a processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
