//! One sync of the disk for all who wait.
//!
//! The first who comes leads: it syncs everything that was written before it began.
//! Those who come meanwhile wait, and most of them find on waking that the next
//! leader's sync covered them too. A plain lock would wake them one after the other,
//! with syncs for newcomers in between.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How far things are durable, and who is syncing.
#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    durable: u64,
    is_syncing: bool,
}

impl GroupSync {
    /// Everything up to `durable` is durable already.
    pub(crate) fn from(durable: u64) -> Self {
        Self { state: Mutex::new(State { durable, is_syncing: false }), done: Condvar::new() }
    }

    /// How far things are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// Returns when things are durable up to `target` at least.
    ///
    /// `sync` makes all that was written before its call durable and says how far that is; it runs
    /// on this thread or on another that waits here too, never twice at a time.
    ///
    /// # Errors
    /// What `sync` says; each waiter that is not served then tries for itself.
    pub(crate) fn wait<E>(&self, target: u64, sync: impl Fn() -> Result<u64, E>) -> Result<u64, E> {
        let mut state = self.lock();
        loop {
            if state.durable >= target {
                return Ok(state.durable);
            }
            if state.is_syncing {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_syncing = true;
            drop(state);
            let lead = Lead(self);
            let reached = sync()?;
            let mut state = self.lock();
            state.durable = state.durable.max(reached);
            let durable = state.durable;
            drop(state);
            drop(lead);
            // A sync that ends short of the target has nothing more to offer.
            return Ok(durable);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Both fields are set in single steps: a panic elsewhere leaves them right.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the lead also when the sync panics, so that nobody waits for a thread that is gone.
struct Lead<'g>(&'g GroupSync);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.lock().is_syncing = false;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[test]
    fn many_waiters_share_few_syncs() {
        let group = GroupSync::default();
        let (written, syncs) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        let reached = group.wait(mine, || {
                            let reached = written.load(Ordering::SeqCst);
                            syncs.fetch_add(1, Ordering::SeqCst);
                            std::thread::sleep(Duration::from_millis(1));
                            Ok::<u64, ()>(reached)
                        });
                        assert!(reached.unwrap() >= mine);
                    }
                });
            }
        });
        assert_eq!(group.durable(), 160);
        assert!(syncs.load(Ordering::SeqCst) < 160, "some share");
    }

    #[test]
    fn a_failure_reaches_everyone_and_hangs_nobody() {
        let group = GroupSync::default();
        std::thread::scope(|scope| {
            let waiters: Vec<_> =
                (0..6).map(|_| scope.spawn(|| group.wait(1, || Err::<u64, &str>("broken")))).collect();
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), Err("broken"));
            }
        });
        assert_eq!(group.wait(1, || Ok::<u64, ()>(1)), Ok(1));
    }
}
