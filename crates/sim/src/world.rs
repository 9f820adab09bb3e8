//! The simulated world: a queue of events and the hosts they happen to.

use crate::check::Violation;
use crate::contents::{Fetch, Push};
use crate::coverage::{Branch, Coverage};
use crate::disk::{Disk, SyncPoint};
use crate::exclusive::Makers;
use crate::history::{History, Update};
use crate::host::{Expectation, Host};
use crate::network::{End, IDLE_TIMEOUT, Link, Session};
use crate::plan::{Plan, Step};
use crate::planted::Bug;
use crate::sharing::Sharing;
use bytes::Bytes;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::time::Duration;
use wayfs_proto::{AHEAD_MAX, Input, Neighbour, Output, PeerId, Replica, Role};
use wayfs_types::request::{Answer, Level, Outcome, Request, RequestId};
use wayfs_types::{Content, Digest, FileId, Life, Op, OriginId, Record, RecordId, Ticket, Time};

/// Something that happens to someone at some time.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Frames of a session may have arrived from an end.
    Deliver {
        session: PeerId,
        from: End,
    },
    /// A sync that was asked for is done.
    Synced {
        host: usize,
        life: u32,
        point: SyncPoint,
    },
    /// An engine's timer.
    Wake {
        host: usize,
        life: u32,
    },
    /// A child without a parent tries to get one.
    Connect {
        host: usize,
        life: u32,
    },
    /// An end notices that its session is dead.
    Notice {
        session: PeerId,
        end: End,
    },
    /// A link that was cut is still cut after the idle timeout?
    CutCheck {
        link: (usize, usize),
        since: Time,
    },
    /// A piece of a content pushed by a child reaches its parent.
    PushStep(Push),
    /// A parent synced the pieces of a push.
    PushDurable {
        push: Push,
        chunk_writes: u64,
    },
    /// A parent's confirmation of a push reaches the child.
    PushConfirmed {
        session: PeerId,
        version: RecordId,
    },
    /// A server synced a content that became whole otherwise.
    Look {
        host: usize,
        life: u32,
        file: FileId,
        version: RecordId,
        content: Content,
    },
    Whole {
        host: usize,
        life: u32,
        root: Digest,
        chunk_writes: u64,
    },
    /// A reader gets one more piece.
    FetchStep(Fetch),
    /// A host removes chunks that it need not keep.
    Sweep {
        host: usize,
    },
    /// A store is put back to an older copy.
    GoBack {
        host: usize,
        copy: Box<Disk>,
    },
    /// A host says where it stands.
    Speak {
        host: usize,
    },
    /// A full disk has room again.
    Room {
        host: usize,
    },
    /// A station's policy sends contents ahead.
    Propagate {
        host: usize,
        life: u32,
        file: FileId,
        version: RecordId,
    },
    GivenBack {
        host: usize,
        life: u32,
        serial: u64,
    },
    /// A client does something.
    Work {
        host: usize,
    },
    /// Something breaks.
    Fault,
    /// A crashed host comes back.
    Restart {
        host: usize,
        life: u32,
    },
    /// A cut link is whole again.
    Reconnect {
        link: (usize, usize),
    },
}

/// The queue's entry: time, order of arrival, event.
struct Scheduled(Time, u64, Event);

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// What of a run is written down.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Notes {
    /// Each event is printed.
    pub(crate) is_verbose: bool,
    /// A trace is kept: words for everything that happens take as long as all the rest.
    pub(crate) is_traced: bool,
    /// The script is kept.
    pub(crate) is_scripted: bool,
}

