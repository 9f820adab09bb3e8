//! Checkpoints in the background: full tables are sealed, written and merged, while commits go on.

use crate::index::UNMERGED_MIN;
use crate::tables::Tables;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wayfs_types::StorageError;

/// Pause after something that did not go for want of room or descriptors.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Pause after tables were opened anew, in which nobody's wish counts: what failed in the middle may do so again, if there is
/// less room than the disk says (a quota), and each time writes much.
const REOPENED_PAUSE: Duration = Duration::from_secs(2);

/// What is to be done, one step at a time.
pub struct Checkpoints {
    tables: Arc<Tables>,
    /// Whether tables may have to be merged: after an open and after each flush.
    is_merge_due: bool,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Something was done; there may be more.
    Done,
    /// Nothing is to be done.
    Idle,
    /// It did not go, and may later.
    Postponed,
    /// The tables were opened anew, after something failed in the middle.
    Reopened,
}

impl Checkpoints {
    pub(crate) fn new(tables: Arc<Tables>) -> Self {
        Self { tables, is_merge_due: true }
    }

    #[cfg(test)]
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Does what is most urgent: what writers wait for first.
    pub fn step(&mut self) -> Step {
        let tables = &self.tables;
        if tables.check().is_err() {
            return Step::Idle;
        }
        let (done, what) = if tables.has_leftovers() {
            // They may be the very room that the others lack.
            (tables.reopen(), Step::Reopened)
        } else if tables.index.is_full() {
            (tables.turn(), Step::Done)
        } else if tables.index.is_sealed() {
            self.is_merge_due = true;
            (tables.flush(), Step::Done)
        } else if self.is_merge_due {
            (self.merge(), Step::Done)
        } else {
            return Step::Idle;
        };
        match done {
            Ok(()) => what,
            Err(StorageError::Poisoned(_)) => Step::Idle,
            Err(error) => {
                tracing::debug!(%error, "a checkpoint was postponed");
                Step::Postponed
            }
        }
    }

    fn merge(&mut self) -> Result<(), StorageError> {
        let before = self.tables.index.unmerged();
        let merged = self.tables.merge();
        // One that failed in the middle is tried again after the next flush.
        self.is_merge_due = !self.tables.has_leftovers();
        merged?;
        let after = self.tables.index.unmerged();
        self.is_merge_due = after != before && after >= usize::from(UNMERGED_MIN);
        Ok(())
    }
}

/// The thread that does them. It ends with this.
pub(crate) struct Checkpointer {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signal {
    state: Mutex<State>,
    wake: Condvar,
    progress: Condvar,
}

#[derive(Default)]
struct State {
    is_wanted: bool,
    is_ending: bool,
}

impl Checkpointer {
    /// Starts the thread.
    pub(crate) fn start(tables: Arc<Tables>) -> std::io::Result<Self> {
        let signal = Arc::new(Signal::default());
        let thread = std::thread::Builder::new().name("store-checkpoint".to_owned());
        let thread = thread.spawn({
            let signal = Arc::clone(&signal);
            move || run(tables, &signal)
        })?;
        Ok(Self { signal, thread: Some(thread) })
    }

    /// None: whoever opened the store does the steps.
    pub(crate) fn by_hand() -> Self {
        Self { signal: Arc::default(), thread: None }
    }

    /// Says that there is something to do.
    pub(crate) fn wake(&self) {
        self.signal.state().is_wanted = true;
        self.signal.wake.notify_one();
    }

    /// Waits until a step is done, and at most so long. False: nobody does steps while somebody waits.
    pub(crate) fn wait_for_progress(&self, at_most: Duration) -> bool {
        if self.thread.is_none() {
            return false;
        }
        self.wake();
        let waited = self.signal.progress.wait_timeout(self.signal.state(), at_most);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        true
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.signal.state().is_ending = true;
        self.signal.wake.notify_one();
        // A panic there has poisoned the store, and was reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        // Two flags, set in single steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to do; false: it is over.
    fn next(&self, last: Step) -> bool {
        let mut state = self.state();
        if last == Step::Reopened {
            let waited = self.wake.wait_timeout_while(state, REOPENED_PAUSE, |state| !state.is_ending);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.is_wanted = true;
        }
        while !state.is_ending && !state.is_wanted && last != Step::Done {
            if last == Step::Postponed {
                state = self.wake.wait_timeout(state, RETRY_PAUSE).unwrap_or_else(PoisonError::into_inner).0;
                break;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_wanted = false;
        !state.is_ending
    }
}

fn run(tables: Arc<Tables>, signal: &Signal) {
    let _guard = EndsWell(Arc::clone(&tables));
    let mut checkpoints = Checkpoints::new(tables);
    let mut last = Step::Done;
    while signal.next(last) {
        last = checkpoints.step();
        signal.progress.notify_all();
    }
}

/// Whoever waits for a thread that panicked would wait for ever.
struct EndsWell(Arc<Tables>);

impl Drop for EndsWell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison.set("the thread that writes tables panicked".to_owned());
        }
    }
}
