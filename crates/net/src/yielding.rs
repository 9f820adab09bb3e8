//! Contents that nobody waits for leave the queue of the line to those for whom somebody waits.
//!
//! Frames go before bodies, but only from where the sender chooses: what it has sent already stands in the queue of the
//! bottleneck, and the next frame behind it. A window that is wide enough to find out whether the path has become faster
//! keeps 0.3 s of queue at 1 Mb/s, and on a modem line the smallest such window is 5 s. While only background bodies are
//! under way, nobody minds if a faster path is found a little later: then the window shrinks to what the path holds and a
//! quarter (see `delivery.rs`). As soon as somebody waits for a body, it is as wide as ever, so that his bytes get their
//! share beside the traffic of others.
//!
//! Only a connection that was told so does this ([`Connection::yield_in_background`](crate::Connection::yield_in_background)).

use crate::path_state::{Effort, PathState};
use crate::priority::Priority;
use std::sync::{Arc, Mutex, PoisonError};

/// Bodies under way from this side of a connection.
#[derive(Debug)]
pub(crate) struct Yielding {
    path: Arc<PathState>,
    /// Taken before the connection's own lock.
    counts: Mutex<Counts>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    enabled: bool,
    background: usize,
    foreground: usize,
}

/// A body under way, until dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    yielding: Arc<Yielding>,
    priority: Priority,
}

impl UnderWay {
    /// A body of some length; an empty one takes nobody's room and is not counted.
    pub(crate) fn begin(yielding: &Arc<Yielding>, priority: Priority, len: u64) -> Option<Self> {
        if len == 0 {
            return None;
        }
        yielding.change(|counts| *counts.of(priority) += 1);
        Some(Self { yielding: Arc::clone(yielding), priority })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.yielding.change(|counts| *counts.of(self.priority) -= 1);
    }
}

impl Counts {
    const fn of(&mut self, priority: Priority) -> &mut usize {
        match priority {
            Priority::Background => &mut self.background,
            Priority::Foreground => &mut self.foreground,
        }
    }

    const fn effort(self) -> Effort {
        if self.enabled && self.background > 0 && self.foreground == 0 { Effort::LessThanBest } else { Effort::Best }
    }
}

impl Yielding {
    /// Those of the connection that has this path.
    pub(crate) fn new(path: Arc<PathState>) -> Self {
        Self { path, counts: Mutex::default() }
    }

    pub(crate) fn enable(&self) {
        self.change(|counts| counts.enabled = true);
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        if counts.enabled {
            self.path.set_effort(counts.effort());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_background_bodies_alone_yield_and_only_where_asked_for() {
        let counts = |enabled, background, foreground| Counts { enabled, background, foreground };
        assert_eq!(counts(true, 1, 0).effort(), Effort::LessThanBest);
        assert_eq!(counts(true, 1, 1).effort(), Effort::Best);
        assert_eq!(counts(true, 0, 0).effort(), Effort::Best);
        assert_eq!(counts(false, 1, 0).effort(), Effort::Best);
    }
}
