//! Calls of many threads over one socket.
//!
//! ```text
//!  threads ──submit──> queues ──wake──> thread `nfs-calls`: exchange, socket, timers ──> what was submitted with the call
//! ```
//! What is to be done with an answer runs on that thread, so it must be short and wait for nothing. Transfers (reads and writes of
//! file contents) leave as the window lets them, everything else at once.

mod driver;

use super::{Caller, LiveError, Options};
use crate::calls::Call;
use crate::rpc::Credentials;
use crate::{BlockSize, Notice, Statistics, WaitPolicy};
use driver::{Driver, Submission};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a call gave: its results, and how often it was sent.
pub type Outcome = Result<(Vec<u8>, u32), LiveError>;
/// What is done with it.
pub type Done = Box<dyn FnOnce(Outcome) + Send>;

/// How often a waiting thread looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Most calls that wait to leave. The callers bound what they have in flight long before.
const QUEUE_MAX: usize = 100_000;

/// Names a call until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// How a call takes its place among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Leaves at once.
    Control,
    /// Reads so many bytes of a file; leaves when the window has room.
    Read(u32),
    /// Writes so many bytes of a file; the same.
    Write(u32),
}

/// How blocks are chosen.
#[derive(Debug, Clone)]
pub struct Blocks {
    /// Of reads.
    pub read: BlockSize,
    /// Of writes.
    pub write: BlockSize,
}

/// A caller for many threads. Ends with its last owner: what is in flight then fails as interrupted.
#[derive(Debug)]
pub struct SharedCaller {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the threads and the driver both see. The lock is a leaf: nothing is called while it is held.
#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    wait_policy: WaitPolicy,
    queues: Mutex<Queues>,
    wake: OwnedFd,
    is_stopping: AtomicBool,
    next: AtomicU64,
    read_block: AtomicU32,
    write_block: AtomicU32,
    in_flight: AtomicUsize,
    /// Milliseconds after `began` at which the server answered last, and at which it was first owed an answer since.
    answered_at: AtomicU64,
    owed_since: AtomicU64,
    began: Instant,
    statistics: Mutex<Statistics>,
}

#[derive(Debug, Default)]
struct Queues {
    control: VecDeque<Submission>,
    transfers: VecDeque<Submission>,
    cancelled: Vec<Ticket>,
    notices: VecDeque<Notice>,
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It fails only when it was woken 2^64 - 1 times already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl SharedCaller {
    /// Takes over a caller that is connected.
    ///
    /// # Errors
    /// [`LiveError::Io`] if there is no room for a thread.
    pub fn start(caller: Caller, blocks: Blocks, options: &Options) -> Result<Self, LiveError> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| LiveError::io("make a descriptor")(error.into()))?;
        let shared = Arc::new(Shared {
            server: caller.server(),
            wait_policy: options.wait_policy,
            queues: Mutex::default(),
            wake,
            is_stopping: AtomicBool::new(false),
            next: AtomicU64::new(0),
            read_block: AtomicU32::new(blocks.read.size()),
            write_block: AtomicU32::new(blocks.write.size()),
            in_flight: AtomicUsize::new(0),
            answered_at: AtomicU64::new(0),
            owed_since: AtomicU64::new(0),
            began: Instant::now(),
            statistics: Mutex::default(),
        });
        let driver = Driver::new(caller, Arc::clone(&shared), blocks, options);
        let thread = std::thread::Builder::new()
            .name("nfs-calls".into())
            .spawn(move || driver.run())
            .map_err(LiveError::io("start a thread"))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Makes a call; `done` gets what it gives, once, on the driver's thread.
    pub fn submit(&self, call: Call, credentials: Arc<Credentials>, class: Class, done: Done) -> Ticket {
        let ticket = Ticket(self.shared.next.fetch_add(1, Ordering::Relaxed));
        let submission = Submission { ticket, call, credentials, class, done };
        let refused = {
            let mut queues = self.shared.queues();
            if self.shared.is_stopping.load(Ordering::SeqCst)
                || queues.control.len() + queues.transfers.len() >= QUEUE_MAX
            {
                Some(submission)
            } else {
                match class {
                    Class::Control => queues.control.push_back(submission),
                    Class::Read(_) | Class::Write(_) => queues.transfers.push_back(submission),
                }
                None
            }
        };
        match refused {
            Some(submission) => (submission.done)(Err(LiveError::Interrupted)),
            None => self.shared.wake(),
        }
        ticket
    }

    /// Nobody waits for these any more; what was to be done with them is dropped.
    pub fn cancel(&self, tickets: &[Ticket]) {
        self.shared.queues().cancelled.extend_from_slice(tickets);
        self.shared.wake();
    }

    /// Makes a call and waits for its results, until `is_over` says that the wait is to end. That is asked ten times a second.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn call(&self, call: Call, credentials: &Arc<Credentials>, is_over: &dyn Fn() -> bool) -> Outcome {
        let (sender, receiver) = sync_channel(1);
        let done = move |outcome| drop(sender.try_send(outcome));
        let ticket = self.submit(call, Arc::clone(credentials), Class::Control, Box::new(done));
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) if !is_over() => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.cancel(&[ticket]);
                    return Err(LiveError::Interrupted);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(LiveError::Interrupted),
            }
        }
    }

    /// Tells what lower layers told.
    pub fn notice(&self, notice: Notice) {
        let mut queues = self.shared.queues();
        // The last one counts; a flood of them is none.
        if queues.notices.len() < 16 {
            queues.notices.push_back(notice);
        } else if let Some(last) = queues.notices.back_mut() {
            *last = notice;
        }
        drop(queues);
        self.shared.wake();
    }

    /// Bytes that the next read asks for.
    pub fn read_block(&self) -> u32 {
        self.shared.read_block.load(Ordering::Relaxed)
    }

    /// Bytes that the next write carries.
    pub fn write_block(&self) -> u32 {
        self.shared.write_block.load(Ordering::Relaxed)
    }

    /// How long the server has owed an answer; zero if it owes none.
    pub fn silence(&self) -> Duration {
        if self.shared.in_flight.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let since = self.shared.answered_at.load(Ordering::Relaxed).max(self.shared.owed_since.load(Ordering::Relaxed));
        Duration::from_millis(self.shared.milliseconds().saturating_sub(since))
    }

    /// What happened so far.
    pub fn statistics(&self) -> Statistics {
        *self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the server is.
    pub fn server(&self) -> SocketAddr {
        self.shared.server
    }

    /// How long calls are tried.
    pub fn wait_policy(&self) -> WaitPolicy {
        self.shared.wait_policy
    }

    /// Fails everything in flight and all that is still submitted, and ends the thread.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread of calls panicked");
        }
    }
}

impl Drop for SharedCaller {
    fn drop(&mut self) {
        self.stop();
    }
}
