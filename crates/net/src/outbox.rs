//! The frames that wait for the control stream, and their way into it.
//!
//! A task of the runtime takes them out, as many at once as there are, and waits where the stream has no room. A thread
//! that holds [`SendHere`](crate::SendHere) puts a short frame into the stream itself while nothing else waits.

use crate::close::CloseCode;
use crate::frame::FrameLayout;
use crate::here::SendHere;
use crate::packing::Packer;
use crate::packing_rule::PackingRule;
use crate::shared::Shared;
use crate::traffic::count;
use bytes::Bytes;
use quinn::{SendStream, WriteError};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot};
use tracing::debug;

/// Frames laid out at once.
const BATCH_LEN_MAX: usize = 64;
/// Longer frames are left to the task: whoever sends them has no reason to hurry, and something else to do.
const HERE_LEN_MAX: usize = 16 << 10;

/// Frames on their way into the stream.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// A leaf in the order of locks, but for the connection's own.
    state: Mutex<State>,
    bytes: Arc<Semaphore>,
    frames: Arc<Semaphore>,
    /// There is something for the task.
    work: Notify,
    shared: Arc<Shared>,
}

/// Room for a frame, until it is in the stream.
#[derive(Debug)]
pub(crate) struct Place {
    _bytes: OwnedSemaphorePermit,
    _frame: OwnedSemaphorePermit,
}

/// What came of asking for room.
pub(crate) enum Room {
    Taken(Place),
    Full,
    Closed,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<(Bytes, Place)>,
    stream: SendStream,
    layout: FrameLayout,
    rule: PackingRule,
    /// Laid out and not yet in the stream: the next bytes of it, and the room that they take.
    rest: Vec<Bytes>,
    rest_places: Vec<Place>,
    /// Who waits until all was said.
    finish: Vec<oneshot::Sender<()>>,
}

impl Outbox {
    pub(crate) fn new(shared: &Arc<Shared>, stream: SendStream) -> Self {
        let config = &shared.config;
        let state = State {
            queue: VecDeque::new(),
            stream,
            layout: FrameLayout::new(Packer::new()),
            rule: PackingRule::new(config.frame_packing),
            rest: Vec::new(),
            rest_places: Vec::new(),
            finish: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            bytes: Arc::new(Semaphore::new(config.frame_queue_bytes_max as usize)),
            frames: Arc::new(Semaphore::new(config.frame_queue_len_max)),
            work: Notify::new(),
            shared: Arc::clone(shared),
        }
    }

    /// Room for a frame of this length, if there is.
    pub(crate) fn try_room(&self, len: usize) -> Room {
        let frame = match Arc::clone(&self.frames).try_acquire_owned() {
            Ok(frame) => frame,
            Err(TryAcquireError::NoPermits) => return Room::Full,
            Err(TryAcquireError::Closed) => return Room::Closed,
        };
        match Arc::clone(&self.bytes).try_acquire_many_owned(charge(len)) {
            Ok(bytes) => Room::Taken(Place { _bytes: bytes, _frame: frame }),
            Err(TryAcquireError::NoPermits) => Room::Full,
            Err(TryAcquireError::Closed) => Room::Closed,
        }
    }

    /// The same, when there is; `None`: nothing more is sent.
    pub(crate) async fn room(&self, len: usize) -> Option<Place> {
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(charge(len)).await.ok()?;
        let frame = Arc::clone(&self.frames).acquire_owned().await.ok()?;
        Some(Place { _bytes: bytes, _frame: frame })
    }

    /// Queues a frame.
    pub(crate) fn put(&self, frame: Bytes, place: Place) {
        let mut state = self.state();
        let is_short = frame.len() <= HERE_LEN_MAX && state.queue.is_empty() && state.rest.is_empty();
        state.queue.push_back((frame, place));
        if is_short
            && SendHere::is_held()
            && let Poll::Ready(Ok(())) = state.write(&self.shared, &mut Context::from_waker(Waker::noop()))
        {
            return;
        }
        drop(state);
        // Also where it failed: the task ends the connection.
        self.work.notify_one();
    }

    /// Has the last frame said, and waits until the peer has them all.
    pub(crate) async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        {
            let mut state = self.state();
            if self.frames.is_closed() {
                // The task has ended, and nobody would answer.
                return;
            }
            state.finish.push(done);
        }
        self.work.notify_one();
        // An error means that the task ended meanwhile: then there is nothing to wait for.
        let _ = finished.await;
    }

    /// Takes frames out until the last was said, or the stream ends.
    pub(crate) async fn empty(self: Arc<Self>) {
        loop {
            if let Err(error) = poll_fn(|cx| self.state().write(&self.shared, cx)).await {
                debug!(peer = %self.shared.peer, %error, "control stream ended");
                // A peer that stops the control stream alone has broken the protocol; if the connection is over already,
                // closing it again changes nothing.
                self.shared.quic.close(CloseCode::CONTROL_LOST.to_wire(), b"control stream refused");
                break;
            }
            if self.state().finish_stream() {
                let stopped = self.state().stream.stopped();
                let _ = stopped.await;
                let finished = std::mem::take(&mut self.state().finish);
                for done in finished {
                    // Who asked may have lost patience.
                    let _ = done.send(());
                }
                break;
            }
            self.work.notified().await;
        }
        self.frames.close();
        self.bytes.close();
        // Who asked for the end before it could be seen that nobody answers any more.
        self.state().finish.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes until nothing is left, or the stream has no room.
    fn write(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        loop {
            if self.rest.is_empty() && !self.lay_out(shared) {
                return Poll::Ready(Ok(()));
            }
            let written = match pin!(self.stream.write_chunks(&mut self.rest)).poll(cx) {
                Poll::Ready(written) => written?,
                Poll::Pending => return Poll::Pending,
            };
            self.rest.drain(..written.chunks);
            if self.rest.is_empty() {
                self.rest_places.clear();
            }
        }
    }

    /// Lays out what waits; `false` if nothing does.
    fn lay_out(&mut self, shared: &Shared) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        let form = self.rule.choose(&shared.quic, &shared.path);
        let count_taken = self.queue.len().min(BATCH_LEN_MAX);
        for (frame, place) in self.queue.drain(..count_taken) {
            self.rest_places.push(place);
            count(&shared.counters.frame_bytes_sent_unpacked, frame.len());
            count(&shared.counters.frame_bytes_sent, self.layout.push(frame, form));
        }
        self.rest = self.layout.take();
        true
    }

    /// Ends the stream if somebody waits for that and nothing is left to be said; nothing more is then.
    fn finish_stream(&mut self) -> bool {
        if self.finish.is_empty() || !self.queue.is_empty() || !self.rest.is_empty() {
            return false;
        }
        let _ = self.stream.finish();
        true
    }
}

fn charge(len: usize) -> u32 {
    u32::try_from(len.max(1)).expect("a frame is at most 4 MiB")
}
