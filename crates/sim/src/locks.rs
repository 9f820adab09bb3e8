//! Locks of programs, in seeds where all directories are exclusive: no two have one at a time, at whatever stations they are and
//! whatever breaks ([S-exclusive-mode], [S-lock-lost] of SEMANTICS.md).
//!
//! A program has a lock from when it is told so until it asks to let go of it. If another was given it by then, it is
//! to be told that its lock was lost.
//!
//! In some of the other seeds programs lock as well. There no two at one server have a lock at a time, as long as neither's session with
//! it ended; clients decide about files that they alone lock (`proto`'s `lock_delegations.rs`), and are asked to return them.

use crate::coverage::Branch;
use crate::host::Expectation;
use crate::lock_use::{Counting, Given, Held, LockUse, Wanted};
use crate::plan::Disaster;
use crate::world::World;
use rand::Rng;
use wayfs_proto::Role;
use wayfs_types::request::{LockFamily, LockKind, LockOwner, LockRange, LockRequest, Outcome, Request};
use wayfs_types::{FileId, FsError, OriginId};

/// For so many leases a lock may be on its way to whom it was given to, or be kept for clients of a station that was restarted.
const KEPT_LEASES: u32 = 3;

/// A lock that a server keeps for a child of which no program has it.
#[derive(Debug, PartialEq, Eq)]
struct OfNobody {
    server: usize,
    child: usize,
    lock: LockRequest,
}

impl World {
    /// Whether programs use locks, and what was told is kept: nobody's disk went back, and nobody is there twice.
    pub(crate) fn judges_locks(&self) -> bool {
        const FORGET: [Disaster; 5] =
            [Disaster::HomeGone, Disaster::HomeBack, Disaster::StationBack, Disaster::ClientBack, Disaster::Clone];
        let uses = self.plan.exclusive || self.plan.locks;
        uses && !FORGET.iter().any(|disaster| self.plan.disasters.contains(disaster))
    }

    /// The server that vouches for what a host is given now.
    fn given_to(&self, index: usize) -> Option<Given> {
        let host = &self.hosts[index];
        let is_trusted = host.replica.as_ref().is_some_and(|replica| replica.is_trusted());
        let (session, server) = (host.parent_session?, self.parent_of(index)?);
        is_trusted.then_some(Given { server, session })
    }

    /// Whether the session in which a host was given something goes on.
    pub(crate) fn is_kept(&self, index: usize, given: Option<Given>) -> bool {
        given.is_some() && self.given_to(index) == given
    }

    /// A client's program takes a lock, or lets go of the one that it has.
    pub(crate) fn use_lock(&mut self, index: usize) {
        if !self.judges_locks() || self.hosts[index].replica.is_none() || self.random.random_bool(0.5) {
            return;
        }
        match self.hosts[index].lock {
            LockUse::Idle => self.take_lock(index),
            LockUse::Has(Held { counting: Counting::Asked(_), .. }) => {}
            LockUse::Has(_) => self.leave_lock(index),
            LockUse::Opens(_) | LockUse::Takes(_) | LockUse::Leaves(_) => {}
        }
    }

    pub(crate) fn leave_lock(&mut self, index: usize) {
        let LockUse::Has(held) = self.hosts[index].lock else { return };
        self.hosts[index].lock = LockUse::Leaves(held);
        let Wanted { file, owner, range, .. } = held.wanted;
        let family = self.family();
        self.ask(index, Request::Unlock { file, family, owner, range }, Expectation::Nothing);
    }

    fn take_lock(&mut self, index: usize) {
        // The root is the one file that all know, and that is the home's as soon as the mode is known here.
        let file = FileId::ROOT;
        let replica = self.hosts[index].replica.as_ref();
        if self.plan.exclusive && !replica.is_some_and(|replica| replica.is_the_homes(file).unwrap_or(false)) {
            return;
        }
        let owner = LockOwner(self.hosts[index].next_request);
        let (range, kind) =
            if self.plan.exclusive { (LockRange::WHOLE, LockKind::Write) } else { self.part_of_a_file() };
        let wanted = Wanted { file, owner, range, kind, opened: None, at: self.now };
        if !self.open_counter(index, wanted) {
            self.ask_for_lock(index, wanted);
        }
    }

    fn family(&self) -> LockFamily {
        if self.plan.exclusive { LockFamily::Flock } else { LockFamily::Posix }
    }

    fn part_of_a_file(&mut self) -> (LockRange, LockKind) {
        if self.random.random_bool(0.5) {
            return (LockRange::WHOLE, LockKind::Write);
        }
        let start = self.random.random_range(0..4);
        let end = if self.random.random_bool(0.3) { u64::MAX } else { self.random.random_range(start..4) };
        let kind = if self.random.random_bool(0.3) { LockKind::Read } else { LockKind::Write };
        (LockRange { start, end }, kind)
    }

    pub(crate) fn ask_for_lock(&mut self, index: usize, wanted: Wanted) {
        let Wanted { file, owner, range, kind, .. } = wanted;
        self.hosts[index].lock = LockUse::Takes(Wanted { at: self.now, ..wanted });
        let (family, wait) = (self.family(), self.random.random_bool(0.7));
        let request = LockRequest { file, family, owner, pid: 1, range, kind, wait };
        self.ask(index, Request::Lock(request), Expectation::Nothing);
    }

