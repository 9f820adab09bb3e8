//! One run: set up, break things, heal, check.

use crate::coverage::Coverage;
use crate::host::{Expectation, Host, name};
use crate::plan::{Plan, Step};
use crate::planted::Bug;
use crate::stores::Stores;
use crate::tree_dump::TreeDump;
use crate::violation::Violation;
use crate::world::{Event, Notes, Verbosity, World};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::time::Duration;
use wayfs_proto::testing::ToyKey;
use wayfs_proto::{Config, Role, Sharing};
use wayfs_types::request::{Change, Request};
use wayfs_types::{Admitted, FileId, Kind, Name, NodeId, OriginId, VolumeId};

/// So long the home takes to ask all who are there, twice.
const DECIDED: Duration = Duration::from_secs(120);

/// How long clients that moved keep what nobody else has: longer than anything is away in a run.
const SEEN_KEPT: Duration = Duration::from_secs(150);

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What was run.
    pub plan: Plan,
    /// What happened by the plan's will, if it was written down: the step, and what it was.
    pub script: Vec<(Step, String)>,
    /// Digest of everything that happened, if a trace was kept.
    pub trace: u64,
    /// Events that happened.
    pub events: u64,
    /// Updates that clients made.
    pub updates: usize,
    /// Of these, reported safe.
    pub safe: usize,
    /// Branches that it came by.
    pub coverage: Coverage,
    /// Broken promises; empty if all is well.
    pub violations: Vec<Violation>,
}

/// Runs a seed and keeps a trace.
pub fn run(seed: u64, bug: Option<Bug>) -> Report {
    run_as(Plan::of_seed(seed), bug, Notes { is_traced: true, ..Notes::default() })
}

/// Runs a plan.
pub fn run_planned(plan: Plan, bug: Option<Bug>, verbosity: Verbosity) -> Report {
    run_as(plan, bug, verbosity.notes())
}

/// Runs a plan and writes down its script.
pub(crate) fn run_scripted(plan: Plan) -> Report {
    run_as(plan, None, Notes { is_scripted: true, ..Notes::default() })
}

fn run_as(plan: Plan, bug: Option<Bug>, notes: Notes) -> Report {
    let bug = bug.or(plan.bug);
    let random = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut world = World::new(plan, bug, random, notes);
    world.exercise_stores();
    world.set_up();
    let end = world.now + world.plan.faulty;
    world.run_until(end);
    if world.violations.is_empty() {
        world.heal();
        // Without its home a volume comes to no end.
        if !world.hosts[0].destroyed {
            world.converge();
        }
    }
    let safe = world.history.updates.keys().filter(|record| world.history.is_safe(**record)).count();
    Report {
        script: world.script,
        trace: world.trace,
        events: world.events,
        updates: world.history.updates.len(),
        safe,
        coverage: world.coverage,
        violations: world.violations,
        plan: world.plan,
    }
}

impl World {
    fn set_up(&mut self) {
        self.place();
        for index in 1..self.hosts.len() {
            self.start(index);
            self.sweep_and_plan(index);
            self.plan_to_speak(index);
            if self.hosts[index].is_client() {
                let first = self.millis(1..=3000);
                self.after(first, Event::Work { host: index });
            }
        }
        self.plan_to_speak(0);
        self.after(Duration::from_secs(1), Event::Fault);
    }

    /// In a part of the seeds the stores that ship are under each machine.
    fn put_stores_under(&mut self, index: usize) {
        if let Some(plan) = self.plan.stores {
            let stores = Stores::new(plan, self.plan.seed ^ (index as u64 + 1) << 40);
            self.hosts[index].disk.0.borrow_mut().put_stores_under(stores);
        }
    }

    /// The machines, of which the home runs.
    pub(crate) fn place(&mut self) {
        let (stations, clients) = (self.plan.stations, self.plan.clients);
        self.hosts.push(Host::new(config(&self.plan, Role::Home, OriginId::GENESIS, 0), vec![], 0, 1));
        let home_origin = OriginId::new(1).expect("in range");
        self.hosts[0].config.origin = home_origin;
        self.hosts[0].origins = vec![home_origin];
        self.put_stores_under(0);
        self.start(0);
        self.make_exclusive();
        self.make_counter();
        self.make_open_files();
        for number in 0..stations + clients {
            let index = number + 1;
            let (role, admitted) =
                if number < stations { (Role::Station, Admitted::Station) } else { (Role::Client, Admitted::Client) };
            let origin = self.admit(index, admitted);
            let parents = if role == Role::Station { vec![0] } else { (0..=stations).collect() };
            let skew = self.random.random_range(-5_000_000_000..5_000_000_000);
            let uploads = self.plan.limits.uploads;
            let mut host = Host::new(config(&self.plan, role, origin, index), parents, skew, uploads);
            host.open = if role == Role::Client { self.open_host() } else { None };
            host.policy = (role == Role::Station).then(|| self.plan.policies[number]);
            for parent in host.parents.clone() {
                let link = self.new_link(role, parent);
                self.links.insert((index, parent), link);
            }
            self.hosts.push(host);
            self.put_stores_under(index);
            if role == Role::Client {
                self.hosts[index].pinned = self.drawn_pin(index, 0.3);
            }
        }
    }

