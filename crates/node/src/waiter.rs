//! Who waits for an answer.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayfs_types::request::Outcome;

/// Called with the answer.
pub type Callback = Box<dyn FnOnce(Outcome) + Send>;

/// Where the answer of a request goes that could not be answered at once.
pub(crate) enum Waiter {
    /// To a function.
    Callback(Callback),
    /// To a thread that sleeps.
    Thread(Arc<Slot>),
}

impl Waiter {
    pub(crate) fn answer(self, outcome: Outcome) {
        match self {
            Self::Callback(callback) => callback(outcome),
            Self::Thread(slot) => slot.fill(outcome),
        }
    }
}

/// One answer, for one thread.
#[derive(Default)]
pub(crate) struct Slot {
    outcome: Mutex<Option<Outcome>>,
    filled: Condvar,
}

impl Slot {
    fn fill(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.filled.notify_one();
    }

    /// The answer, or `None` after `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> Option<Outcome> {
        let end = Instant::now() + patience;
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = outcome.take() {
                return Some(outcome);
            }
            let left = end.checked_duration_since(Instant::now())?;
            outcome = self.filled.wait_timeout(outcome, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
