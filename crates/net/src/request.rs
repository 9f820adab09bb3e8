//! Requests: one question and one answer, each with a body, on a stream of their own.
//!
//! ```text
//! question: kind u8 = 1 | priority u8 | header len u32 | body len u64 | header | body
//! answer:   { 0 u8 | 2 u8 }  1 u8     | header len u32 | body len u64 | header | body
//! ```
//!
//! Numbers are little-endian. Each 0 before an answer says "still at work", each 2 the same and that the work moves: what
//! it waits for itself is on its way. What the headers mean is the application's business.

use crate::close::{Closed, StreamCode};
use crate::connection::{Connection, Shared};

use crate::stream::{read_full, stop, write_full};
use crate::traffic::count;
use crate::{RecvBody, SendBody, Waiting};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quinn::{RecvStream, SendStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Longest header of a request or an answer, in bytes: 1 MiB.
pub const HEADER_LEN_MAX: usize = 1 << 20;

pub(crate) const KIND_REQUEST: u8 = 1;
pub(crate) const ANSWER_LATER: u8 = 0;
pub(crate) const ANSWER_HERE: u8 = 1;
pub(crate) const ANSWER_MOVES: u8 = 2;

/// Which bodies go first. Frames always go before both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Nobody waits for it: contents sent ahead of need.
    Background,
    /// A program waits for it.
    #[default]
    Foreground,
}

impl Priority {
    /// That of a stream until its body begins.
    pub(crate) const fn of_stream(self) -> i32 {
        match self {
            Self::Background => 0,
            // Room for the turns of bodies below each, see `turns.rs`.
            Self::Foreground => 1 << 30,
        }
    }

    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::Background => 0,
            Self::Foreground => 1,
        }
    }

    pub(crate) const fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Background),
            1 => Some(Self::Foreground),
            _ => None,
        }
    }
}

/// Why a request, or a body, failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The connection is over.
    #[error("the connection is over: {0}")]
    Closed(#[from] Closed),
    /// The peer gave this request up; the connection lives on.
    #[error("the peer gave the request up: {0}")]
    Refused(StreamCode),
    /// Nothing moved for this long.
    #[error("nothing moved for {} s", .0.as_secs_f32())]
    Idle(Duration),
    /// The peer has as many requests open as it allows, and none ended in this time.
    #[error("the peer took no new request for {} s", .0.as_secs_f32())]
    Busy(Duration),
    /// A header is longer than [`HEADER_LEN_MAX`].
    #[error("a header of {len} bytes is too long (at most {HEADER_LEN_MAX})")]
    HeaderTooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// A body is longer than this side allows.
    #[error("a body of {len} bytes is too long (at most {max})")]
    BodyTooLong {
        /// Its declared length in bytes.
        len: u64,
        /// The most allowed, in bytes.
        max: u64,
    },
    /// The stream ended before the declared length.
    #[error("the body ended after {got} of {declared} bytes")]
    Truncated {
        /// Bytes that came.
        got: u64,
        /// Bytes that were declared.
        declared: u64,
    },
    /// Bytes that are no request, answer or body.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// This side sent more or fewer bytes than it declared.
    #[error("the body sent has not the length declared")]
    WrongLength,
    /// The stream is over already.
    #[error("the stream is over")]
    Over,
}

/// How often the other side said of one request that its work moves.
#[derive(Debug, Default)]
pub struct SignsOfProgress(AtomicU64);

impl SignsOfProgress {
    /// So often until now.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A request on its way, whose answer is still to come.
#[derive(Debug)]
pub struct Call {
    stream: RecvStream,
    shared: Arc<Shared>,
    _waiting: Waiting,
}

impl Connection {
    /// Asks, without a body, and waits for the answer's header; its body follows in pieces.
    /// Dropping the future takes the request back. The wait is bounded by silence only
    /// ([`request_idle_timeout`](crate::NetConfig::request_idle_timeout)).
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn request(&self, header: Bytes) -> Result<(Bytes, RecvBody), RequestError> {
        self.request_at(header, Priority::Foreground).await
    }

    /// The same with a priority, which the answer's body has, too.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn request_at(&self, header: Bytes, priority: Priority) -> Result<(Bytes, RecvBody), RequestError> {
        self.request_watched(header, priority, &SignsOfProgress::default()).await
    }