    fn admit(&mut self, index: usize, admitted: Admitted) -> OriginId {
        let (now, wall) = (self.now, self.hosts[0].wall(self.now));
        let home = self.hosts[0].replica.as_mut().expect("the home runs during set-up");
        let origin = home
            .grant_origin(now, wall, node(index), admitted, &format!("user{index}@host{index}"))
            .expect("a fresh home grants");
        assert!(self.hosts[0].disk.0.borrow_mut().sync_all(), "nothing fails during set-up");
        let ticket = self.hosts[0].disk.0.borrow().sync_point().ticket;
        self.feed(0, wayfs_proto::Input::Stored { ticket });
        origin
    }

    fn heal(&mut self) {
        self.healed = true;
        for link in self.links.values_mut() {
            link.heal();
        }
        for host in &self.hosts {
            host.disk.0.borrow_mut().heal();
            host.heal_open_files();
        }
        // Sleepers wake by themselves: what happens to them waits for that time already.
        let awake = self.hosts.iter().map(|host| host.asleep_until).max().unwrap_or(self.now);
        self.run_until(awake);
        for index in 0..self.hosts.len() {
            self.start(index);
        }
        self.leave_all_to_machines();
        self.lift_quotas();
        self.healed_at = Some(self.now);
        self.note(|| "healed".to_string());
    }

