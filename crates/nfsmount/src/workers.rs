//! Threads for requests that wait for the server: as many as wait, up to a bound; requests beyond it stand in a queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_fuse::{Errno, Reply, Request, Unique};

/// Threads at most.
const THREADS_MAX: usize = 64;
/// Work that may stand in the queue. The kernel has one request per program that waits, so this is a great many of them.
const QUEUE_MAX: usize = 16_384;
/// A thread without work ends after so long.
const IDLE: Duration = Duration::from_secs(5);
/// Requests keep little on the stack.
const STACK: usize = 512 * 1024;

/// Something to do.
pub(crate) enum Work {
    /// A request.
    Request(Request, Reply),
    /// Something for the mount itself.
    Job(Box<dyn FnOnce() + Send>),
}

type Run = Arc<dyn Fn(Request, Reply) + Send + Sync>;

/// The threads.
#[derive(Clone)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    threads: usize,
    idle: usize,
    is_stopping: bool,
    run: Option<Run>,
}

impl Workers {
    pub(crate) fn new() -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() }) }
    }

    /// What requests are given to.
    pub(crate) fn serve(&self, run: Run) {
        self.shared.lock().run = Some(run);
    }

    /// Takes work in. What there is no room for is dropped: its reply says that the input or output failed.
    pub(crate) fn push(&self, work: Work) {
        let mut state = self.shared.lock();
        if state.is_stopping || state.queue.len() >= QUEUE_MAX {
            drop(state);
            if let Work::Request(_, reply) = work {
                reply.error(Errno::AGAIN);
            }
            return;
        }
        state.queue.push_back(work);
        if state.idle < state.queue.len() && state.threads < THREADS_MAX {
            state.threads += 1;
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("nfs-request".into()).stack_size(STACK);
            if thread.spawn(move || shared.work()).is_err() {
                state.threads -= 1;
                tracing::warn!("no room for another thread");
            }
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Takes a request out of the queue whose caller got a signal.
    pub(crate) fn withdraw(&self, unique: Unique) {
        let mut state = self.shared.lock();
        let found = state.queue.iter().position(|work| matches!(work, Work::Request(it, _) if it.unique() == unique));
        let withdrawn = found.and_then(|place| state.queue.remove(place));
        drop(state);
        if let Some(Work::Request(_, reply)) = withdrawn {
            reply.error(Errno::INTR);
        }
    }

    /// Drops requests that are in the queue, carries out what else is, and waits a bounded time for the threads.
    pub(crate) fn stop(&self, within: Duration) {
        let mut state = self.shared.lock();
        state.is_stopping = true;
        let (dropped, kept): (VecDeque<_>, _) =
            std::mem::take(&mut state.queue).into_iter().partition(|work| matches!(work, Work::Request(..)));
        state.queue = kept;
        state.run = None;
        self.shared.changed.notify_all();
        let end = std::time::Instant::now() + within;
        while state.threads > 0 {
            let Some(left) = end.checked_duration_since(std::time::Instant::now()) else { break };
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        drop(dropped);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let _leave = Leave(self);
        let mut state = self.lock();
        loop {
            if let Some(work) = state.queue.pop_front() {
                let run = state.run.clone();
                drop(state);
                match (work, run) {
                    (Work::Request(request, reply), Some(run)) => run(request, reply),
                    (Work::Request(_, reply), None) => {
                        reply.error(Errno::NODEV);
                    }
                    (Work::Job(job), _) => job(),
                }
                state = self.lock();
                continue;
            }
            if state.is_stopping {
                return;
            }
            state.idle += 1;
            let (mut after, waited) = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            after.idle -= 1;
            if waited.timed_out() && after.queue.is_empty() {
                return;
            }
            state = after;
        }
    }
}

/// Counts a thread out, also when its work panicked.
struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        // `work` returns with the lock held by a guard that is dropped before this one, being declared later.
        self.0.lock().threads -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_run_side_by_side_and_a_panic_does_not_use_a_thread_up() {
        let workers = Workers::new();
        let (sender, receiver) = channel();
        for number in 0..100 {
            let sender = sender.clone();
            workers.push(Work::Job(Box::new(move || {
                assert!(number % 10 != 3, "planted");
                sender.send(number).unwrap();
            })));
        }
        let mut done: Vec<i32> = (0..90).map(|_| receiver.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
        done.sort_unstable();
        assert_eq!(done.len(), 90);
        workers.stop(Duration::from_secs(10));
        assert_eq!(workers.shared.lock().threads, 0);
    }
}
