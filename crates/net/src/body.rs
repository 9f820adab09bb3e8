//! Bodies: contents on their way, in pieces.
//!
//! After the header of a request or an answer comes its body, of the length that the header's
//! head declared, as pieces: `len: u32` (little-endian, at most 256 KiB) and `len` bytes. A
//! piece of length zero carries nothing and says "still here", so that a sender that waits
//! for its turn or for its own source is not taken for dead. The stream ends right after
//! the last declared byte.

use crate::Waiting;
use crate::close::StreamCode;
use crate::gate::GatePermit;
use crate::priority::Priority;
use crate::request_error::RequestError;
use crate::shared::Shared;
use crate::stream::{read_some, reset, stop, write_full};
use crate::traffic::count;
use crate::turns::QUANTUM;
use crate::yielding::UnderWay;
use bytes::{Buf, Bytes, BytesMut};
use quinn::{RecvStream, SendStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Longest piece of a body, in bytes: 256 KiB.
pub const BODY_PIECE_MAX: usize = 256 << 10;

const PIECE_HEAD_LEN: usize = 4;
/// How long an acknowledgement of a finished body may keep its share of the window.
const ACK_WAIT_MAX: Duration = Duration::from_secs(30);

/// Tells when bodies of one connection begin ([`Connection::body_starts`](crate::Connection::body_starts)).
#[derive(Debug, Clone)]
pub struct BodyStarts(pub(crate) Arc<Notify>);

impl BodyStarts {
    /// Waits until the next body begins, for ever if the connection is over. May be cancelled.
    pub async fn next(&self) {
        self.0.notified().await;
    }
}

/// The sending half of a body: exactly as many bytes as were declared.
///
/// Dropped before [`SendBody::finish`], it is taken back, and the peer gets
/// [`RequestError::Refused`] with [`StreamCode::ABANDONED`].
#[derive(Debug)]
pub struct SendBody {
    stream: Option<SendStream>,
    shared: Arc<Shared>,
    left: u64,
    permit: Option<GatePermit>,
    under_way: Option<UnderWay>,
    priority: Priority,
    len: u64,
    /// What it may send before others have their turn.
    turn_left: u64,
    _waiting: Waiting,
    /// Set while a write is under way: cancelled there, the stream is beyond repair.
    broken: bool,
}

impl SendBody {
    pub(crate) fn new(stream: SendStream, shared: Arc<Shared>, len: u64, permit: GatePermit) -> Self {
        let waiting = shared.waits.hold();
        // A stream that is over has no priority, and its body fails at the first write.
        let is_background = stream.priority().is_ok_and(|priority| priority == Priority::Background.of_stream());
        let priority = if is_background { Priority::Background } else { Priority::Foreground };
        let under_way = UnderWay::begin(&shared.yielding, priority, len);
        shared.bodies.notify_waiters();
        Self {
            stream: Some(stream),
            shared,
            left: len,
            permit: Some(permit),
            under_way,
            priority,
            len,
            turn_left: 0,
            _waiting: waiting,
            broken: false,
        }
    }

    /// Bytes that are still to be sent.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Sends the next bytes of the body, any number of them; waits while the path is full.
    /// If the future is dropped halfway, the body is lost and the next call says so.
    ///
    /// # Errors
    /// [`RequestError::WrongLength`] for more bytes than declared, [`RequestError::Refused`]
    /// if the peer stopped reading, [`RequestError::Idle`], [`RequestError::Closed`].
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), RequestError> {
        if bytes.len() as u64 > self.left {
            return Err(RequestError::WrongLength);
        }
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(BODY_PIECE_MAX));
            let len = piece.len();
            self.write(piece).await?;
            self.left -= len as u64;
            count(&self.shared.counters.body_bytes_sent, len);
        }
        Ok(())
    }

    /// Tells the peer that the body goes on though its source is slow. To be called more
    /// often than the peer's idle timeout.
    ///
    /// # Errors
    /// As [`SendBody::send`].
    pub async fn still_here(&mut self) -> Result<(), RequestError> {
        self.write(Bytes::new()).await
    }

    /// Ends the body. All is then on its way, though not acknowledged.
    ///
    /// # Errors
    /// [`RequestError::WrongLength`] if fewer bytes were sent than declared: the body is
    /// then taken back.
    pub async fn finish(mut self) -> Result<(), RequestError> {
        if self.left > 0 || self.broken {
            return Err(RequestError::WrongLength);
        }
        let Some(mut stream) = self.stream.take() else { return Err(RequestError::Over) };
        stream.finish().map_err(|_| RequestError::Over)?;
        let (permit, under_way, waiting) = (self.permit.take(), self.under_way.take(), self.shared.waits.hold());
        let stopped = stream.stopped();
        // The share of the window is free when the peer has it all, and until then the
        // peer may need probes to learn that something was lost.
        tokio::spawn(async move {
            let _ = timeout(ACK_WAIT_MAX, stopped).await;
            drop((permit, under_way, waiting));
        });
        Ok(())
    }

    /// Gives the body up and tells the peer why.
    pub fn abort(mut self, code: StreamCode) {
        if let Some(mut stream) = self.stream.take() {
            reset(&mut stream, code);
        }
    }

    /// Takes the budget once it is there, telling the peer meanwhile that it goes on.
    pub(crate) async fn wait_for_turn(&mut self, len: u64) -> Result<(), RequestError> {
        let gate = self.shared.gate.clone();
        let entered = gate.enter(len);
        tokio::pin!(entered);
        let patience = self.shared.config.request_idle_timeout / 4;
        loop {
            match timeout(patience, &mut entered).await {
                Ok(permit) => {
                    self.permit = Some(permit);
                    return Ok(());
                }
                Err(_) => self.still_here().await?,
            }
        }
    }

    async fn write(&mut self, piece: Bytes) -> Result<(), RequestError> {
        let Some(stream) = self.stream.as_mut() else { return Err(RequestError::Over) };
        if self.broken {
            return Err(RequestError::Over);
        }
        self.broken = true;
        if piece.len() as u64 > self.turn_left {
            // Only a stream that is over refuses it, and then the write says so.
            let _ = stream.set_priority(self.shared.turns.take(self.priority, self.len));
            self.turn_left = QUANTUM;
        }
        self.turn_left -= piece.len() as u64;
        let len = u32::try_from(piece.len()).expect("a piece is at most 256 KiB");
        let head = Bytes::copy_from_slice(&len.to_le_bytes());
        write_full(stream, &self.shared, &mut [head, piece]).await?;
        self.broken = false;
        Ok(())
    }
}