    pub(crate) fn running(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|index| !self.hosts[*index].destroyed).collect()
    }

    /// Waits until nothing is under way, then checks everything.
    fn converge(&mut self) {
        if !self.becomes(Self::is_quiet) {
            return;
        }
        self.check_sent_ahead();
        self.scrub_all();
        self.check_everything();
        if self.violations.is_empty() {
            self.check_visibility();
        }
        if self.violations.is_empty() {
            self.check_counts();
        }
    }

    /// Disks that lost something are read, and the home decides what became of it.
    fn scrub_all(&mut self) {
        if !self.hosts.iter().any(|host| host.is_harmed) {
            return;
        }
        for index in self.running() {
            self.scrub(index);
        }
        let decided = self.now + DECIDED;
        self.run_until(decided);
    }

    pub(crate) fn check_everything(&mut self) {
        // A moment for what the last records set in motion: downward images, callbacks. What was seen at a server whose disk is
        // gone is forgotten in its time. So is what a station showed of one copy of a store before it parted from that, and
        // which has another name since (seed 12000177). Of two copies one takes another number: whoever has contents on record
        // by the former is waited for before others are asked.
        let is_waiting = self.has_lost_server() || self.has_copy();
        let patience = if is_waiting { SEEN_KEPT + Duration::from_secs(20) } else { Duration::ZERO };
        let settle = self.now + Duration::from_secs(5) + patience;
        self.run_until(settle);
        let home = match self.dump_home() {
            Ok(dump) => dump,
            Err(line) => return self.violations.push(Violation::new("the home can be listed", line)),
        };
        self.check_tree(0, &home);
        self.check_fences(0, &home);
        for index in 0..self.hosts.len() {
            self.check_usage(index);
            self.check_kept_rows(index);
        }
        self.check_nothing_safe_lost(&home);
        self.check_holders(&home);
        self.check_readable(&home);
        let mut home = match self.home_after_reading(home) {
            Ok(dump) => dump,
            Err(line) => return self.violations.push(Violation::new("the home can be listed", line)),
        };
        for index in self.running().into_iter().skip(1) {
            match self.dump_beside(index, &mut home) {
                Ok(dump) => {
                    self.check_fences(index, &dump);
                    self.check_same_tree(index, &home, &dump);
                }
                Err(line) => self.violations.push(Violation::new("a connected replica can be listed", line)),
            }
        }
        self.check_open_files_agree();
        self.check_order();
        self.check_all_is_safe();
        self.check_parents();
        self.check_locks_agree();
        self.check_declared();
        self.check_nothing_met();
    }

    /// What the home shows after all was read everywhere: bytes that it had declared lost may have turned up with that, and it shows
    /// them again (seed 9100283).
    fn home_after_reading(&mut self, before: TreeDump) -> Result<TreeDump, String> {
        if self.history.declared.is_empty() {
            return Ok(before);
        }
        let settle = self.now + Duration::from_secs(5);
        self.run_until(settle);
        self.dump_home()
    }

    /// What a host shows. If the home declared something lost since it was listed itself, both are listed anew (seed 9811096).
    fn dump_beside(&mut self, index: usize, home: &mut TreeDump) -> Result<TreeDump, String> {
        let dump = self.dump(index)?;
        if self.history.declared.len() == self.declared_at_listing {
            return Ok(dump);
        }
        let settle = self.now + Duration::from_secs(5);
        self.run_until(settle);
        *home = self.dump_home()?;
        self.dump(index)
    }

    /// What the home shows, and how much it had declared lost by then.
    fn dump_home(&mut self) -> Result<TreeDump, String> {
        self.declared_at_listing = self.history.declared.len();
        self.dump(0)
    }

    /// Invariant 3: each client's records took effect at the home, all of them, once.
    fn check_order(&mut self) {
        for index in self.running() {
            let origin = self.hosts[index].config.origin;
            let Some(last) = self.hosts[index].last_record.filter(|record| record.origin() == origin) else { continue };
            let home = self.hosts[0].replica.as_ref().expect("healed");
            let applied = home
                .origins()
                .ok()
                .and_then(|all| all.into_iter().find(|(id, _)| *id == origin))
                .map(|(_, o)| o.applied);
            if applied.is_none_or(|applied| applied < last.sequence()) {
                let line = format!("host {index} wrote {last}, the home applied up to {applied:?}");
                self.violations.push(Violation::new("each client's records take effect in order, once", line));
            }
        }
    }

    /// Invariant 7: an update is visible everywhere within two periods and a round trip.
    fn check_visibility(&mut self) {
        let Some(writer) = self.running().into_iter().find(|index| self.hosts[*index].is_client()) else { return };
        let name = Name::new("visible").unwrap_or_else(|_| name(0));
        let change =
            Change::Create { parent: FileId::ROOT, name: name.clone(), kind: Kind::File, mode: 0o600, uid: 0, gid: 0 };
        let ask = Request::Change { user: 0, change };
        // Where the home decides at once, it is asked up to four times, over a line that may lose much.
        let (made, patience) = if self.plan.exclusive {
            (self.ask_within(writer, ask, Expectation::Collected, DECIDED), self.now + DECIDED)
        } else {
            // Who changes alone nowhere waits for others first.
            let patience = self.now + self.hosts[writer].config.lease * 2;
            (self.ask(writer, ask, Expectation::Collected), patience)
        };
        while !self.hosts[writer].collected.contains_key(&made) && self.now < patience {
            let next = self.now + Duration::from_millis(1);
            self.run_until(next);
        }
        match self.hosts[writer].collected.remove(&made) {
            Some(Ok(_)) => {}
            other => return self.violate("a calm world makes a file", format!("host {writer} was answered {other:?}")),
        }
        let period = self.hosts[0].config.reconcile_period;
        // Disks take up to 8 ms a sync and every hop syncs; jitter adds a quarter of the delay. The writer's line may be a long one.
        let gathered = (self.hosts[0].config.sync_gather + self.hosts[0].config.reconcile_gather) * 3;
        // The first record of a life goes behind one that skips numbers: where one at a time is under way, that is a round trip more.
        let alone = if self.plan.limits.in_flight == 1 { self.plan.wide_delay * 3 } else { Duration::ZERO };
        let bound = gathered + period * 2 + self.plan.wide_delay * 4 + alone + Duration::from_millis(100);
        let end = self.now + bound;
        self.run_until(end);
        let stations: Vec<usize> = self.running().into_iter().filter(|index| !self.hosts[*index].is_client()).collect();
        for index in stations {
            let replica = self.hosts[index].replica.as_ref().expect("healed");
            if !matches!(replica.entry(FileId::ROOT, &name), Ok(Some(_))) {
                let line = format!("host {index} does not have it after {bound:?}");
                self.violations.push(Violation::new("an update is visible everywhere within the bound", line));
            }
        }
    }
}

fn node(index: usize) -> NodeId {
    NodeId::from_bytes([index as u8; 32])
}

fn config(plan: &Plan, role: Role, origin: OriginId, index: usize) -> Config {
    let label = format!("user{index}@host{index}");
    let mut config = Config::new(VolumeId::from_bytes([7; 16]), role, origin, label, node(index));
    config.seals = Some(Arc::new(ToyKey(config.node)));
    config.records_per_message = plan.limits.records_per_message;
    config.images_per_message = plan.limits.images_per_message;
    config.message_len_max = plan.limits.message_len;
    config.records_in_flight_max = plan.limits.in_flight;
    config.pushes_max = plan.limits.pushes;
    config.wants_max = plan.limits.wants;
    config.lock_delegations_max = plan.limits.lock_delegations;
    config.watches_max = plan.limits.watches;
    config.tombstones_kept = plan.limits.tombstones;
    config.catch_up_max = plan.limits.catch_up;
    config.sends_ahead = plan.limits.sends_ahead;
    config.lease = Duration::from_secs(plan.limits.lease);
    config.sync_gather = Duration::from_millis(plan.limits.gather);
    if plan.close_to_open {
        config.sharing = Sharing::CloseToOpen;
    }
    config.seen_kept = SEEN_KEPT;
    config.reconcile_period = Duration::from_millis(plan.limits.period);
    config
}