/// Everything.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    pub(crate) now: Time,
    pub(crate) random: ChaCha8Rng,
    pub(crate) hosts: Vec<Host>,
    /// By (child, parent).
    pub(crate) links: BTreeMap<(usize, usize), Link>,
    pub(crate) sessions: BTreeMap<PeerId, Session>,
    pub(crate) history: History,
    /// What clients of one station did and saw.
    pub(crate) sharing: Sharing,
    /// Who was told that it made what, where all is exclusive.
    pub(crate) makers: Makers,
    pub(crate) violations: Vec<Violation>,
    /// Pieces of every content that was made, by its root.
    pub(crate) trees: BTreeMap<Digest, Rc<[Digest]>>,
    /// Branches that this run came by.
    pub(crate) coverage: Coverage,
    /// No more faults, no more work.
    pub(crate) healed: bool,
    /// Since when it has been healed, and everybody awake.
    pub(crate) healed_at: Option<Time>,
    /// A running digest of everything that happened, for the same-seed check.
    pub(crate) trace: u64,
    pub(crate) notes: Notes,
    /// What happened by the plan's will.
    pub(crate) script: Vec<(Step, String)>,
    /// Steps so far: of faults (at 0), and of what each host does (at its number and one more).
    steps: BTreeMap<usize, u64>,
    pub(crate) events: u64,
    /// The step that happens, and whether its words were written down.
    in_step: Option<(Step, bool)>,
    queue: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    next_peer: u64,
}

impl World {
    pub(crate) fn new(plan: Plan, bug: Option<Bug>, random: ChaCha8Rng, notes: Notes) -> Self {
        Self {
            plan,
            bug,
            now: Time::ZERO,
            random,
            hosts: Vec::new(),
            links: BTreeMap::new(),
            sessions: BTreeMap::new(),
            history: History::default(),
            sharing: Sharing::default(),
            makers: Makers::default(),
            violations: Vec::new(),
            trees: BTreeMap::new(),
            coverage: Coverage::new(),
            healed: false,
            healed_at: None,
            trace: 0xcbf2_9ce4_8422_2325,
            notes,
            script: Vec::new(),
            steps: BTreeMap::new(),
            events: 0,
            in_step: None,
            queue: BinaryHeap::new(),
            scheduled: 0,
            next_peer: 1,
        }
    }

    pub(crate) fn at(&mut self, time: Time, event: Event) {
        self.scheduled += 1;
        self.queue.push(Reverse(Scheduled(time.max(self.now), self.scheduled, event)));
    }

