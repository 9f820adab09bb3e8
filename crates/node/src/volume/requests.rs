//! Requests: asking the engine, and waiting where the disk is behind.

use super::Volume;
use crate::clock;
use crate::core::Orders;
use crate::waiter::{Callback, Slot, Waiter};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wayfs_proto::{Full, Input};
use wayfs_types::FsError;
use wayfs_types::request::{Outcome, Request, RequestId};

/// How long past its deadline a request may stay unanswered before its thread gives up by itself.
const ANSWER_SLACK: Duration = Duration::from_secs(2);
/// Longest wait of one writer for a disk that is behind with metadata. Below the patience of a lease, and of [S-bounded].
const PRESSURE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time between two looks at it.
const PRESSURE_LOOK: Duration = Duration::from_millis(5);

impl Volume {
    /// Asks the replica and waits for the answer, at most `timeout`.
    ///
    /// What is known locally is answered on this thread without any other being involved.
    ///
    /// # Errors
    /// The [`FsError`] of the answer; `Io` if the volume has stopped or failed.
    pub fn request(&self, request: Request, timeout: Duration) -> Outcome {
        self.wait_out_pressure(&request, timeout);
        self.look_for_room(&request);
        let mut orders = Orders::sending_here();
        let mut core = self.lock();
        let id = core.next_request();
        let deadline = clock::now() + timeout;
        let answer = core.handle(Input::Request { id, request, deadline }, Some(id), &mut orders);
        let slot = answer.is_none().then(|| {
            let slot = Arc::new(Slot::default());
            core.wait(id, Waiter::Thread(Arc::clone(&slot)));
            slot
        });
        drop(core);
        self.carry_out(orders);
        match (answer, slot) {
            (Some(outcome), _) => outcome,
            (None, Some(slot)) => slot.wait(timeout + ANSWER_SLACK).unwrap_or_else(|| {
                self.cancel(id);
                Err(FsError::TimedOut)
            }),
            (None, None) => Err(FsError::Io),
        }
    }

    /// Asks the replica; `callback` gets the answer. Answered at once, it is called on this thread and the result
    /// is `None`; else it is called later, on a thread of the volume, perhaps even before this function returns.
    pub fn submit(&self, request: Request, timeout: Duration, callback: Callback) -> Option<RequestId> {
        self.wait_out_pressure(&request, timeout);
        self.look_for_room(&request);
        let mut orders = Orders::sending_here();
        let mut core = self.lock();
        let id = core.next_request();
        let deadline = clock::now() + timeout;
        match core.handle(Input::Request { id, request, deadline }, Some(id), &mut orders) {
            Some(outcome) => {
                drop(core);
                drop(orders.sending.take());
                callback(outcome);
                self.carry_out(orders);
                None
            }
            None => {
                core.wait(id, Waiter::Callback(callback));
                drop(core);
                self.carry_out(orders);
                Some(id)
            }
        }
    }

    /// Lets a writer wait, with no lock held, while the disk is behind with metadata. What only reads goes on at once.
    fn wait_out_pressure(&self, request: &Request, timeout: Duration) {
        if !matches!(request, Request::Change { .. }) || !self.pressure.is_high() {
            return;
        }
        let end = Instant::now() + timeout.min(PRESSURE_WAIT_MAX);
        while self.pressure.is_high() && Instant::now() < end && !self.is_stopped() {
            std::thread::sleep(PRESSURE_LOOK);
        }
    }

    /// Looks at a disk that was full a moment ago before somebody who writes is refused: there may be room again.
    fn look_for_room(&self, request: &Request) {
        if matches!(request, Request::Change { .. })
            && self.room().full == Full::Metadata
            && let Some(room) = self.disk_room.look()
        {
            self.step(Input::Room { room });
        }
    }

    /// As [`Volume::wait_out_pressure`] for a neighbour, whose frames wait in the connection meanwhile: it sees a slow reader.
    pub(crate) async fn wait_out_pressure_of_frames(&self) {
        let end = Instant::now() + PRESSURE_WAIT_MAX;
        while self.pressure.is_high() && Instant::now() < end && !self.is_stopped() {
            tokio::time::sleep(PRESSURE_LOOK).await;
        }
    }

    /// Gives a request up: it is answered `Interrupted` if it still waits.
    pub fn cancel(&self, id: RequestId) {
        self.step(Input::Cancel { id });
    }
}
