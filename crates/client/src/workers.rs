//! Threads for what must wait: reads from afar, commits of large files, syncs.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A piece of work.
pub type Job = Box<dyn FnOnce() + Send>;

/// A thread without work ends after so long, but for the last one.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Threads that come with the work and go when there is none, with a bounded queue before them. One is always there.
pub struct Workers {
    shared: Arc<Shared>,
    name: String,
    threads_max: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    waiting_max: usize,
    idle_max: Duration,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that run.
    threads: usize,
    /// Those of them that wait for work.
    idle: usize,
    is_stopping: bool,
}

/// How much workers take on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Threads that run at once.
    pub threads_max: usize,
    /// Jobs that wait beyond those that run.
    pub waiting_max: usize,
}

/// The queue is full or the workers are stopping; the job was dropped unrun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too much work is waiting already")]
pub struct Refused;

impl Workers {
    /// Starts the first thread.
    ///
    /// # Errors
    /// When the system has no room for a thread.
    pub fn start(name: &str, limits: Limits) -> std::io::Result<Self> {
        Self::start_with(name, limits, IDLE_MAX)
    }

    fn start_with(name: &str, limits: Limits, idle_max: Duration) -> std::io::Result<Self> {
        let Limits { threads_max, waiting_max } = limits;
        let shared = Shared { queue: Mutex::default(), changed: Condvar::new(), waiting_max, idle_max };
        let workers = Self { shared: Arc::new(shared), name: name.to_owned(), threads_max, threads: Mutex::default() };
        workers.spawn(&mut workers.shared.queue())?;
        Ok(workers)
    }

    /// Queues a job.
    ///
    /// # Errors
    /// [`Refused`]; whatever the job owns is dropped, so that a reply in it answers by itself.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Refused> {
        let mut queue = self.shared.queue();
        if queue.is_stopping || queue.jobs.len() >= self.shared.waiting_max {
            return Err(Refused);
        }
        queue.jobs.push_back(Box::new(job));
        // One that was woken and has not taken its job yet counts as idle, and its job as waiting.
        if queue.jobs.len() > queue.idle && queue.threads < self.threads_max {
            match self.spawn(&mut queue) {
                Ok(()) => return Ok(()),
                // Those that run do it, one after the other.
                Err(error) => tracing::warn!(%error, name = self.name, "start a thread"),
            }
        }
        drop(queue);
        self.shared.changed.notify_one();
        Ok(())
    }

    fn spawn(&self, queue: &mut Queue) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(format!("{}-{}", self.name, queue.threads));
        let thread = thread.spawn(move || shared.run())?;
        queue.threads += 1;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, running) = std::mem::take(&mut *threads).into_iter().partition(JoinHandle::is_finished);
        *threads = running;
        threads.push(thread);
        drop(threads);
        join(ended);
        Ok(())
    }

    /// Lets what is queued finish and ends the threads.
    pub fn stop(&self) {
        self.shared.queue().is_stopping = true;
        self.shared.changed.notify_all();
        join(std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

/// Waits for the end of threads; one that ends them all does not wait for itself.
fn join(threads: Vec<JoinHandle<()>>) {
    let own = std::thread::current().id();
    for thread in threads.into_iter().filter(|thread| thread.thread().id() != own) {
        // What a job panicked with was caught.
        let _ = thread.join();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a worker panicked");
                }
                queue = self.queue();
                continue;
            }
            if queue.is_stopping {
                break;
            }
            queue.idle += 1;
            let (woken, is_over) = self.wait(queue);
            queue = woken;
            queue.idle -= 1;
            if is_over && queue.jobs.is_empty() && queue.threads > 1 {
                break;
            }
        }
        queue.threads -= 1;
    }

    /// Until there is work, or there was none for too long. The last thread waits for ever: nothing is woken for nothing.
    fn wait<'a>(&'a self, queue: MutexGuard<'a, Queue>) -> (MutexGuard<'a, Queue>, bool) {
        if queue.threads == 1 {
            return (self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner), false);
        }
        let (queue, waited) = self.changed.wait_timeout(queue, self.idle_max).unwrap_or_else(PoisonError::into_inner);
        (queue, waited.timed_out())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Waits for something that happens on other threads.
    fn eventually(holds: impl Fn() -> bool) {
        for _ in 0..500 {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not come about");
    }

    #[test]
    fn threads_come_with_the_work_and_go_without() {
        let workers =
            Workers::start_with("test", Limits { threads_max: 3, waiting_max: 10 }, Duration::from_millis(10)).unwrap();
        let threads = || workers.shared.queue().threads;
        assert_eq!(threads(), 1);
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (began, begun) = mpsc::channel();
        for _ in 0..5 {
            let (held, began) = (Arc::clone(&held), began.clone());
            workers
                .run(move || {
                    began.send(()).unwrap();
                    let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(5));
                })
                .unwrap();
        }
        for _ in 0..3 {
            begun.recv_timeout(Duration::from_secs(5)).expect("three at once");
        }
        assert_eq!(threads(), 3);
        (0..5).for_each(|_| hold.send(()).unwrap());
        eventually(|| threads() == 1);
        let (done, finished) = mpsc::channel();
        workers.run(move || done.send(()).unwrap()).unwrap();
        finished.recv_timeout(Duration::from_secs(5)).expect("the last one works on");
        // Another may have come for the job, if the last one was not back from the one before.
        eventually(|| threads() == 1);
    }

    #[test]
    fn a_job_that_panics_takes_no_thread_with_it() {
        let workers = Workers::start("test", Limits { threads_max: 1, waiting_max: 10 }).unwrap();
        workers.run(|| panic!("as a bug would")).unwrap();
        let (done, finished) = mpsc::channel();
        workers.run(move || done.send(()).unwrap()).unwrap();
        finished.recv_timeout(Duration::from_secs(5)).expect("the thread is there");
    }

    #[test]
    fn a_full_queue_refuses_and_stopping_finishes_what_was_taken() {
        let workers = Workers::start("test", Limits { threads_max: 1, waiting_max: 2 }).unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel();
        let (done, finished) = mpsc::channel();
        workers
            .run(move || {
                began.send(()).unwrap();
                let _ = held.recv_timeout(Duration::from_secs(5));
            })
            .unwrap();
        begun.recv_timeout(Duration::from_secs(5)).unwrap();
        for number in 0..2 {
            let done = done.clone();
            workers.run(move || done.send(number).unwrap()).unwrap();
        }
        assert_eq!(workers.run(|| {}), Err(Refused));
        hold.send(()).unwrap();
        workers.stop();
        assert_eq!(finished.try_iter().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(workers.run(|| {}), Err(Refused));
    }
}