    pub(crate) fn after(&mut self, span: Duration, event: Event) {
        self.at(self.now + span, event);
    }

    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.random.random_range(least * 1000..=most * 1000))
    }

    /// Does something by the plan's will, unless it is left out. It draws from a stream of its own, so that what is left out
    /// changes nothing of what the other steps are.
    pub(crate) fn step(&mut self, line: usize, does: impl FnOnce(&mut Self)) {
        let number = self.steps.entry(line).or_insert(0);
        *number += 1;
        let step = line.checked_sub(1).map_or(Step::Fault(*number), |host| Step::Work(host, *number));
        if self.plan.without.contains(&step) {
            return;
        }
        let stream = self.plan.seed ^ 0x57e9 ^ ((line as u64 + 1) << 48) ^ (*number << 16);
        let random = std::mem::replace(&mut self.random, ChaCha8Rng::seed_from_u64(stream));
        self.in_step = Some((step, false));
        does(self);
        self.in_step = None;
        self.random = random;
    }

    /// Runs until a time, or until something is violated.
    pub(crate) fn run_until(&mut self, end: Time) {
        while self.violations.is_empty() {
            match self.queue.peek() {
                Some(Reverse(Scheduled(time, _, _))) if *time <= end => {}
                _ => break,
            }
            let Some(Reverse(Scheduled(time, _, event))) = self.queue.pop() else { break };
            self.now = self.now.max(time);
            self.events += 1;
            self.note(|| format!("{event:?}"));
            self.happen(event);
        }
        self.now = self.now.max(end);
    }

    /// Folds a line into the trace, and prints it if asked.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.notes.is_scripted && self.in_step.is_some() {
            let (line, at) = (line(), self.now.as_micros());
            if let Some((step, is_said)) = self.in_step.as_mut()
                && !std::mem::replace(is_said, true)
            {
                self.script.push((*step, format!("{:>9}.{:03} ms  {line}", at / 1000, at % 1000)));
            }
            return;
        }
        if !self.notes.is_traced {
            return;
        }
        let line = line();
        if self.notes.is_verbose {
            eprintln!("{:>12} {line}", self.now.as_micros());
        }
        for byte in line.bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some(host) = self.sleeper(&event) {
            let awake = self.hosts[host].asleep_until;
            return self.at(awake, event);
        }
        match event {
            Event::Deliver { session, from } => self.deliver(session, from),
            Event::Synced { host, life, point } => self.synced(host, life, point),
            Event::Wake { host, life } => {
                if self.hosts[host].life == life {
                    self.hosts[host].wake_at = None;
                    self.feed(host, Input::Tick);
                }
            }
            Event::Connect { host, life } => self.connect(host, life),
            Event::Notice { session, end } => self.end_session(session, end),
            Event::CutCheck { link, since } => self.cut_check(link, since),
            Event::PushStep(push) => self.push_step(push),
            Event::PushDurable { push, chunk_writes } => self.push_durable(push, chunk_writes),
            Event::Look { host, life, file, version, content } => {
                if self.hosts[host].life == life {
                    self.look_for(host, file, version, content);
                }
            }
            Event::Whole { host, life, root, chunk_writes } => {
                if self.hosts[host].life == life {
                    self.whole(host, root, chunk_writes);
                }
            }
            Event::FetchStep(fetch) => self.fetch_step(fetch),
            Event::Sweep { host } => self.sweep_and_plan(host),
            Event::GoBack { host, copy } => self.go_back(host, *copy),
            Event::Speak { host } => self.speak_and_plan(host),
            Event::Room { host } => self.hosts[host].disk.0.borrow_mut().is_full = false,
            Event::PushConfirmed { session, version } => {
                let Some(child) = self.living_end(session, End::Child) else { return };
                self.hosts[child].pushing.remove(&version);
                self.feed(child, Input::Pushed { version });
            }
            Event::GivenBack { host, life, serial } => {
                if self.hosts[host].life == life {
                    self.feed(host, Input::GivenBack { serial });
                }
            }
            Event::Propagate { host, life, file, version } => {
                if self.hosts[host].life == life {
                    self.feed(host, Input::Propagate { file, version });
                }
            }
            Event::Work { host } => self.work(host),
            Event::Fault => self.fault(),
            Event::Restart { host, life } => {
                if self.hosts[host].life == life {
                    self.start(host);
                }
            }
            Event::Reconnect { link } => {
                if let Some(link) = self.links.get_mut(&link) {
                    link.cut_since = None;
                }
            }
        }
    }

    /// The sleeping host that an event must wait for.
    fn sleeper(&self, event: &Event) -> Option<usize> {
        let host = match event {
            Event::Deliver { session, from } => self.sessions.get(session)?.host(from.other()),
            Event::Synced { host, .. }
            | Event::Wake { host, .. }
            | Event::Connect { host, .. }
            | Event::Propagate { host, .. }
            | Event::GivenBack { host, .. }
            | Event::Look { host, .. }
            | Event::Whole { host, .. }
            | Event::FetchStep(Fetch { host, .. })
            | Event::Sweep { host }
            | Event::Speak { host }
            | Event::Work { host } => *host,
            Event::Notice { session, end } => self.sessions.get(session)?.host(*end),
            Event::PushStep(push) | Event::PushDurable { push, .. } => self.sessions.get(&push.session)?.parent,
            Event::PushConfirmed { session, .. } => self.sessions.get(session)?.child,
            Event::CutCheck { .. }
            | Event::Fault
            | Event::Restart { .. }
            | Event::Reconnect { .. }
            | Event::GoBack { .. }
            | Event::Room { .. } => return None,
        };
        (self.hosts[host].asleep_until > self.now).then_some(host)
    }

    /// Opens the engine of a host on its disk.
    pub(crate) fn start(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.destroyed || host.replica.is_some() {
            return;
        }
        // A store that finds no room to open is opened again by whoever started its process.
        if host.disk.0.borrow().is_full {
            let life = host.life;
            return self.after(Duration::from_secs(1), Event::Restart { host: index, life });
        }
        // Each opening is a life of its own, whichever machine it is at.
        let life = Life(self.random.random_range(1..=u32::MAX));
        let host = &mut self.hosts[index];
        host.config.life = if self.bug == Some(Bug::OldCopyAsNew) { Life::NONE } else { life };
        let before = host.config.origin;
        match Replica::open(host.settings(), host.disk.clone(), self.now) {
            Ok(replica) => {
                host.config.origin = replica.config().origin;
                host.replica = Some(replica);
            }
            Err(error) => self.violations.push(Violation::new("opens after a crash", format!("host {index}: {error}"))),
        }
        self.drain(index);
        if before != self.hosts[index].config.origin {
            // The crash took what it went on as, and with it all that it wrote under that: nothing of it had left.
            self.history.lose(index, before, 0, 0);
        }
        self.forget_what_was_lost(index);
        let life = self.hosts[index].life;
        if self.hosts[index].role() != Role::Home {
            let soon = self.millis(1, 300);
            self.after(soon, Event::Connect { host: index, life });
        }
    }

    /// What a crash took before it was durable is nobody's promise. It may have been sent ahead, and happen all the
    /// same; what cannot have been never happened, and its numbers are used again.
    fn forget_what_was_lost(&mut self, index: usize) {
        let origin = self.hosts[index].config.origin;
        let Some(replica) = self.hosts[index].replica.as_ref() else { return };
        let last = replica.progress().last_record.map_or(0, RecordId::sequence);
        let ahead = match (self.hosts[index].is_copy || self.hosts[index].is_clone, self.hosts[index].is_client()) {
            (true, _) => u64::MAX,
            (false, true) => last + AHEAD_MAX,
            (false, false) => last,
        };
        self.history.lose(index, origin, last, ahead);
    }

    /// Gives an input to a host's engine and carries its outputs out.
    pub(crate) fn feed(&mut self, index: usize, input: Input) {
        let now = self.now;
        let host = &mut self.hosts[index];
        let wall = host.wall(now);
        let Some(replica) = host.replica.as_mut() else { return };
        let before = replica.unvouched();
        replica.handle(now, wall, input);
        host.is_unvouched = replica.unvouched() > before;
        self.note_taken_names(index);
        self.drain(index);
    }

    fn drain(&mut self, index: usize) {
        while let Some(output) = self.hosts[index].replica.as_mut().and_then(Replica::poll_output) {
            self.note(|| match &output {
                Output::Send { peer, bytes } => {
                    format!("  host {index} Send {{ {peer:?}, {:?} }}", wayfs_wire::decode(bytes))
                }
                _ => format!("  host {index} {output:?}"),
            });
            self.carry_out(index, output);
        }
        let now = self.now;
        let host = &mut self.hosts[index];
        let Some(due) = host.replica.as_ref().and_then(Replica::poll_timeout) else { return };
        // A timer that is due at once must still let time pass, or a wrong engine would hang the run.
        let due = due.max(now + Duration::from_micros(50));
        if host.wake_at.is_none_or(|at| at > due) {
            host.wake_at = Some(due);
            let life = host.life;
            self.at(due, Event::Wake { host: index, life });
        }
    }

    fn carry_out(&mut self, index: usize, output: Output) {
        let life = self.hosts[index].life;
        match output {
            Output::Answer { id, outcome } => self.answered(index, id, outcome),
            Output::Send { peer, bytes } => self.send(index, peer, bytes),
            Output::Disconnect { peer, reason } => self.disconnected(index, peer, &reason),
            Output::Sync { ticket } => {
                // What is put or committed after this moment is for the next sync.
                let point = SyncPoint { ticket, ..self.hosts[index].disk.0.borrow().sync_point() };
                let lies = self.bug == Some(Bug::StoredBeforeDurable) && self.hosts[index].role() == Role::Station;
                let span = if lies { Duration::from_micros(1) } else { self.sync_span() };
                self.after(span, Event::Synced { host: index, life, point });
            }
            Output::Push { version, content, .. } => self.push(index, version, &content),
            Output::Seek { file, version, content } => {
                let later = self.millis(1, 500);
                self.after(later, Event::Look { host: index, life, file, version, content });
            }
            Output::Applied { file, record, content } => {
                let first = self.history.first(record);
                let is_other = |update: &Update| {
                    update.base.is_none() && update.file != FileId::made_by(self.history.first(file.maker()))
                };
                if index == 0 && self.history.updates.get(&first).is_some_and(is_other) {
                    self.history.merged.insert(first);
                }
                if let Some(root) = content.as_ref().and_then(Content::root) {
                    self.note_whole(index, root);
                }
                let wanted = content.is_some() && self.random.random_bool(self.plan.propagate);
                if wanted && self.hosts[index].role() == Role::Station {
                    let later = self.millis(0, 20_000);
                    self.after(later, Event::Propagate { host: index, life, file, version: record });
                }
            }
            Output::GiveBack { serial, .. } => {
                self.note_give_back(index);
                // Programs of the simulated hosts close nothing in the background.
                let later = self.millis(0, 20);
                self.after(later, Event::GivenBack { host: index, life, serial });
            }
            Output::Failed { reason } => {
                self.violations.push(Violation::new("a sound disk never fails", format!("host {index}: {reason}")));
            }
            Output::Renewed { origin, .. } => {
                self.hosts[index].config.origin = origin;
                self.hosts[index].origins.push(origin);
                self.note_renamed(index);
                self.hosts[index].follow_renamed();
                self.cover(Branch::Renewed, true);
            }
            Output::InvalidateAll => self.cover(Branch::InvalidateAll, true),
            Output::Shared { .. } => self.cover(Branch::Shared, true),
            Output::Conflict { .. } => {
                self.sharing.note_conflict(index, self.now);
                self.cover(Branch::Conflict, true);
            }
            Output::Forked { reason } => {
                if !self.has_copy() {
                    self.violate("nobody takes itself for a copy", format!("host {index}: {reason}"));
                }
            }
            Output::Lost { .. } => self.note_declared(index),
            Output::InvalidateInode { .. }
            | Output::InvalidateEntry { .. }
            | Output::WentBack { .. }
            | Output::RoomsAbove { .. } => {}
            Output::Rescued { .. } | Output::Recovered { .. } => self.note_renamed(index),
        }
    }

    /// What a store wrote again stands for what it had written, or taken from a child, before. A file is made again with what had been
    /// stored into it last: whoever goes on from that version has seen what it holds (seed 448 of `home-back`).
    fn note_renamed(&mut self, index: usize) {
        let Some(replica) = self.hosts[index].replica.as_ref() else { return };
        for (former, now) in replica.renamed() {
            self.history.renamed(former, now);
            if let Ok(Some(Record { op: Op::Create { content, .. }, .. })) = replica.logged(now) {
                self.history.made_again(now, &content);
            }
        }
    }

    /// An engine ends a session. Silence, newer sessions, strangers and records that came by two ways are good reasons between
    /// honest peers; anything else means that one of them broke the protocol.
    fn disconnected(&mut self, index: usize, peer: PeerId, reason: &str) {
        const GOOD: [&str; 7] = [
            "for a lease",
            "kept others waiting",
            "another session",
            "its origin is not known here",
            "revoked",
            "came by another way",
            "no space left",
        ];
        // A server that lost something, and those that followed it, have less than they had said: the session that shows it is
        // ended, and the next begins by comparing.
        const GOOD_AFTER_LOSS: [&str; 3] = ["went back behind record", "is the last that came", "begin anew"];
        /// Where a store is an older copy, histories do part. A station that took records of the one copy, and hears that the home has
        /// those of the other, writes them again by its own name: it has less of their origin than it had said.
        const PARTED: [&str; 3] = ["history of", "of another history", "went back behind record"];
        self.cover(Branch::Disconnected, true);
        let is_good = GOOD.iter().any(|good| reason.contains(good))
            || self.has_lost_server() && GOOD_AFTER_LOSS.iter().any(|good| reason.contains(good))
            || self.has_copy() && PARTED.iter().any(|good| reason.contains(good));
        if !is_good {
            let line = format!("host {index} disconnected {peer:?}: {reason}");
            self.violations.push(Violation::new("honest peers get along", line));
        }
        self.leave_unknown(peer, reason);
        let Some(session) = self.sessions.get(&peer) else { return };
        let end = if session.child == index { End::Child } else { End::Parent };
        self.after(Duration::ZERO, Event::Notice { session: peer, end });
    }

    fn synced(&mut self, index: usize, life: u32, point: SyncPoint) {
        if self.hosts[index].life != life {
            return;
        }
        let ticket = point.ticket;
        let is_client = self.hosts[index].is_client();
        let is_station = self.hosts[index].role() == Role::Station;
        let mut disk = self.hosts[index].disk.0.borrow_mut();
        let newest = disk.sync_point().ticket;
        let stored = match self.bug {
            Some(Bug::StoredBeforeDurable) if is_station => ticket,
            Some(Bug::DiskLies) if is_client => ticket,
            Some(Bug::OneBatchEarly) => {
                disk.sync_chunks(point.chunk_writes);
                disk.sync_records(Ticket(ticket.0.saturating_sub(1)));
                ticket
            }
            Some(Bug::ChunksSyncedFirst) => {
                disk.sync_chunks(point.chunk_writes);
                disk.sync_records(newest);
                newest
            }
            _ => {
                disk.sync_chunks(point.chunk_writes);
                disk.sync_records(ticket);
                ticket
            }
        };
        drop(disk);
        self.feed(index, Input::Stored { ticket: stored });
    }

    // Sessions.

    fn connect(&mut self, child: usize, life: u32) {
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
    fn admit_again(&mut self, child: usize, origin: OriginId) {
        let (now, wall, node) = (self.now, self.hosts[0].wall(self.now), self.hosts[child].config.node);
        let shown = self.hosts[child].replica.as_ref().and_then(|replica| replica.admission().ok()).flatten();
        let Some(home) = self.hosts[0].replica.as_mut() else { return };
        let done = home.admit_again(now, wall, node, origin, shown);
        if done.is_ok_and(|done| done) {
            self.note(|| format!("host {child} has origin {origin} again"));
        }
    }

    /// A client that a server does not know goes to another, at last to the home.
    fn leave_unknown(&mut self, peer: PeerId, reason: &str) {
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

    fn send(&mut self, index: usize, peer: PeerId, bytes: Bytes) {
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

    fn deliver(&mut self, peer: PeerId, from: End) {
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
        if !other_alive {
            self.sessions.remove(&peer);
        }
        if end == End::Child && self.hosts[child].parent_session == Some(peer) {
            self.hosts[child].parent_session = None;
            self.hosts[child].pushing.clear();
            let (later, life) = (self.millis(10, 1000), self.hosts[child].life);
            self.after(later, Event::Connect { host: child, life });
        }
        if other_alive {
            let later = self.millis(1, IDLE_TIMEOUT.as_millis() as u64);
            self.after(later, Event::Notice { session: peer, end: end.other() });
        }
        self.feed(host, Input::PeerDown { peer });
    }

    fn cut_check(&mut self, link: (usize, usize), since: Time) {
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

    // Requests.

    /// Asks a host's engine; the answer goes to the history.
    pub(crate) fn ask(&mut self, index: usize, request: Request, expectation: Expectation) -> RequestId {
        let patience = self.millis(1000, 40_000);
        self.ask_within(index, request, expectation, patience)
    }

    pub(crate) fn ask_within(
        &mut self,
        index: usize,
        request: Request,
        expectation: Expectation,
        patience: Duration,
    ) -> RequestId {
        let id = self.hosts[index].request_id();
        self.hosts[index].waiting.insert(id, expectation);
        let deadline = self.now + patience;
        self.note(|| format!("host {index} asks {id:?} {request:?}"));
        if let Some(asked) = self.note_asked(index, &request, deadline) {
            self.hosts[index].asked.insert(id, asked);
        }
        if self.plan.exclusive && self.hosts[index].is_client() {
            self.note_change_asked(index, &request);
            self.hosts[index].changes_asked.insert(id, request.clone());
        }
        self.feed(index, Input::Request { id, request, deadline });
        id
    }

    fn answered(&mut self, index: usize, id: RequestId, outcome: Outcome) {
        let Some(expectation) = self.hosts[index].waiting.remove(&id) else {
            self.violations.push(Violation::new("one answer a request", format!("host {index} answered {id:?} again")));
            return;
        };
        if let Some(asked) = self.hosts[index].asked.remove(&id) {
            self.check_sharing(index, &asked, &outcome);
        }
        if let Some(request) = self.hosts[index].changes_asked.remove(&id) {
            self.check_makers(index, &request, &outcome);
        }
        match (&expectation, &outcome) {
            (Expectation::Collected, _) => {
                self.hosts[index].collected.insert(id, outcome);
            }
            (Expectation::Level { record, level: Level::Safe, station, session }, Ok(Answer::Reached)) => {
                let same = self.hosts[index].parent_session == Some(*session);
                let station = if same { *station } else { usize::MAX };
                let before = self.history.report_safe(index, *record, self.now, station);
                self.check_safe_is_kept(index, *record, before);
            }
            _ => self.learned(index, &expectation, &outcome),
        }
    }
}