    /// What became of it.
    pub(crate) fn check_locks(&mut self, index: usize, request: &Request, outcome: &Outcome) {
        match (self.hosts[index].lock, request) {
            (LockUse::Opens(wanted), _) => self.opening_answered(index, wanted, request, outcome),
            (LockUse::Takes(wanted), Request::Lock(_)) if outcome.is_ok() => self.lock_taken(index, wanted),
            (LockUse::Takes(_), Request::Lock(_)) => self.hosts[index].lock = LockUse::Idle,
            (LockUse::Leaves(held), Request::Unlock { .. }) => {
                self.hosts[index].lock = LockUse::Idle;
                self.lock_left(index, &held, outcome);
            }
            (LockUse::Has(held), _) => self.counting_answered(index, held, request, outcome),
            _ => {}
        }
    }

    fn lock_taken(&mut self, index: usize, wanted: Wanted) {
        let replica = self.hosts[index].replica.as_ref();
        let is_delegated = replica.is_some_and(|replica| replica.locks_delegated() > 0);
        if is_delegated {
            self.cover(Branch::LocksDelegated);
        }
        let given = self.given_to(index);
        // What it decided alone its server has not given to others, whoever knows by now that they parted.
        let decided = if is_delegated && wanted.at == self.now { self.server_of(index) } else { None };
        let server = decided.or(given.map(|of| of.server));
        for other in 0..self.hosts.len() {
            let LockUse::Has(mut held) = self.hosts[other].lock else { continue };
            if !held.wanted.excludes(&wanted) {
                continue;
            }
            if self.plan.exclusive {
                held.met = Some(index);
                self.hosts[other].lock = LockUse::Has(held);
            } else if held.given.map(|of| of.server) == server && self.is_kept(other, held.given) {
                let line =
                    format!("host {index} was given {:?} of {}, which host {other} has", wanted.range, wanted.file);
                self.violate("no two at one server have a lock", line);
            }
        }
        let held = Held { wanted, met: None, given, counting: Counting::Not };
        self.hosts[index].lock = LockUse::Has(held);
        self.count(index, held);
        self.cover(Branch::LockTaken);
    }

    /// A server keeps no lock for a client's program that has none: whoever wants it would wait for ever ([S-locks]). Nor does the home for
    /// those of a station that have none. One that was just given may be on its way, and for clients of a
    /// station that was restarted the home keeps some for a while.
    pub(crate) fn check_locks_agree(&mut self) {
        let first = self.locks_of_nobody();
        if first.is_empty() {
            return;
        }
        let later = self.now + KEPT_LEASES * self.hosts[0].config.lease;
        self.run_until(later);
        for wrong in self.locks_of_nobody().into_iter().filter(|wrong| first.contains(wrong)) {
            let OfNobody { server, child, lock } = wrong;
            self.violate(
                "a server keeps no lock that nobody has",
                format!("host {server} keeps {lock:?} for host {child}"),
            );
        }
    }

    fn locks_of_nobody(&self) -> Vec<OfNobody> {
        let mut wrong = Vec::new();
        for child in self.running() {
            let (Some(server), Some(origin)) = (self.parent_of(child), self.origin_of(child)) else { continue };
            let has = |kept: &LockRequest| {
                let is_it = |held: &LockRequest| (held.file, held.owner) == (kept.file, kept.owner);
                if self.hosts[child].role() == Role::Client {
                    return self.locks_at(child, origin).iter().any(is_it);
                }
                // A station keeps those of clients that left for a while.
                let mut origins = self.hosts.iter().flat_map(|host| &host.origins);
                origins.any(|client| !self.locks_at(child, *client).is_empty())
            };
            let kept = self.locks_at(server, origin).into_iter().filter(|kept| !has(kept));
            wrong.extend(kept.map(|lock| OfNobody { server, child, lock }));
        }
        wrong
    }

    /// Under which origin a host writes.
    fn origin_of(&self, index: usize) -> Option<OriginId> {
        self.hosts[index].replica.as_ref().map(|replica| replica.config().origin)
    }

    /// What programs of a replica have locked, for all that a host knows.
    fn locks_at(&self, at: usize, of: OriginId) -> Vec<LockRequest> {
        self.hosts[at].replica.as_ref().map(|at| at.locks_of(of)).unwrap_or_default()
    }

    /// The server whose session a host believes in.
    fn server_of(&self, index: usize) -> Option<usize> {
        self.sessions.get(&self.hosts[index].parent_session?).map(|session| session.parent)
    }

    fn lock_left(&mut self, index: usize, held: &Held, outcome: &Outcome) {
        if outcome == &Err(FsError::Io) {
            self.cover(Branch::LockLost);
        }
        let Some(other) = held.met.filter(|_| outcome.is_ok()) else {
            return if outcome.is_ok() {
                self.counted(index, held)
            };
        };
        let line = format!("host {index} let go of its lock on {}, which host {other} had by then", held.wanted.file);
        self.violate("a lock that another had meanwhile is told to be lost", line);
    }
}
