//! Contents on their way to the parent: which goes next, how many at once, and what if one fails.
//!
//! The oldest goes first, but among the first [`WINDOW`] the smallest may pass, so that a film does not delay
//! a letter; nobody is passed more often than [`PASSED_MAX`] times. One place is kept for small contents: large
//! ones never fill all.
//!
//! ```text
//!                 a place is free            Pushed, Failed(SessionOver)
//!   Order ─▶ waiting ─────────▶ under way ─────────────────────────────▶ over
//!               │                ▲   │  │ Failed(ChunkLost)               ▲
//!               │       the time │   │  ▼                                 │
//!               │       has come │   │ being repaired ── the third Lacks ─┤ Gone
//!               │                │   │  │ Whole, Lacks, Unreadable        │
//!               │                │   ▼  ▼                                 │
//!               │               paused ◀─ Failed(Interrupted, Refused)    │
//!               └──────────────────┴───────── SessionEnded ───────────────┘
//! ```
//! What pauses keeps its place: whoever refuses one content, for lack of room or time, would refuse the next.

use crate::order::{Order, PushId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wayfs_types::Time;

/// How many of the oldest are looked at.
const WINDOW: usize = 32;
/// How often the oldest lets smaller ones pass.
const PASSED_MAX: u32 = 32;
/// A content above this many bytes is large.
const LARGE_LEN: u64 = 4 << 20;
/// Pause before a failed push is tried again; doubled up to the maximum.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often all who can be asked are asked for a chunk before the contents are given up here. The home asks on.
const LACKED_MAX: u32 = 3;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<P> {
    /// A content is to be at the parent. The same one again while it waits or is under way changes nothing.
    Order(Order<P>),
    /// A session ended: what waits for it is forgotten. What is under way in it is reported by its driver.
    SessionEnded(P),
    /// A push that was begun is done: all is durable at the parent.
    Pushed(PushId<P>),
    /// A push that was begun failed.
    Failed(PushId<P>, Failure),
    /// A repair that was asked for ended.
    Repaired(PushId<P>, Repaired),
    /// The time that [`Uploads::poll_timeout`] named has come.
    Tick,
    /// Nothing more is to be begun.
    Stop,
}

/// Why a push failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Its session is over.
    SessionOver,
    /// A question was interrupted, and the session goes on.
    Interrupted,
    /// A chunk that was to be sent is damaged or gone here.
    ChunkLost,
    /// The parent refuses it, or has no room, or this disk fails.
    Refused,
}

/// How the repair of a content ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repaired {
    /// All of it is here and sound.
    Whole,
    /// A chunk of it could be had from nobody.
    Lacks,
    /// The local chunks cannot be read.
    Unreadable,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output<P> {
    /// Push this: answered by [`Input::Pushed`] or [`Input::Failed`].
    Begin(Order<P>),
    /// Read all of this, and get what is damaged or gone from others: answered by [`Input::Repaired`].
    Repair(Order<P>),
    /// Nobody who can be asked has all of this: the engine is to be told.
    Gone(Order<P>),
}

/// The queue of pushes. Its length is bounded by the engine, which orders only what its own log holds.
#[derive(Debug)]
pub struct Uploads<P> {
    at_once_max: usize,
    waiting: VecDeque<Waiting<P>>,
    running: BTreeMap<PushId<P>, Running<P>>,
    outputs: VecDeque<Output<P>>,
    is_stopped: bool,
}

#[derive(Debug)]
struct Waiting<P> {
    order: Order<P>,
    /// How often a younger one went first.
    passed: u32,
}

/// A content that has a place.
#[derive(Debug)]
struct Running<P> {
    order: Order<P>,
    phase: Phase,
    /// How long the next pause is.
    pause: Duration,
    /// How often a chunk of it could be had from nobody.
    lacked: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    UnderWay,
    BeingRepaired,
    Paused { until: Time },
}

impl<P: Copy + Ord> Uploads<P> {
    /// A queue of which so many are under way at once, at least one. More fill the path better; fewer are sooner whole.
    pub fn new(at_once_max: usize) -> Self {
        Self {
            at_once_max: at_once_max.max(1),
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            outputs: VecDeque::new(),
            is_stopped: false,
        }
    }

    /// Takes what happened.
    pub fn handle(&mut self, now: Time, input: Input<P>) {
        match input {
            Input::Order(order) => self.add(order),
            Input::SessionEnded(peer) => self.forget(peer),
            Input::Pushed(id) => self.finish(id),
            Input::Failed(id, failure) => self.fail(now, id, failure),
            Input::Repaired(id, repaired) => self.repaired(now, id, repaired),
            Input::Tick => self.resume(now),
            Input::Stop => self.stop(),
        }
        self.begin();
    }

