//! Workers carry out a plan.

use super::{Operation, Planned};
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Somebody who carries out operations, one at a time.
pub trait Worker: Send {
    /// Carries one out. `random` chooses the file and the place in it.
    ///
    /// # Errors
    /// Says what went wrong; the operation counts as failed.
    fn carry_out(&mut self, operation: Operation, random: u64) -> Result<(), String>;
}

/// An operation that was carried out. Times count from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// What.
    pub operation: Operation,
    /// When it was due.
    pub due: Duration,
    /// When a worker began with it.
    pub begun: Duration,
    /// When it ended.
    pub ended: Duration,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

impl Done {
    /// How long it took, without the wait for a worker.
    pub(crate) fn response(&self) -> Duration {
        self.ended.saturating_sub(self.begun)
    }
}

/// Carries out a plan, as many operations at a time as there are workers. What no worker could begin by `until` is left undone.
/// In the order of their ends, worker by worker.
pub fn carry_out(plan: &[Planned], workers: &mut [Box<dyn Worker>], until: Duration) -> Vec<Done> {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(plan.len())));
    let start = Instant::now();
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                let done = work(plan, &next, worker.as_mut(), start, until);
                all.lock().expect("no worker panics while it holds the lock").extend(done);
            });
        }
    });
    all.into_inner().expect("no worker panics while it holds the lock")
}

fn work(plan: &[Planned], next: &AtomicUsize, worker: &mut dyn Worker, start: Instant, until: Duration) -> Vec<Done> {
    // A sleep ends when it should, and not up to 50 us later.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut done = Vec::new();
    while let Some(planned) = plan.get(next.fetch_add(1, Ordering::Relaxed)) {
        let wait = planned.at.saturating_sub(start.elapsed());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        let begun = start.elapsed();
        if begun >= until {
            break;
        }
        let error = worker.carry_out(planned.operation, planned.random).err();
        let ended = start.elapsed();
        done.push(Done { operation: planned.operation, due: planned.at, begun, ended, error });
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{SFS, plan};

    /// Sleeps; fails at writes.
    struct Sleeper;

    impl Worker for Sleeper {
        fn carry_out(&mut self, operation: Operation, _random: u64) -> Result<(), String> {
            thread::sleep(Duration::from_millis(20));
            if operation == Operation::Write { Err("no".into()) } else { Ok(()) }
        }
    }

    #[test]
    fn no_more_run_at_a_time_than_there_are_workers_and_what_is_late_is_left_undone() {
        let until = Duration::from_millis(400);
        let planned = plan(1, SFS, 1000.0, until);
        let mut workers: Vec<Box<dyn Worker>> = vec![Box::new(Sleeper), Box::new(Sleeper)];
        let done = carry_out(&planned, &mut workers, until);
        // Two workers of 20 ms each carry out at most 40 in 400 ms, and the last of each may end later.
        assert!((2..=42).contains(&done.len()), "{}", done.len());
        assert!(done.iter().all(|done| done.begun >= done.due && done.begun < until));
        assert!(done.iter().all(|done| (done.operation == Operation::Write) == done.error.is_some()));
        for one in &done {
            let during = done.iter().filter(|other| other.begun <= one.begun && one.begun < other.ended);
            assert!(during.count() <= 2);
        }
    }
}
