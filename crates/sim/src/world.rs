//! The simulated world: a queue of events and the hosts they happen to.

mod asking;
pub(crate) mod chosen;
mod event;
mod happen;
mod outputs;
mod roaming;
mod sessions;
mod transfer;

pub(crate) use event::{Event, KernelEvent};
pub(crate) use transfer::{Due, Transfer};

use crate::coverage::{Branch, Coverage};
use crate::fences::Fences;
use crate::history::{History, Loss};
use crate::host::Host;
use crate::makers::Makers;
use crate::network::{Link, Session};
use crate::openfiles::open_host::OpenFiles;
use crate::plan::{Plan, Step};
use crate::planted::Bug;
use crate::shared_changes::Sharing;
use crate::tally::Counter;
use crate::violation::Violation;
use event::Scheduled;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;
use wayfs_proto::{AHEAD_MAX, Input, PeerId, Replica, Role};
use wayfs_types::{Digest, Life, RecordId, Time};

/// How much of a run a reader is told while it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing, and no trace is kept.
    Quiet,
    /// Every event, on standard error.
    Verbose,
}

impl Verbosity {
    pub(crate) fn notes(self) -> Notes {
        let is_verbose = self == Self::Verbose;
        Notes { is_verbose, is_traced: is_verbose, is_scripted: false }
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
    pub(crate) counter: Counter,
    /// Files that programs have open, in seeds that have them.
    pub(crate) open_files: OpenFiles,
    /// Members that were removed with a fence.
    pub(crate) fences: Fences,
    /// Hosts that are no members any more.
    pub(crate) removed: BTreeSet<usize>,
    /// Quotas were set at some time.
    pub(crate) has_quotas: bool,
    pub(crate) violations: Vec<Violation>,
    /// Pieces of every content that was made, by its root.
    pub(crate) trees: BTreeMap<Digest, Rc<[Digest]>>,
    /// Branches that this run came by.
    pub(crate) coverage: Coverage,
    /// The order of events is chosen: messages arrive one by one.
    pub(crate) is_chosen: bool,
    /// No more faults, no more work.
    pub(crate) healed: bool,
    /// Since when it has been healed, and everybody awake.
    pub(crate) healed_at: Option<Time>,
    /// How much the home had declared lost when its tree was listed for the comparison with others.
    pub(crate) declared_at_listing: usize,
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
            counter: Counter::default(),
            open_files: OpenFiles::default(),
            fences: Fences::default(),
            removed: BTreeSet::new(),
            has_quotas: false,
            violations: Vec::new(),
            trees: BTreeMap::new(),
            coverage: Coverage::new(),
            is_chosen: false,
            healed: false,
            healed_at: None,
            declared_at_listing: 0,
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

    pub(crate) fn millis(&mut self, among: RangeInclusive<u64>) -> Duration {
        Duration::from_micros(self.random.random_range(among.start() * 1000..=among.end() * 1000))
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
            self.look_at_stores();
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

    /// Opens the engine of a host on its disk.
    pub(crate) fn start(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.destroyed || host.replica.is_some() {
            return;
        }
        // A store that finds no room to open is opened again by whoever started its process.
        if host.disk.0.borrow().is_full() {
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
                host.propagator = host.open_policy(self.now);
                self.start_names(index);
            }
            Err(error) => self.violations.push(Violation::new("opens after a crash", format!("host {index}: {error}"))),
        }
        self.drain(index);
        if before != self.hosts[index].config.origin {
            // The crash took what it went on as, and with it all that it wrote under that: nothing of it had left.
            self.history.lose(index, before, Loss { last: 0, ahead: 0 });
        }
        self.forget_what_was_lost(index);
        if self.hosts[index].role() != Role::Home {
            self.begin_roaming(index);
        }
        self.open_table(index);
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
        self.history.lose(index, origin, Loss { last, ahead });
    }

    /// Gives an input to a host's engine and carries its outputs out.
    pub(crate) fn feed(&mut self, index: usize, input: Input) {
        let now = self.now;
        let host = &mut self.hosts[index];
        let wall = host.wall(now);
        // Whoever lost power hears nothing any more.
        let Some(replica) = host.replica.as_mut().filter(|_| !host.disk.0.borrow().is_off()) else { return };
        let before = replica.unvouched();
        replica.handle(now, wall, input);
        host.is_unvouched = replica.unvouched() > before;
        self.note_taken_names(index);
        self.drain(index);
    }

    /// A promise is broken.
    pub(crate) fn violate(&mut self, promise: &'static str, evidence: String) {
        self.violations.push(Violation::new(promise, evidence));
    }

    /// Notes a branch that was taken.
    pub(crate) fn cover(&mut self, branch: Branch) {
        self.coverage.insert(branch);
    }
}
