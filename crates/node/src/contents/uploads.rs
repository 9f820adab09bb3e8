//! Contents on their way to the parent: which goes next, how many at once, and what if one fails.
//!
//! The oldest goes first, but among the first [`WINDOW`] the smallest may pass, so that a film does not delay
//! a letter; nobody is passed more often than [`PASSED_MAX`] times. One place is kept for small contents: large
//! ones never fill all.

use super::push::{self, PushError};
use super::repair::Repaired;
use crate::contents::ContentsError;
use crate::core::PushOrder;
use crate::volume::Volume;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::{debug, warn};
use wayfs_proto::{Input, PeerId};
use wayfs_types::RecordId;

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

struct Waiting {
    order: PushOrder,
    passed: u32,
}

struct State {
    waiting: VecDeque<Waiting>,
    running: BTreeSet<(PeerId, RecordId)>,
    running_large: usize,
    stop: bool,
}

/// The queue of pushes. A leaf in the order of locks. Its length is bounded by the engine, which
/// orders only what its own log holds.
pub(crate) struct Uploads {
    state: Mutex<State>,
    at_once_max: usize,
}

impl Uploads {
    pub(crate) fn new(at_once_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), running: BTreeSet::new(), running_large: 0, stop: false };
        Self { state: Mutex::new(state), at_once_max: at_once_max.max(1) }
    }

    pub(crate) fn add(&self, volume: &Weak<Volume>, runtime: &Handle, order: PushOrder) {
        let mut state = self.lock();
        let key = (order.peer, order.version);
        let is_known = state.running.contains(&key)
            || state.waiting.iter().rev().take(WINDOW).any(|w| (w.order.peer, w.order.version) == key);
        if state.stop || is_known {
            return;
        }
        state.waiting.push_back(Waiting { order, passed: 0 });
        self.start(&mut state, volume, runtime);
    }

    /// A session ended: the engine orders again in the next one.
    pub(crate) fn forget(&self, peer: PeerId) {
        self.lock().waiting.retain(|waiting| waiting.order.peer != peer);
    }

    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stop = true;
        state.waiting.clear();
    }

    /// Pushes waiting and under way.
    pub(crate) fn len(&self) -> usize {
        let state = self.lock();
        state.waiting.len() + state.running.len()
    }

    fn start(&self, state: &mut State, volume: &Weak<Volume>, runtime: &Handle) {
        while state.running.len() < self.at_once_max && !state.stop {
            let large_max = (self.at_once_max - 1).max(1);
            let Some(index) = choose(&state.waiting, state.running_large < large_max) else { return };
            let Some(waiting) = state.waiting.remove(index) else { return };
            for passed in state.waiting.iter_mut().take(index) {
                passed.passed += 1;
            }
            let order = waiting.order;
            state.running.insert((order.peer, order.version));
            state.running_large += usize::from(is_large(&order));
            runtime.spawn(run(Weak::clone(volume), runtime.clone(), order));
        }
    }

    fn finished(&self, volume: &Weak<Volume>, runtime: &Handle, order: &PushOrder) {
        let mut state = self.lock();
        state.running.remove(&(order.peer, order.version));
        state.running_large -= usize::from(is_large(order));
        self.start(&mut state, volume, runtime);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_large(order: &PushOrder) -> bool {
    order.content.size() > LARGE_LEN
}

/// Which of those that wait is next.
fn choose(waiting: &VecDeque<Waiting>, large_allowed: bool) -> Option<usize> {
    let mut candidates = waiting.iter().take(WINDOW).enumerate().filter(|(_, w)| large_allowed || !is_large(&w.order));
    let oldest = candidates.next()?;
    if oldest.1.passed >= PASSED_MAX {
        return Some(oldest.0);
    }
    std::iter::once(oldest)
        .chain(candidates)
        .min_by_key(|(index, w)| (w.order.content.size(), *index))
        .map(|(index, _)| index)
}

/// Pushes one content until it is there, its session is over, or the volume stops.
async fn run(volume: Weak<Volume>, runtime: Handle, order: PushOrder) {
    let (mut pause, mut lacked) = (RETRY_MIN, 0);
    loop {
        let Some(strong) = volume.upgrade() else { return };
        let Some(session) = strong.session(order.peer).filter(|session| session.broken.is_none()) else { break };
        let result = push::push(&strong, &session, &order).await;
        match result {
            Ok(()) => {
                strong.note_pushed(order.version);
                break;
            }
            Err(PushError::Session(error)) => {
                debug!(version = %order.version, %error, "push interrupted");
                if session.connection.close_reason().is_some() {
                    break;
                }
            }
            Err(PushError::Local(ContentsError::Missing(_) | ContentsError::Damaged(_))) => {
                match strong.repair(order.file, order.version, &order.content).await {
                    Repaired::Whole => pause = RETRY_MIN,
                    Repaired::Lacks(digest, error) => {
                        lacked += 1;
                        warn!(version = %order.version, %digest, %error, lacked, "a chunk is damaged or gone");
                    }
                    Repaired::Failed(error) => warn!(version = %order.version, %error, "contents cannot be read"),
                }
                if lacked >= LACKED_MAX {
                    strong.metrics.contents_gone.add(1);
                    let (file, version, content) = (order.file, order.version, order.content.clone());
                    strong.step(Input::ContentGone { file, version, content });
                    break;
                }
            }
            Err(error) => warn!(version = %order.version, %error, "push failed: it is tried again"),
        }
        drop((strong, session));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
    if let Some(volume) = volume.upgrade() {
        volume.uploads.finished(&std::sync::Arc::downgrade(&volume), &runtime, &order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::{Content, Digest, FileId};

    fn order(sequence: u64, size: u64) -> Waiting {
        let version = RecordId::try_from(sequence).unwrap();
        let content = Content::Tree { size, root: Digest::of(&sequence.to_le_bytes()), depth: 1, holes: 0 };
        Waiting { order: PushOrder { peer: PeerId(1), file: FileId::ROOT, version, content }, passed: 0 }
    }

    #[test]
    fn a_letter_passes_a_film_but_not_for_ever() {
        let mut waiting = VecDeque::from([order(1, 10 << 30), order(2, 5000)]);
        assert_eq!(choose(&waiting, true), Some(1));
        waiting[0].passed = PASSED_MAX;
        assert_eq!(choose(&waiting, true), Some(0));
    }

    #[test]
    fn large_ones_leave_a_place_for_small_ones() {
        let waiting = VecDeque::from([order(1, 10 << 30), order(2, 10 << 30)]);
        assert_eq!(choose(&waiting, false), None);
        assert_eq!(choose(&VecDeque::new(), true), None);
    }
}
