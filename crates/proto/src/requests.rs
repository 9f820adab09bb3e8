//! Requests of this replica's own user, and those of them that wait.

mod ends;
pub(crate) mod listed;
mod running;
pub(crate) mod seen;
mod serving;
pub(crate) mod waits;
pub(crate) mod watches;
mod watching;

use crate::requests::listed::Listed;
use crate::upstream::claimed::Made;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wayfs_types::request::{Outcome, Request, RequestId};
use wayfs_types::{FileId, Name, Time};
use wayfs_wire::{AskId, Verdict};

/// How long a request may wait for the first session after the replica was opened.
pub(crate) const FIRST_SESSION_MAX: Duration = Duration::from_secs(2);
/// Most entries in an answer.
const LIST_MAX: usize = 4096;

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Ask(AskId),
    /// The session with the parent.
    Session,
    /// The first session, for a moment after the replica was opened.
    FirstSession,
    Level,
    /// A lock, here or at the parent.
    Lock,
    /// What becomes of a question about a lock that its asker took back.
    LockEnd,
    /// A claim in an exclusive directory.
    Claim,
}

#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    request: Request,
    pub(crate) deadline: Time,
    on: On,
    /// When to stop waiting for a session and serve from the cache; the deadline at the latest.
    patience: Time,
    pub(crate) questions: u8,
    /// Claims made for it.
    pub(crate) claims: u8,
    /// Served from the cache, verified or not.
    pub(crate) offline: bool,
    /// The parent's answer to a list.
    listed: Option<Listed>,
    /// The parent said last that there is no such thing.
    is_absent: bool,
    /// How often its claims were begun anew.
    pub(crate) rounds: u8,
    /// A change that was made in an exclusive directory.
    pub(crate) made: Option<Made>,
}

impl Waiting {
    /// Whether the parent answered the question that was put for it.
    pub(crate) const fn is_answered(&self) -> bool {
        self.listed.is_some()
    }
}

/// All requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: BTreeMap<RequestId, Waiting>,
    deadlines: BTreeSet<(Time, RequestId)>,
    by_ask: BTreeMap<AskId, Vec<RequestId>>,
    on_level: BTreeSet<RequestId>,
    ready: BTreeSet<RequestId>,
    /// Those that wait for a level may have reached it.
    levels_moved: bool,
    /// How often something was answered for which nobody vouched.
    unvouched: u64,
}

impl Requests {
    /// Those that wait for a level may have reached it.
    pub(crate) fn note_levels_moved(&mut self) {
        self.levels_moved = true;
    }

    fn take_levels_moved(&mut self) -> bool {
        std::mem::take(&mut self.levels_moved)
    }

    /// Something was answered for which nobody vouched.
    pub(crate) fn note_unvouched(&mut self) {
        self.unvouched += 1;
    }

    /// How often that happened.
    pub(crate) fn unvouched(&self) -> u64 {
        self.unvouched
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Whether a request waits.
    pub(crate) fn is_waiting(&self, id: RequestId) -> bool {
        self.waiting.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// What is asked by those that wait.
    pub(crate) fn waiting_requests(&mut self) -> impl Iterator<Item = &mut Request> {
        self.waiting.values_mut().map(|waiting| &mut waiting.request)
    }

    /// The parent answered a question.
    pub(crate) fn answered(&mut self, ask: AskId, verdict: Verdict, listed: Option<Listed>) {
        for id in self.by_ask.remove(&ask).unwrap_or_default() {
            if let Some(waiting) = self.waiting.get_mut(&id) {
                waiting.offline |= matches!(verdict, Verdict::Behind | Verdict::Unready);
                waiting.listed.clone_from(&listed);
                waiting.is_absent = verdict == Verdict::NotFound;
                self.ready.insert(id);
            }
        }
    }

    /// What the parent answered could not be kept: it is asked again.
    pub(crate) fn forget_answers(&mut self) {
        for id in &self.ready {
            if let Some(waiting) = self.waiting.get_mut(id) {
                waiting.listed = None;
            }
        }
    }

    /// The parent answered a question whose answer is no images.
    pub(crate) fn answered_plainly(&mut self, ask: AskId) {
        self.answered(ask, Verdict::Found, Some(Listed { ended: true, last: None }));
    }

    /// The parent cannot answer.
    pub(crate) fn refused(&mut self, ask: AskId) {
        self.answered(ask, Verdict::Unready, None);
    }

    /// The session with the parent changed: whoever waits for it, or for an answer of the last one, looks again.
    pub(crate) fn wake_parked(&mut self) {
        let parked =
            self.waiting.iter().filter(|(_, waiting)| !matches!(waiting.on, On::Level | On::Lock | On::LockEnd));
        self.ready.extend(parked.map(|(id, _)| *id));
    }

    /// Whoever waits for a lock asks again.
    pub(crate) fn wake_locks(&mut self) {
        let parked = self.waiting.iter().filter(|(_, waiting)| waiting.on == On::Lock);
        self.ready.extend(parked.map(|(id, _)| *id));
    }

    /// Those look again.
    pub(crate) fn wake(&mut self, ids: Vec<RequestId>) {
        self.ready.extend(ids);
    }

    /// Who waits for a lock.
    pub(crate) fn lock_waiters(&self) -> Vec<RequestId> {
        self.parked_on(On::Lock)
    }

    /// Who took a question about a lock back and waits for what becomes of it.
    pub(crate) fn hurried_locks(&self) -> Vec<RequestId> {
        self.parked_on(On::LockEnd)
    }

    fn parked_on(&self, on: On) -> Vec<RequestId> {
        self.waiting.iter().filter(|(_, waiting)| waiting.on == on).map(|(id, _)| *id).collect()
    }

    /// A waiter for a lock took its question back: it waits until then at most.
    pub(crate) fn hurry_lock(&mut self, id: RequestId, patience: Time) {
        if let Some(mut waiting) = self.take(id) {
            waiting.on = On::LockEnd;
            waiting.patience = patience;
            self.park(id, waiting);
        }
    }

    /// Whether anybody waits for a change to come somewhere.
    pub(crate) fn has_level_waiters(&self) -> bool {
        !self.on_level.is_empty()
    }

    fn park(&mut self, id: RequestId, waiting: Waiting) {
        self.deadlines.insert((waiting.deadline.min(waiting.patience), id));
        match waiting.on {
            On::Ask(ask) => self.by_ask.entry(ask).or_default().push(id),
            On::Level => {
                self.on_level.insert(id);
            }
            On::Session | On::FirstSession | On::Lock | On::LockEnd | On::Claim => {}
        }
        self.waiting.insert(id, waiting);
    }

    fn take(&mut self, id: RequestId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        self.deadlines.remove(&(waiting.deadline.min(waiting.patience), id));
        self.on_level.remove(&id);
        self.ready.remove(&id);
        if let On::Ask(ask) = waiting.on
            && let Some(ids) = self.by_ask.get_mut(&ask)
        {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_ask.remove(&ask);
            }
        }
        Some(waiting)
    }
}

/// How an attempt at a request went.
pub(crate) enum Attempt {
    Done(Outcome),
    Park(On),
}

/// Something that must be known before a request can be served.
pub(crate) enum Need {
    Inode(FileId),
    /// What a name stands for, and that file's inode.
    Name(FileId, Name),
    /// Whether anything is in a directory.
    Emptiness(FileId),
}
