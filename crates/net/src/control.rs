//! The control stream: the replica protocol's messages, in order, ahead of everything else.
//!
//! The dialling side opens one bidirectional stream before all others and greets on it. What follows is frames
//! (`frame.rs`), each plain or packed as its sender sees fit (`packing_rule.rs`). Anything else is a peer that is
//! broken or hostile, and ends the connection with a code that says which.

use crate::close::{CloseCode, Closed};
use crate::connection::Shared;
use crate::frame::{FRAME_LEN_MAX, FrameFault, FrameFinder, FrameLayout};
use crate::packing::{Packer, UnpackError};
use crate::packing_rule::PackingRule;
use crate::traffic::count;
use bytes::Bytes;
use quinn::{ReadError, RecvStream, SendStream};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc, oneshot};
use tracing::debug;

/// Priority of the control stream; bodies have 0 and 10.
pub(crate) const PRIORITY: i32 = 100;

/// Frames taken from the queue at once.
const BATCH_LEN_MAX: usize = 64;
/// Most bytes taken from the stream at once.
const READ_LEN_MAX: usize = 256 << 10;

/// Sends frames. Clones share one queue and one order.
#[derive(Debug, Clone)]
pub struct FrameSender {
    queue: mpsc::Sender<Command>,
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
}

/// Receives the peer's frames.
#[derive(Debug)]
pub struct FrameReceiver {
    stream: RecvStream,
    finder: FrameFinder,
    shared: Arc<Shared>,
}

/// Why a frame was not taken at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError {
    /// The queue is full. The frame comes back, to be sent later or dropped.
    #[error("the queue of frames is full")]
    Full(Bytes),
    /// The frame is longer than [`FRAME_LEN_MAX`].
    #[error("a frame of {0} bytes is too long (at most {FRAME_LEN_MAX})")]
    TooLong(usize),
    /// The connection is over.
    #[error("the connection is over")]
    Closed,
}

