//! Waits for chunks, driven: [`wayfs_transfer::fetches`] decides who waits for which look, and tasks of the runtime look.

use super::inflow::{Inflow, Spoilt};
use super::search::{Told, failure_of};
use super::wait::Wait;
use super::want::{FetchError, Fetched, Want};
use crate::clock;
use crate::volume::Volume;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;
use wayfs_proto::PeerId;
use wayfs_transfer::fetches::{Input, LookId, Output, Until, WaitId};
use wayfs_types::Digest;

/// Chunks under way. A leaf in the order of locks.
#[derive(Default)]
pub(crate) struct Fetches {
    state: Mutex<State>,
    spoilt: Mutex<Spoilt>,
}

#[derive(Default)]
struct State {
    fetches: wayfs_transfer::Fetches<PeerId>,
    /// Where each wait hears what becomes of it.
    waiting: HashMap<WaitId, UnboundedSender<Heard>>,
    looks: HashMap<LookId, AbortHandle>,
    /// What comes of looks, if it can go on as it comes.
    inflows: HashMap<LookId, Inflow>,
}

/// What a wait hears.
enum Heard {
    Moved,
    Comes(Inflow),
    Over(Fetched),
}

impl Fetches {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spoilt(&self) -> MutexGuard<'_, Spoilt> {
        self.spoilt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&self, wait: WaitId, heard: Heard) {
        if let Some(waiting) = self.waiting.get(&wait) {
            // Whoever has just given up hears nothing.
            let _ = waiting.send(heard);
        }
    }
}

/// A wait that is under way; given up when it is dropped.
struct Waiting<'a> {
    volume: &'a Arc<Volume>,
    name: WaitId,
    hears: UnboundedReceiver<Heard>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.volume.fetches.lock();
        state.waiting.remove(&self.name);
        self.volume.drive_fetches(state, Input::GaveUp(self.name), None);
    }
}

/// A look that is under way. Its waits hear of its end, however that comes.
struct Looking {
    volume: Arc<Volume>,
    look: LookId,
    result: Fetched,
}

impl Drop for Looking {
    fn drop(&mut self) {
        let error = self.result.as_ref().err();
        let result = self.result.as_ref().copied().map_err(failure_of);
        let mut state = self.volume.fetches.lock();
        state.looks.remove(&self.look);
        state.inflows.remove(&self.look);
        self.volume.drive_fetches(state, Input::Ended(self.look, result), error);
    }
}

impl Volume {
    /// Chunks that are looked for.
    #[cfg(test)]
    pub(crate) fn fetches_under_way(&self) -> usize {
        self.fetches.lock().fetches.len()
    }

    /// Gets one chunk; `asker` is the session on whose behalf, and is not asked itself. Ends when nothing came for `patience`.
    pub(crate) async fn fetch_chunk(
        self: &Arc<Self>,
        want: Want,
        asker: Option<PeerId>,
        patience: Duration,
    ) -> Fetched {
        self.fetch_chunk_in(want, asker, &mut Wait::new(patience, &|| ())).await
    }

    /// The same for somebody who is to know that it moves.
    pub(crate) async fn fetch_chunk_in(
        self: &Arc<Self>,
        want: Want,
        asker: Option<PeerId>,
        wait: &mut Wait<'_>,
    ) -> Fetched {
        self.fetch_until(Until::Here, want, asker, wait).await.map(|_| ())
    }

    /// The same, perhaps only until it comes: then what comes is answered.
    pub(crate) async fn fetch_until(
        self: &Arc<Self>,
        until: Until,
        want: Want,
        asker: Option<PeerId>,
        wait: &mut Wait<'_>,
    ) -> Result<Option<Inflow>, FetchError> {
        if self.contents.is_at_hand(&want.digest) {
            return Ok(None);
        }
        let patience = wait.patience;
        let waiting = self.begin_wait(|wait| Input::Want { wait, want, asker, until, patience });
        waiting.end(wait).await
    }

