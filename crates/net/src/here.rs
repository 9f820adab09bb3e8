//! Sending from the thread that has something to send.
//!
//! Quinn drives each connection by a task of the runtime: whoever writes to a stream wakes that task, and a thread of the
//! runtime, asleep most of the time, wakes up to make the packets. Two such hand-overs, at 30 to 60 us each, are a good
//! part of what it takes until a record is safe on a server in the same room.
//!
//! Here the task and the thread that writes share the driver: while [`SendHere`] is held, a connection that is woken is
//! noted, and when it is dropped the thread drives those connections once itself. Everything else (what comes in, timers,
//! what did not fit) is the task's, as ever.

use crate::patient_timer::PatientTimer;
use crate::socket::Socket;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use tokio::runtime::Handle;

type DriverFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    /// How many [`SendHere`] this thread holds, and the connections woken since the first.
    static NOTED: RefCell<Noted> = const { RefCell::new(Noted { depth: 0, drivers: Vec::new() }) };
}

struct Noted {
    depth: usize,
    drivers: Vec<Arc<Driver>>,
}

/// While it is held, frames that this thread sends are left to this thread; they leave when it is dropped. To be held where
/// somebody waits for them, and dropped with no lock held: it makes and encrypts packets, and asks the system to send them.
#[derive(Debug)]
pub struct SendHere {
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl SendHere {
    /// Begins. May be nested; the outermost sends.
    #[must_use]
    pub fn begin() -> Self {
        NOTED.with_borrow_mut(|noted| noted.depth += 1);
        Self { not_send: PhantomData }
    }

    /// Whether this thread holds one.
    pub(crate) fn is_held() -> bool {
        NOTED.with_borrow(|noted| noted.depth > 0)
    }
}

impl Drop for SendHere {
    fn drop(&mut self) {
        let drivers = NOTED.with_borrow_mut(|noted| {
            noted.depth -= 1;
            if noted.depth == 0 { std::mem::take(&mut noted.drivers) } else { Vec::new() }
        });
        for driver in drivers {
            driver.drive_here();
        }
    }
}

/// Quinn's tokio runtime, but for the drivers of connections.
#[derive(Debug)]
pub(crate) struct SharedRuntime {
    handle: Handle,
    /// The first thing that an endpoint spawns is its own driver, which receives: that stays with the runtime.
    has_endpoint: AtomicBool,
}

impl SharedRuntime {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle, has_endpoint: AtomicBool::new(false) }
    }
}

impl Runtime for SharedRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(PatientTimer::new(at))
    }

    fn spawn(&self, future: DriverFuture) {
        if !self.has_endpoint.swap(true, Ordering::AcqRel) {
            self.handle.spawn(future);
            return;
        }
        let driver = Arc::new(Driver {
            future: Mutex::new(Some(future)),
            is_woken: AtomicBool::new(true),
            task: Mutex::new(None),
            handle: self.handle.clone(),
        });
        self.handle.spawn(Task(driver));
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Socket::new(socket)?))
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// The driver of a connection, polled by its task and by threads that send. It is its own waker.
struct Driver {
    /// Gone when the connection is over. Whoever polls holds it; nobody waits for it.
    future: Mutex<Option<DriverFuture>>,
    /// Since it was polled last.
    is_woken: AtomicBool,
    task: Mutex<Option<Waker>>,
    handle: Handle,
}

impl Driver {
    /// Polls once if there is reason to; `true` when the connection is over.
    ///
    /// Who finds another at it goes away: that one looks for more reasons when it is done.
    fn poll(self: &Arc<Self>) -> bool {
        let is_over = {
            let mut future = match self.future.try_lock() {
                Ok(future) => future,
                Err(TryLockError::WouldBlock) => return false,
                // It panicked, and is not to be polled again.
                Err(TryLockError::Poisoned(poisoned)) => {
                    let mut broken = poisoned.into_inner();
                    *broken = None;
                    broken
                }
            };
            if self.is_woken.swap(false, Ordering::SeqCst)
                && let Some(running) = future.as_mut()
                && running.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(self)))).is_ready()
            {
                *future = None;
            }
            future.is_none()
        };
        // Woken meanwhile, perhaps by itself: others have their turn first.
        if is_over || self.is_woken.load(Ordering::SeqCst) {
            self.wake_task();
        }
        is_over
    }

    fn drive_here(self: &Arc<Self>) {
        let _inside = self.handle.enter();
        self.poll();
    }

    fn wake_task(&self) {
        if let Some(task) = &*self.task() {
            task.wake_by_ref();
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Driver {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        let is_noted = NOTED.with_borrow_mut(|noted| {
            if noted.depth > 0 && !noted.drivers.iter().any(|driver| Arc::ptr_eq(driver, &self)) {
                noted.drivers.push(Arc::clone(&self));
            }
            noted.depth > 0
        });
        if !is_noted {
            self.wake_task();
        }
    }
}

/// The runtime's share in a driver.
struct Task(Arc<Driver>);

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut task = self.0.task();
            if !task.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *task = Some(cx.waker().clone());
            }
        }
        if self.0.poll() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Task {
    /// A runtime that ends drops tasks that are not over. The future keeps its waker, which is the driver, which keeps the
    /// future: without this the socket below stays open for the life of the process.
    fn drop(&mut self) {
        let future = self.0.future.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Without the lock: what is dropped may wake the driver.
        drop(future);
    }
}

#[cfg(test)]
mod tests;
