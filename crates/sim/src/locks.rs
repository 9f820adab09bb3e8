//! Locks of programs, in seeds where all directories are exclusive: no two have one at a time, at whatever stations they are and
//! whatever breaks ([S-exclusive-mode], [S-lock-lost] of SEMANTICS.md).
//!
//! A program has a lock from when it is told so until it asks to let go of it. If another was given it by then, it is
//! to be told that its lock was lost.

use crate::counter::Counting;
use crate::coverage::Branch;
use crate::host::Expectation;
use crate::plan::Disaster;
use crate::world::World;
use rand::Rng;
use wayfs_proto::PeerId;
use wayfs_types::request::{LockFamily, LockKind, LockOwner, LockRange, LockRequest, Outcome, Request};
use wayfs_types::{FileId, FsError};

/// What a client's program does with locks: one at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum LockUse {
    /// Nothing.
    #[default]
    Idle,
    /// It opens a file that it reads when it has one.
    Opens(Wanted),
    /// It asked for one.
    Takes(Wanted),
    /// It was told that it has it.
    Has(Held),
    /// It asked to let go of it.
    Leaves(Held),
}

/// A lock that a program asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) file: FileId,
    pub(crate) owner: LockOwner,
    /// The session in which it opened the file that it reads when it has the lock.
    pub(crate) opened: Option<PeerId>,
}

/// A lock that a program has, for all that it knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) wanted: Wanted,
    /// Who was given it meanwhile.
    pub(crate) met: Option<usize>,
    /// What it does under it.
    pub(crate) counting: Counting,
}

impl World {
    /// Whether what was told is kept: nobody's disk went back, and nobody is there twice.
    pub(crate) fn judges_locks(&self) -> bool {
        const FORGET: [Disaster; 5] =
            [Disaster::HomeGone, Disaster::HomeBack, Disaster::StationBack, Disaster::ClientBack, Disaster::Clone];
        self.plan.exclusive && !FORGET.iter().any(|disaster| self.plan.disasters.contains(disaster))
    }

    /// A client's program takes a lock, or lets go of the one that it has.
    pub(crate) fn use_lock(&mut self, index: usize) {
        if !self.judges_locks() || self.hosts[index].replica.is_none() || self.random.random_bool(0.5) {
            return;
        }
        match self.hosts[index].lock {
            LockUse::Idle => self.take_lock(index),
            LockUse::Has(Held { counting: Counting::Asked(_), .. }) => {}
            LockUse::Has(held) => {
                self.hosts[index].lock = LockUse::Leaves(held);
                let Wanted { file, owner, .. } = held.wanted;
                let (family, range) = (LockFamily::Flock, LockRange::WHOLE);
                self.ask(index, Request::Unlock { file, family, owner, range }, Expectation::Nothing);
            }
            LockUse::Opens(_) | LockUse::Takes(_) | LockUse::Leaves(_) => {}
        }
    }

    fn take_lock(&mut self, index: usize) {
        // The root is the one file that all know, and that is the home's as soon as the mode is known here.
        let file = FileId::ROOT;
        let replica = self.hosts[index].replica.as_ref();
        if !replica.is_some_and(|replica| replica.is_the_homes(file).unwrap_or(false)) {
            return;
        }
        let owner = LockOwner(self.hosts[index].next_request);
        let wanted = Wanted { file, owner, opened: None };
        if !self.open_counter(index, wanted) {
            self.ask_for_lock(index, wanted);
        }
    }

    pub(crate) fn ask_for_lock(&mut self, index: usize, wanted: Wanted) {
        let Wanted { file, owner, .. } = wanted;
        self.hosts[index].lock = LockUse::Takes(wanted);
        let (family, range, kind, wait) =
            (LockFamily::Flock, LockRange::WHOLE, LockKind::Write, self.random.random_bool(0.7));
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
        for other in 0..self.hosts.len() {
            if let LockUse::Has(held) = &mut self.hosts[other].lock
                && held.wanted.file == wanted.file
            {
                held.met = Some(index);
            }
        }
        let held = Held { wanted, met: None, counting: Counting::Not };
        self.hosts[index].lock = LockUse::Has(held);
        self.count(index, held);
        self.cover(Branch::LockTaken, true);
    }

    fn lock_left(&mut self, index: usize, held: &Held, outcome: &Outcome) {
        self.cover(Branch::LockLost, outcome == &Err(FsError::Io));
        let Some(other) = held.met.filter(|_| outcome.is_ok()) else {
            return if outcome.is_ok() {
                self.counted(index, held.counting)
            };
        };
        let line = format!("host {index} let go of its lock on {}, which host {other} had by then", held.wanted.file);
        self.violate("a lock that another had meanwhile is told to be lost", line);
    }
}