    /// Waits for a chunk that is on its way here, whatever becomes of it.
    pub(crate) async fn fetch_under_way(self: &Arc<Self>, digest: &Digest, wait: &mut Wait<'_>) {
        let (digest, patience) = (*digest, wait.patience);
        let waiting = self.begin_wait(|wait| Input::Join { wait, digest, patience });
        // Whether it came is seen when it is read.
        let _ = waiting.end(wait).await;
    }

    fn begin_wait(self: &Arc<Self>, input: impl FnOnce(WaitId) -> Input<PeerId>) -> Waiting<'_> {
        let (tells, hears) = mpsc::unbounded_channel();
        let mut state = self.fetches.lock();
        let name = state.fetches.name_wait();
        state.waiting.insert(name, tells);
        self.drive_fetches(state, input(name), None);
        Waiting { volume: self, name, hears }
    }

    /// Takes what happened, and what a look failed of.
    fn drive_fetches(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        input: Input<PeerId>,
        error: Option<&FetchError>,
    ) {
        state.fetches.handle(clock::awake(), input);
        while let Some(output) = state.fetches.poll_output() {
            match output {
                Output::Look { look, want, asker, patience } => {
                    let task = self.settings.runtime.spawn(look_for(Arc::clone(self), look, (want, asker), patience));
                    state.looks.insert(look, task.abort_handle());
                }
                Output::CallOff(look) => {
                    if let Some(task) = state.looks.remove(&look) {
                        task.abort();
                    }
                }
                Output::Moved(wait) => state.tell(wait, Heard::Moved),
                Output::Comes(wait, look) => {
                    let inflow = state.inflows.get(&look).expect("what comes was put in before it was told");
                    state.tell(wait, Heard::Comes(inflow.clone()));
                }
                Output::Over(wait, result) => {
                    let result = result.map_err(|failure| FetchError::of(failure, error));
                    state.tell(wait, Heard::Over(result));
                }
            }
        }
    }

    fn note_asks(self: &Arc<Self>, look: LookId, peer: PeerId) {
        let mut state = self.fetches.lock();
        state.inflows.remove(&look);
        self.drive_fetches(state, Input::Asks(look, peer), None);
    }

    fn note_comes(self: &Arc<Self>, look: LookId, inflow: Inflow) {
        let mut state = self.fetches.lock();
        state.inflows.insert(look, inflow);
        self.drive_fetches(state, Input::Comes(look), None);
    }

    fn note_moved(self: &Arc<Self>, look: LookId) {
        self.drive_fetches(self.fetches.lock(), Input::Moved(look), None);
    }
}

impl Waiting<'_> {
    async fn end(mut self, wait: &mut Wait<'_>) -> Result<Option<Inflow>, FetchError> {
        loop {
            match tokio::time::timeout(wait.left(), self.hears.recv()).await {
                Ok(Some(Heard::Moved)) => wait.moved(),
                Ok(Some(Heard::Comes(inflow))) => return Ok(Some(inflow)),
                Ok(Some(Heard::Over(result))) => return result.map(|()| None),
                Ok(None) => return Err(FetchError::Unreachable),
                Err(_) if wait.left().is_zero() => return Err(FetchError::TimedOut),
                Err(_) => {}
            }
        }
    }
}

/// Looks for a chunk for all who wait for it.
async fn look_for(volume: Arc<Volume>, look: LookId, (want, asker): (Want, Option<PeerId>), patience: Duration) {
    let started = Instant::now();
    let mut looking = Looking { volume: Arc::clone(&volume), look, result: Err(FetchError::Unreachable) };
    if volume.contents.is_at_hand(&want.digest) {
        looking.result = Ok(());
    } else {
        // Every one who waits may have given up.
        let tell = || volume.note_moved(look);
        let asks = |peer| volume.note_asks(look, peer);
        let comes = |inflow| volume.note_comes(look, inflow);
        let (mut wait, told) = (Wait::new(patience, &tell), Told::new(&asks, &comes));
        looking.result = volume.find((want, asker), volume.scope(), &mut wait, &told).await;
    }
    volume.metrics.waited(volume.role(), started.elapsed());
    if looking.result.is_err() {
        volume.metrics.fetches_failed.add(1);
    }
}
