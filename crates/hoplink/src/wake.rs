//! Wakes the engine from another thread.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Orders that may wait; a door that admits faster than the engine runs waits itself.
const ORDERS_MAX: usize = 64;

/// Gives orders to the engine.
#[derive(Debug)]
pub(crate) struct Orders<T> {
    sender: SyncSender<T>,
    event: Arc<OwnedFd>,
}

impl<T> Clone for Orders<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), event: Arc::clone(&self.event) }
    }
}

/// Takes them.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    receiver: Receiver<T>,
    event: Arc<OwnedFd>,
}

/// Both ends.
pub(crate) fn orders<T>() -> io::Result<(Orders<T>, Inbox<T>)> {
    let event = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    let (sender, receiver) = sync_channel(ORDERS_MAX);
    Ok((Orders { sender, event: Arc::clone(&event) }, Inbox { receiver, event }))
}

impl<T> Orders<T> {
    /// Gives an order; false if the engine has ended, or too many wait.
    pub(crate) fn give(&self, order: T) -> bool {
        let given = match self.sender.try_send(order) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        };
        // A counter that is full wakes just as well.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
        given
    }
}

impl<T> Inbox<T> {
    /// Readable while something may wait.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// The next order.
    pub(crate) fn take(&self) -> Option<T> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.event, &mut count);
        self.receiver.try_recv().ok()
    }
}
