//! Threads for what must wait: reads from afar, commits of large files, syncs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A piece of work.
pub type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads with a bounded queue before them.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    waiting_max: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_stopping: bool,
}

/// The queue is full or the workers are stopping; the job was dropped unrun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too much work is waiting already")]
pub struct Refused;

impl Workers {
    /// Starts the threads. `waiting_max` jobs may wait beyond those that run.
    ///
    /// # Errors
    /// When the system has no room for a thread.
    pub fn start(name: &str, threads: usize, waiting_max: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), waiting_max });
        let mut handles = Vec::with_capacity(threads);
        for number in 0..threads {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
            handles.push(thread.spawn(move || shared.run())?);
        }
        Ok(Self { shared, threads: Mutex::new(handles) })
    }

    /// Queues a job.
    ///
    /// # Errors
    /// [`Refused`]; whatever the job owns is dropped, so that a reply in it answers by itself.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Refused> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_stopping || queue.jobs.len() >= self.shared.waiting_max {
            return Err(Refused);
        }
        queue.jobs.push_back(Box::new(job));
        drop(queue);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Lets what is queued finish and ends the threads.
    pub fn stop(&self) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).is_stopping = true;
        self.shared.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let own = std::thread::current().id();
        for thread in threads {
            if thread.thread().id() != own && thread.join().is_err() {
                tracing::error!("a worker panicked");
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            } else if queue.is_stopping {
                return;
            } else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_full_queue_refuses_and_stopping_finishes_what_was_taken() {
        let workers = Workers::start("test", 1, 2).unwrap();
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
