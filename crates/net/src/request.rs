//! Requests: one question and one answer, each with a body, on a stream of their own.
//!
//! The bytes of both are in `request_head.rs`.

use crate::close::{Closed, StreamCode};
use crate::connection::Connection;
use crate::priority::Priority;
use crate::request_error::{HEADER_LEN_MAX, RequestError};
use crate::request_head::{
    ANSWER_HERE, ANSWER_LATER, ANSWER_MOVES, KIND_REQUEST, Lengths, put_lengths, read_header, read_lengths,
};
use crate::shared::Shared;
use crate::stream::{read_full, stop, write_full};
use crate::traffic::count;
use crate::{RecvBody, SendBody, Waiting};
use bytes::{BufMut, Bytes, BytesMut};
use quinn::{RecvStream, SendStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::timeout;

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

/// Opens a stream, waiting while the peer has as many as it allows.
pub(crate) async fn open(shared: &Shared) -> Result<(SendStream, RecvStream), RequestError> {
    let patience = shared.config.request_idle_timeout;
    match timeout(patience, shared.quic.open_bi()).await {
        Err(_) => Err(RequestError::Busy(patience)),
        Ok(opened) => opened.map_err(|error| RequestError::Closed(Closed::from(&error))),
    }
}