/// Why a frame could not be sent or received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The connection is over.
    #[error("the connection is over: {0}")]
    Closed(#[from] Closed),
    /// A frame is longer than [`FRAME_LEN_MAX`]: one given here, or one that the peer
    /// announced, which ends the connection with [`CloseCode::FRAME_TOO_LONG`].
    #[error("a frame of {0} bytes is too long (at most {FRAME_LEN_MAX})")]
    TooLong(usize),
    /// The peer sent a frame of an unknown kind, which ends the connection with
    /// [`CloseCode::FRAME_KIND`].
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// The peer sent a packed frame that cannot be unpacked, which ends the connection with
    /// [`CloseCode::FRAME_DAMAGED`].
    #[error("a packed frame cannot be unpacked: {0}")]
    Unpack(#[from] UnpackError),
    /// The control stream ended within a frame, which ends the connection with
    /// [`CloseCode::CONTROL_LOST`].
    #[error("the control stream ended within a frame")]
    Truncated,
}

#[derive(Debug)]
pub(crate) enum Command {
    Frame(Bytes, #[allow(dead_code, reason = "held until the frame is written")] OwnedSemaphorePermit),
    Finish(oneshot::Sender<()>),
}

impl FrameSender {
    /// Queues a frame, if there is room.
    ///
    /// # Errors
    /// Any [`TrySendError`].
    pub fn try_send(&self, frame: Bytes) -> Result<(), TrySendError> {
        if frame.len() > FRAME_LEN_MAX {
            return Err(TrySendError::TooLong(frame.len()));
        }
        if self.shared.quic.close_reason().is_some() {
            return Err(TrySendError::Closed);
        }
        let permit = match Arc::clone(&self.room).try_acquire_many_owned(charge(&frame)) {
            Ok(permit) => permit,
            Err(TryAcquireError::NoPermits) => return Err(TrySendError::Full(frame)),
            Err(TryAcquireError::Closed) => return Err(TrySendError::Closed),
        };
        match self.queue.try_reserve() {
            Ok(place) => {
                place.send(Command::Frame(frame, permit));
                Ok(())
            }
            Err(mpsc::error::TrySendError::Full(())) => Err(TrySendError::Full(frame)),
            Err(mpsc::error::TrySendError::Closed(())) => Err(TrySendError::Closed),
        }
    }

    /// Queues a frame, waiting while there is no room. If the future is dropped before it is
    /// done, the frame is not sent.
    ///
    /// # Errors
    /// [`FrameError::TooLong`], [`FrameError::Closed`].
    pub async fn send(&self, frame: Bytes) -> Result<(), FrameError> {
        if frame.len() > FRAME_LEN_MAX {
            return Err(FrameError::TooLong(frame.len()));
        }
        if let Some(closed) = self.shared.quic.close_reason() {
            return Err(Closed::from(&closed).into());
        }
        let queued = async {
            let permit = Arc::clone(&self.room).acquire_many_owned(charge(&frame)).await.ok()?;
            self.queue.reserve().await.ok()?.send(Command::Frame(frame, permit));
            Some(())
        };
        tokio::select! {
            biased;
            done = queued => match done {
                Some(()) => Ok(()),
                None => Err(Closed::from(&self.shared.quic.closed().await).into()),
            },
            closed = self.shared.quic.closed() => Err(Closed::from(&closed).into()),
        }
    }
}

impl FrameReceiver {
    /// The next frame; `None` when the peer has said its last. May be cancelled and called
    /// again.
    ///
    /// # Errors
    /// Any [`FrameError`]; the connection is over after it.
    pub async fn recv(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            // No wait lies between taking a frame out and handing it over: a caller that gives up loses nothing.
            if let Some(found) = self.finder.next().map_err(|fault| self.refuse(fault))? {
                count(&self.shared.counters.frame_bytes_received, found.len_carried);
                count(&self.shared.counters.frame_bytes_received_unpacked, found.frame.len());
                return Ok(Some(found.frame));
            }
            match self.stream.read_chunk(READ_LEN_MAX, true).await {
                Ok(Some(chunk)) => self.finder.extend(&chunk.bytes),
                Ok(None) if self.finder.is_empty() => return Ok(None),
                Ok(None) => return Err(self.fail(CloseCode::CONTROL_LOST, FrameError::Truncated)),
                Err(ReadError::ConnectionLost(error)) => return Err(Closed::from(&error).into()),
                Err(
                    ReadError::Reset(_)
                    | ReadError::ClosedStream
                    | ReadError::IllegalOrderedRead
                    | ReadError::ZeroRttRejected,
                ) => return Err(self.fail(CloseCode::CONTROL_LOST, FrameError::Truncated)),
            }
        }
    }

    fn refuse(&self, fault: FrameFault) -> FrameError {
        match fault {
            FrameFault::TooLong(len) => self.fail(CloseCode::FRAME_TOO_LONG, FrameError::TooLong(len)),
            FrameFault::Kind(kind) => self.fail(CloseCode::FRAME_KIND, FrameError::Kind(kind)),
            FrameFault::Unpack(error) => self.fail(CloseCode::FRAME_DAMAGED, FrameError::Unpack(error)),
        }
    }

    fn fail(&self, code: CloseCode, error: FrameError) -> FrameError {
        debug!(peer = %self.shared.peer, %error, "control stream failed");
        self.shared.quic.close(code.to_wire(), error.to_string().as_bytes());
        error
    }
}

/// Makes both halves from the control stream, and the task that empties the queue.
pub(crate) fn start(
    shared: &Arc<Shared>,
    send: SendStream,
    recv: RecvStream,
) -> (FrameSender, FrameReceiver, tokio::task::JoinHandle<()>) {
    // Only a stream that is over refuses a priority, and then the first write says so.
    let _ = send.set_priority(PRIORITY);
    let (queue, commands) = mpsc::channel(shared.config.frame_queue_len_max);
    let room = Arc::new(Semaphore::new(shared.config.frame_queue_bytes_max as usize));
    let task = tokio::spawn(write_frames(Arc::clone(shared), send, commands));
    let sender = FrameSender { queue, room, shared: Arc::clone(shared) };
    let receiver = FrameReceiver { stream: recv, finder: FrameFinder::new(), shared: Arc::clone(shared) };
    (sender, receiver, task)
}

/// Says the last frame, and waits until the peer has them all. Bounded by the caller.
pub(crate) async fn finish(sender: &FrameSender) {
    let (done, finished) = oneshot::channel();
    if sender.queue.send(Command::Finish(done)).await.is_ok() {
        // An error means that the writer ended before: then there is nothing to wait for.
        let _ = finished.await;
    }
}

fn charge(frame: &Bytes) -> u32 {
    u32::try_from(frame.len().max(1)).expect("a frame is at most 4 MiB")
}

async fn write_frames(shared: Arc<Shared>, mut stream: SendStream, mut commands: mpsc::Receiver<Command>) {
    let mut batch = Vec::with_capacity(BATCH_LEN_MAX);
    let mut layout = FrameLayout::new(Packer::new());
    let mut rule = PackingRule::new(shared.config.frame_packing);
    while commands.recv_many(&mut batch, BATCH_LEN_MAX).await > 0 {
        let form = rule.choose(&shared.quic);
        let mut finish = None;
        let mut permits = Vec::with_capacity(batch.len());
        for command in batch.drain(..) {
            match command {
                Command::Frame(frame, permit) => {
                    permits.push(permit);
                    count(&shared.counters.frame_bytes_sent_unpacked, frame.len());
                    count(&shared.counters.frame_bytes_sent, layout.push(frame, form));
                }
                Command::Finish(done) => {
                    finish = Some(done);
                    break;
                }
            }
        }
        if let Err(error) = stream.write_all_chunks(&mut layout.take()).await {
            debug!(peer = %shared.peer, %error, "control stream ended");
            // A peer that stops the control stream alone has broken the protocol; if the
            // connection is over already, closing it again changes nothing.
            shared.quic.close(CloseCode::CONTROL_LOST.to_wire(), b"control stream refused");
            return;
        }
        drop(permits);
        if let Some(done) = finish {
            let _ = stream.finish();
            let _ = stream.stopped().await;
            let _ = done.send(());
            return;
        }
    }
    let _ = stream.finish();
}
