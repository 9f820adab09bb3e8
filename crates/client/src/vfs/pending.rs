//! Requests that are answered later, so that a signal can end the wait.

use crate::engine::Engine;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wayfs_fuse::{Errno, Reply, Unique};
use wayfs_types::request::RequestId;

/// A reply that two may want to answer: who does the work, and a signal.
pub struct ReplySlot(Mutex<Option<Reply>>);

impl ReplySlot {
    /// Puts a reply in.
    pub fn new(reply: Reply) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(reply))))
    }

    /// Takes the reply, if nobody answered yet.
    pub fn take(&self) -> Option<Reply> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a waiting request waits for.
enum Waiting {
    /// The engine, which is told to give up.
    Engine(RequestId),
    /// A worker, which goes on without a caller.
    Worker(Arc<ReplySlot>),
}

/// All waiting requests. Bounded by what the kernel has in flight.
#[derive(Default)]
pub struct Pending {
    waiting: Mutex<HashMap<Unique, Waiting>>,
}

impl Pending {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Unique, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request waits for the engine.
    pub fn wait_for_engine(&self, unique: Unique, id: RequestId) {
        self.waiting().insert(unique, Waiting::Engine(id));
    }

    /// A request waits for a worker.
    pub fn wait_for_worker(&self, unique: Unique, slot: &Arc<ReplySlot>) {
        self.waiting().insert(unique, Waiting::Worker(Arc::clone(slot)));
    }

    /// It waits no longer.
    pub fn done(&self, unique: Unique) {
        self.waiting().remove(&unique);
    }

    /// A worker has done its part; the request may have gone on to wait for the engine.
    pub fn worker_done(&self, unique: Unique) {
        let mut waiting = self.waiting();
        if matches!(waiting.get(&unique), Some(Waiting::Worker(_))) {
            waiting.remove(&unique);
        }
    }

    /// Its caller got a signal.
    pub fn interrupt(&self, unique: Unique, engine: &dyn Engine) {
        let waiting = self.waiting().remove(&unique);
        match waiting {
            Some(Waiting::Engine(id)) => engine.cancel(id),
            Some(Waiting::Worker(slot)) => {
                if let Some(reply) = slot.take() {
                    let _ = reply.error(Errno::INTR);
                }
            }
            None => {}
        }
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.waiting().len()
    }
}
