//! Answering a peer's requests.

use crate::close::StreamCode;
use crate::gate::GatePermit;
use crate::priority::Priority;
use crate::request_error::{HEADER_LEN_MAX, RequestError};
use crate::request_head::{
    ANSWER_HERE, ANSWER_LATER, ANSWER_MOVES, KIND_REQUEST, Lengths, put_lengths, read_header, read_lengths,
};
use crate::shared::Shared;
use crate::stream::{read_full, reset, stop, write_full};
use crate::traffic::count;
use crate::{RecvBody, SendBody};
use bytes::{BufMut, Bytes, BytesMut};
use quinn::{RecvStream, SendStream};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::debug;

/// Bytes of headers that may wait for [`Connection::accept_request`](crate::Connection::accept_request).
const HEADERS_BYTES_MAX: usize = 16 << 20;
/// Requests that may wait, read and whole, for [`Connection::accept_request`](crate::Connection::accept_request).
const REQUESTS_LEN_MAX: usize = 64;

/// A peer's request.
#[derive(Debug)]
pub struct IncomingRequest {
    /// What is asked.
    pub header: Bytes,
    /// The body sent along; often empty.
    pub body: RecvBody,
    /// Where the answer goes.
    pub responder: Responder,
    /// How urgent the peer thinks it is; the answer goes at this priority.
    pub priority: Priority,
}

/// Answers one request. Dropped without an answer, it refuses the request with
/// [`StreamCode::NO_ANSWER`].
#[derive(Debug)]
pub struct Responder {
    stream: Option<SendStream>,
    shared: Arc<Shared>,
}

/// A request and the share of memory that its header has until it is taken.
pub(crate) type Queued = (IncomingRequest, OwnedSemaphorePermit);

impl Responder {
    /// Tells the peer that the answer will come though it takes long. To be called more often
    /// than the peer's idle timeout.
    ///
    /// # Errors
    /// [`RequestError::Refused`] if the peer took the request back, [`RequestError::Closed`].
    pub async fn still_here(&mut self) -> Result<(), RequestError> {
        self.sign(&[ANSWER_LATER]).await
    }

    /// The same, and that the work moves: whoever waits for silence to end has no reason to give up.
    ///
    /// # Errors
    /// As [`Responder::still_here`].
    pub async fn moves(&mut self) -> Result<(), RequestError> {
        self.sign(&[ANSWER_MOVES]).await
    }

    async fn sign(&mut self, sign: &'static [u8; 1]) -> Result<(), RequestError> {
        let Some(stream) = self.stream.as_mut() else { return Err(RequestError::Over) };
        write_full(stream, &self.shared, &mut [Bytes::from_static(sign)]).await
    }

    /// Answers without a body.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn answer(self, header: Bytes) -> Result<(), RequestError> {
        self.answer_with_body(header, 0).await?.finish().await
    }

    /// Answers with a body of `len` bytes, to be sent and finished. The header is on its way
    /// at once; if many large bodies are, too, this waits for its turn.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn answer_with_body(mut self, header: Bytes, len: u64) -> Result<SendBody, RequestError> {
        if header.len() > HEADER_LEN_MAX {
            return Err(RequestError::HeaderTooLong { len: header.len() as u64 });
        }
        let shared = Arc::clone(&self.shared);
        let charge = len.saturating_add(header.len() as u64);
        let permit = shared.gate.try_enter(charge);
        let Some(mut stream) = self.stream.take() else { return Err(RequestError::Over) };
        let mut head = BytesMut::with_capacity(13);
        head.put_u8(ANSWER_HERE);
        put_lengths(&mut head, Lengths { header: header.len(), body: len });
        write_full(&mut stream, &shared, &mut [head.freeze(), header]).await?;
        match permit {
            Some(permit) => Ok(SendBody::new(stream, shared, len, permit)),
            None => {
                let mut body = SendBody::new(stream, shared, len, GatePermit::none());
                body.wait_for_turn(charge).await?;
                Ok(body)
            }
        }
    }

    /// Refuses the request, and says why with a number.
    pub fn refuse(mut self, code: StreamCode) {
        if let Some(mut stream) = self.stream.take() {
            reset(&mut stream, code);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            reset(&mut stream, StreamCode::NO_ANSWER);
        }
    }
}

/// Reads the peer's requests, each in a task of its own so that a slow one stops no other,
/// until the connection ends. There are at most as many as the peer may open streams.
pub(crate) async fn read_requests(shared: Arc<Shared>, queue: mpsc::Sender<Queued>) {
    let memory = Arc::new(Semaphore::new(HEADERS_BYTES_MAX));
    let mut readers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = shared.quic.accept_bi() => match accepted {
                Ok((send, recv)) => {
                    let (shared, memory) = (Arc::clone(&shared), Arc::clone(&memory));
                    readers.spawn(read_request(shared, memory, queue.clone(), send, recv));
                }
                Err(_) => return,
            },
            Some(_) = readers.join_next() => {}
        }
    }
}

pub(crate) fn queue() -> (mpsc::Sender<Queued>, mpsc::Receiver<Queued>) {
    mpsc::channel(REQUESTS_LEN_MAX)
}

async fn read_request(
    shared: Arc<Shared>,
    memory: Arc<Semaphore>,
    queue: mpsc::Sender<Queued>,
    mut send: SendStream,
    recv: RecvStream,
) {
    match parse_request(&shared, memory, recv).await {
        Ok((header, body, priority, memory)) => {
            let _ = send.set_priority(priority.of_stream());
            count(&shared.counters.requests_received, 1);
            let responder = Responder { stream: Some(send), shared };
            // Nobody listens any more: the responder refuses when it is dropped.
            let _ = queue.send((IncomingRequest { header, body, responder, priority }, memory)).await;
        }
        Err(error) => {
            debug!(peer = %shared.peer, %error, "request refused");
            reset(&mut send, code_of(&error));
        }
    }
}

async fn parse_request(
    shared: &Arc<Shared>,
    memory: Arc<Semaphore>,
    mut recv: RecvStream,
) -> Result<(Bytes, RecvBody, Priority, OwnedSemaphorePermit), RequestError> {
    let mut start = [0; 2];
    if read_full(&mut recv, shared, &mut start).await? < start.len() {
        return Err(RequestError::Malformed("ends within its start"));
    }
    let (KIND_REQUEST, Some(priority)) = (start[0], Priority::from_wire(start[1])) else {
        stop(&mut recv, StreamCode::MALFORMED);
        return Err(RequestError::Malformed("not a request"));
    };
    let Lengths { header: header_len, body: body_len } = read_lengths(&mut recv, shared).await?;
    let permits = u32::try_from(header_len).expect("a header is at most 1 MiB");
    let memory = memory.acquire_many_owned(permits).await.expect("the semaphore of the headers is never closed");
    let header = read_header(&mut recv, shared, header_len).await?;
    Ok((header, RecvBody::new(recv, Arc::clone(shared), body_len), priority, memory))
}

fn code_of(error: &RequestError) -> StreamCode {
    match error {
        RequestError::HeaderTooLong { .. } => StreamCode::HEADER_TOO_LONG,
        RequestError::BodyTooLong { .. } => StreamCode::BODY_TOO_LONG,
        RequestError::Idle(_) | RequestError::Busy(_) => StreamCode::IDLE,
        RequestError::Closed(_) | RequestError::Refused(_) | RequestError::Over => StreamCode::ABANDONED,
        RequestError::Truncated { .. } | RequestError::Malformed(_) | RequestError::WrongLength => {
            StreamCode::MALFORMED
        }
    }
}