    /// What is to be done next; to be called until there is nothing.
    pub fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    /// When the next pause is over: [`Input::Tick`] is to come then.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.running.values().filter_map(Running::paused_until).min()
    }

    /// Contents that wait, are under way, or pause.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Whether nothing is to be pushed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The contents that have a place: under way, being repaired, or pausing.
    pub fn running(&self) -> impl Iterator<Item = &Order<P>> {
        self.running.values().map(|running| &running.order)
    }

    /// The contents that wait for a place.
    pub fn waiting(&self) -> impl Iterator<Item = &Order<P>> {
        self.waiting.iter().map(|waiting| &waiting.order)
    }

    fn add(&mut self, order: Order<P>) {
        let is_known = || {
            self.running.contains_key(&order.id())
                || self.waiting.iter().rev().take(WINDOW).any(|waiting| waiting.order.id() == order.id())
        };
        if !self.is_stopped && !is_known() {
            self.waiting.push_back(Waiting { order, passed: 0 });
        }
    }

    fn forget(&mut self, peer: P) {
        self.waiting.retain(|waiting| waiting.order.peer != peer);
        self.running.retain(|id, running| id.peer != peer || running.paused_until().is_none());
    }

    fn stop(&mut self) {
        self.is_stopped = true;
        self.waiting.clear();
        self.running.retain(|_, running| running.paused_until().is_none());
    }

    fn finish(&mut self, id: PushId<P>) {
        self.expect_in(id, Phase::UnderWay);
        self.running.remove(&id);
    }

    fn fail(&mut self, now: Time, id: PushId<P>, failure: Failure) {
        let running = self.expect_in(id, Phase::UnderWay);
        match failure {
            Failure::SessionOver => self.finish(id),
            Failure::Interrupted | Failure::Refused => self.pause(now, id),
            Failure::ChunkLost => {
                running.phase = Phase::BeingRepaired;
                let order = running.order.clone();
                self.outputs.push_back(Output::Repair(order));
            }
        }
    }

    fn repaired(&mut self, now: Time, id: PushId<P>, repaired: Repaired) {
        let running = self.expect_in(id, Phase::BeingRepaired);
        match repaired {
            Repaired::Whole => running.pause = RETRY_MIN,
            Repaired::Lacks => running.lacked += 1,
            Repaired::Unreadable => {}
        }
        if running.lacked < LACKED_MAX {
            self.pause(now, id);
        } else if let Some(running) = self.running.remove(&id) {
            self.outputs.push_back(Output::Gone(running.order));
        }
    }

    fn pause(&mut self, now: Time, id: PushId<P>) {
        let is_stopped = self.is_stopped;
        let running = self.running.get_mut(&id).expect("it was looked up before");
        running.phase = Phase::Paused { until: now + running.pause };
        running.pause = (running.pause * 2).min(RETRY_MAX);
        if is_stopped {
            self.running.remove(&id);
        }
    }

    fn resume(&mut self, now: Time) {
        for running in self.running.values_mut() {
            if running.paused_until().is_some_and(|until| until <= now) {
                running.phase = Phase::UnderWay;
                self.outputs.push_back(Output::Begin(running.order.clone()));
            }
        }
    }

    /// Fills the free places.
    fn begin(&mut self) {
        let large_max = (self.at_once_max - 1).max(1);
        while self.running.len() < self.at_once_max {
            let large = self.running.values().filter(|running| is_large(&running.order)).count();
            let candidates = if large < large_max { Candidates::All } else { Candidates::Small };
            let Some(index) = choose(&self.waiting, candidates) else { return };
            let Some(Waiting { order, .. }) = self.waiting.remove(index) else { return };
            for passed in self.waiting.iter_mut().take(index) {
                passed.passed += 1;
            }
            let begun = Running { order: order.clone(), phase: Phase::UnderWay, pause: RETRY_MIN, lacked: 0 };
            self.running.insert(order.id(), begun);
            self.outputs.push_back(Output::Begin(order));
        }
    }

    /// What a report is about. Each is the answer to one output, and nothing else ends that.
    fn expect_in(&mut self, id: PushId<P>, phase: Phase) -> &mut Running<P> {
        let running = self.running.get_mut(&id).expect("a report is about what was begun");
        assert!(running.phase == phase, "a report is the answer to what was asked for");
        running
    }
}

impl<P> Running<P> {
    fn paused_until(&self) -> Option<Time> {
        match self.phase {
            Phase::Paused { until } => Some(until),
            Phase::UnderWay | Phase::BeingRepaired => None,
        }
    }
}

fn is_large<P>(order: &Order<P>) -> bool {
    order.content.size() > LARGE_LEN
}

/// Which of those that wait may be next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Candidates {
    All,
    /// Large ones have all the places that they may have.
    Small,
}

/// Which of those that wait is next.
fn choose<P>(waiting: &VecDeque<Waiting<P>>, candidates: Candidates) -> Option<usize> {
    let may_be_next = |order| candidates == Candidates::All || !is_large(order);
    let mut candidates = waiting.iter().take(WINDOW).enumerate().filter(|(_, w)| may_be_next(&w.order));
    let oldest = candidates.next()?;
    if oldest.1.passed >= PASSED_MAX {
        return Some(oldest.0);
    }
    std::iter::once(oldest)
        .chain(candidates)
        .min_by_key(|(index, w)| (w.order.content.size(), *index))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