impl Drop for SendBody {
    fn drop(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            reset(&mut stream, StreamCode::ABANDONED);
        }
    }
}

/// The receiving half of a body. Dropped before its end, it tells the sender to stop.
#[derive(Debug)]
pub struct RecvBody {
    stream: RecvStream,
    shared: Arc<Shared>,
    len: u64,
    left: u64,
    piece_left: usize,
    /// Bytes of a piece's head that came without the rest.
    head: BytesMut,
    ended: bool,
    /// Held from the first read on: a body that nobody reads needs no probes.
    waiting: Option<Waiting>,
}

impl RecvBody {
    pub(crate) fn new(stream: RecvStream, shared: Arc<Shared>, len: u64) -> Self {
        let head = BytesMut::with_capacity(PIECE_HEAD_LEN);
        shared.bodies.notify_waiters();
        Self { stream, shared, len, left: len, piece_left: 0, head, ended: false, waiting: None }
    }

    /// The length that the sender declared, in bytes: never more will come.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the sender declared an empty body.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that are still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes, at most [`BODY_PIECE_MAX`]; `None` when the whole body was read. May
    /// be cancelled and called again.
    ///
    /// # Errors
    /// [`RequestError::Truncated`] if the body ends early, [`RequestError::Malformed`] if it
    /// goes on after its end, [`RequestError::Refused`] if the sender gave up,
    /// [`RequestError::Idle`], [`RequestError::Closed`]. The body is over after any of them.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, RequestError> {
        if self.ended {
            return Ok(None);
        }
        if self.waiting.is_none() {
            self.waiting = Some(self.shared.waits.hold());
        }
        match self.advance().await {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => {
                self.ended = true;
                self.waiting = None;
                Ok(None)
            }
            Err(error) => {
                self.ended = true;
                self.waiting = None;
                stop(&mut self.stream, StreamCode::MALFORMED);
                Err(error)
            }
        }
    }

    /// The whole rest of the body, if it is at most `max` bytes long.
    ///
    /// # Errors
    /// [`RequestError::BodyTooLong`] if more was declared, or as [`RecvBody::next_piece`].
    pub async fn read_all(mut self, max: usize) -> Result<Bytes, RequestError> {
        if self.left > max as u64 {
            return Err(RequestError::BodyTooLong { len: self.left, max: max as u64 });
        }
        // The peer's word is good for a first allocation of modest size only.
        let expected = usize::try_from(self.left).unwrap_or(max);
        let mut all = BytesMut::with_capacity(expected.min(BODY_PIECE_MAX));
        while let Some(piece) = self.next_piece().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    async fn advance(&mut self) -> Result<Option<Bytes>, RequestError> {
        loop {
            if self.piece_left > 0 {
                let Some(bytes) = read_some(&mut self.stream, &self.shared, self.piece_left).await? else {
                    return Err(self.truncated());
                };
                self.piece_left -= bytes.len();
                self.left -= bytes.len() as u64;
                count(&self.shared.counters.body_bytes_received, bytes.len());
                return Ok(Some(bytes));
            }
            let missing = PIECE_HEAD_LEN - self.head.len();
            match read_some(&mut self.stream, &self.shared, missing).await? {
                Some(bytes) => self.head.extend_from_slice(&bytes),
                None if self.left == 0 && self.head.is_empty() => return Ok(None),
                None => return Err(self.truncated()),
            }
            if self.head.len() == PIECE_HEAD_LEN {
                self.piece_left = self.take_head()?;
            }
        }
    }

    fn take_head(&mut self) -> Result<usize, RequestError> {
        let len = self.head.get_u32_le();
        self.head.clear();
        if u64::from(len) > self.left {
            return Err(RequestError::Malformed("the body goes on after its declared end"));
        }
        if len as usize > BODY_PIECE_MAX {
            return Err(RequestError::Malformed("a piece of the body is too long"));
        }
        Ok(len as usize)
    }

    fn truncated(&self) -> RequestError {
        RequestError::Truncated { got: self.len - self.left, declared: self.len }
    }
}