    /// The same; `signs` counts meanwhile how often the other side says that its work moves.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn request_watched(
        &self,
        header: Bytes,
        priority: Priority,
        signs: &SignsOfProgress,
    ) -> Result<(Bytes, RecvBody), RequestError> {
        let (body, call) = self.upload(header, 0, priority).await?;
        body.finish().await?;
        call.answer_watched(signs).await
    }

    /// Asks with a body of `len` bytes: send it, finish it, and wait for the answer. Waits
    /// for its turn first if many large bodies are on their way. The answer may come before
    /// the body is sent, if the peer needs no more of it.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn upload(&self, header: Bytes, len: u64, priority: Priority) -> Result<(SendBody, Call), RequestError> {
        if header.len() > HEADER_LEN_MAX {
            return Err(RequestError::HeaderTooLong { len: header.len() as u64 });
        }
        let shared = self.shared();
        let waiting = shared.waits.hold();
        let permit = tokio::select! {
            permit = shared.gate.enter(len.saturating_add(header.len() as u64)) => permit,
            closed = shared.quic.closed() => return Err(Closed::from(&closed).into()),
        };
        let (mut send, recv) = open(shared).await?;
        // Only a stream that is over refuses a priority, and then the write says so.
        let _ = send.set_priority(priority.of_stream());
        let mut head = BytesMut::with_capacity(14);
        head.put_u8(KIND_REQUEST);
        head.put_u8(priority.to_wire());
        put_lengths(&mut head, Lengths { header: header.len(), body: len });
        write_full(&mut send, shared, &mut [head.freeze(), header]).await?;
        count(&shared.counters.requests_sent, 1);
        let body = SendBody::new(send, Arc::clone(shared), len, permit);
        Ok((body, Call { stream: recv, shared: Arc::clone(shared), _waiting: waiting }))
    }
}

impl Call {
    /// Waits for the answer's header; its body follows in pieces.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn answer(self) -> Result<(Bytes, RecvBody), RequestError> {
        self.answer_watched(&SignsOfProgress::default()).await
    }

    async fn answer_watched(mut self, signs: &SignsOfProgress) -> Result<(Bytes, RecvBody), RequestError> {
        loop {
            let mut status = [0];
            if read_full(&mut self.stream, &self.shared, &mut status).await? == 0 {
                return Err(RequestError::Malformed("no answer"));
            }
            match status[0] {
                ANSWER_LATER => {}
                ANSWER_MOVES => {
                    signs.0.fetch_add(1, Ordering::Relaxed);
                }
                ANSWER_HERE => break,
                _ => {
                    stop(&mut self.stream, StreamCode::MALFORMED);
                    return Err(RequestError::Malformed("neither an answer nor a sign of life"));
                }
            }
        }
        let lengths = read_lengths(&mut self.stream, &self.shared).await?;
        let header = read_header(&mut self.stream, &self.shared, lengths.header).await?;
        Ok((header, RecvBody::new(self.stream, self.shared, lengths.body)))
    }
}

/// Bytes of the two parts of a request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lengths {
    pub(crate) header: usize,
    pub(crate) body: u64,
}

pub(crate) fn put_lengths(head: &mut BytesMut, lengths: Lengths) {
    head.put_u32_le(u32::try_from(lengths.header).expect("a header is at most 1 MiB"));
    head.put_u64_le(lengths.body);
}

/// Reads both lengths and refuses what is too long.
pub(crate) async fn read_lengths(stream: &mut RecvStream, shared: &Shared) -> Result<Lengths, RequestError> {
    let mut lengths = [0; 12];
    if read_full(stream, shared, &mut lengths).await? < lengths.len() {
        return Err(RequestError::Malformed("ends within its lengths"));
    }
    let mut lengths = &lengths[..];
    let (header_len, body_len) = (lengths.get_u32_le(), lengths.get_u64_le());
    if header_len as usize > HEADER_LEN_MAX {
        stop(stream, StreamCode::HEADER_TOO_LONG);
        return Err(RequestError::HeaderTooLong { len: u64::from(header_len) });
    }
    let max = shared.config.body_len_max;
    if body_len > max {
        stop(stream, StreamCode::BODY_TOO_LONG);
        return Err(RequestError::BodyTooLong { len: body_len, max });
    }
    Ok(Lengths { header: header_len as usize, body: body_len })
}

pub(crate) async fn read_header(stream: &mut RecvStream, shared: &Shared, len: usize) -> Result<Bytes, RequestError> {
    let mut header = BytesMut::zeroed(len);
    if read_full(stream, shared, &mut header).await? < len {
        return Err(RequestError::Malformed("ends within its header"));
    }
    Ok(header.freeze())
}

/// Opens a stream, waiting while the peer has as many as it allows.
pub(crate) async fn open(shared: &Shared) -> Result<(SendStream, RecvStream), RequestError> {
    let patience = shared.config.request_idle_timeout;
    match timeout(patience, shared.quic.open_bi()).await {
        Err(_) => Err(RequestError::Busy(patience)),
        Ok(opened) => opened.map_err(|error| RequestError::Closed(Closed::from(&error))),
    }
}
