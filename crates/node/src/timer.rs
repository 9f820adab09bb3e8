//! The thread that looks at the clock for the engine.
//!
//! It sleeps at most a second at a time: the sleeping clock stops while the machine is
//! suspended and the engine's does not.

use crate::clock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use wayfs_types::Time;

const NAP_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    deadline: Option<Time>,
    stop: bool,
}

/// When to wake, shared by the engine and its thread. A leaf in the order of locks.
#[derive(Default)]
pub(crate) struct Timer {
    state: Mutex<State>,
    changed: Condvar,
}

impl Timer {
    /// Wakes at `deadline` at the latest.
    pub(crate) fn arm(&self, deadline: Time) {
        let is_sooner = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let is_sooner = state.deadline.is_none_or(|armed| deadline < armed);
            if is_sooner {
                state.deadline = Some(deadline);
            }
            is_sooner
        };
        if is_sooner {
            self.changed.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.changed.notify_one();
    }

    /// Sleeps until the deadline; `false` when it is time to end.
    fn sleep(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.stop {
                return false;
            }
            let now = clock::now();
            let nap = match state.deadline {
                Some(deadline) if deadline <= now => {
                    state.deadline = None;
                    return true;
                }
                Some(deadline) => deadline.since(now).min(NAP_MAX),
                None => NAP_MAX,
            };
            state = self.changed.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Runs until [`Timer::stop`]; `tick` says whether to go on.
pub(crate) fn run(timer: &Arc<Timer>, mut tick: impl FnMut() -> bool) {
    while timer.sleep() {
        if !tick() {
            return;
        }
    }
}
