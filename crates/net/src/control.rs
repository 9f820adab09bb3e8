//! The control stream: the replica protocol's messages, in order, ahead of everything else.
//!
//! The dialling side opens one bidirectional stream before all others and greets on it. What follows is frames
//! (`frame.rs`), each plain or packed as its sender sees fit (`packing_rule.rs`). Anything else is a peer that is
//! broken or hostile, and ends the connection with a code that says which. `outbox.rs` is the way out.

use crate::close::{CloseCode, Closed};
use crate::frame::{FRAME_LEN_MAX, FrameFault, FrameFinder};
use crate::outbox::{Outbox, Room};
use crate::packing::UnpackError;
use crate::shared::Shared;
use crate::traffic::count;
use bytes::Bytes;
use quinn::{ReadError, RecvStream, SendStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracing::debug;

/// Priority of the control stream: above all bodies.
pub(crate) const PRIORITY: i32 = i32::MAX;

/// Most bytes taken from the stream at once.
const READ_LEN_MAX: usize = 256 << 10;

/// Sends frames. Clones share one queue and one order.
#[derive(Debug, Clone)]
pub struct FrameSender {
    outbox: Arc<Outbox>,
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
        match self.outbox.try_room(frame.len()) {
            Room::Taken(place) => {
                self.outbox.put(frame, place);
                Ok(())
            }
            Room::Full => Err(TrySendError::Full(frame)),
            Room::Closed => Err(TrySendError::Closed),
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
            let place = self.outbox.room(frame.len()).await?;
            self.outbox.put(frame, place);
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
            self.finder.limit(self.shared.frame_len_max.load(Ordering::Acquire));
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
    let outbox = Arc::new(Outbox::new(shared, send));
    let task = tokio::spawn(Arc::clone(&outbox).empty());
    let sender = FrameSender { outbox, shared: Arc::clone(shared) };
    let receiver = FrameReceiver { stream: recv, finder: FrameFinder::new(), shared: Arc::clone(shared) };
    (sender, receiver, task)
}

/// Says the last frame, and waits until the peer has them all. Bounded by the caller.
pub(crate) async fn finish(sender: &FrameSender) {
    sender.outbox.finish().await;
}
