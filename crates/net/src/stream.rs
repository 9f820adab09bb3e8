//! Reading and writing a stream with a limit on silence.
//!
//! A stream that is silent for [`request_idle_timeout`](crate::NetConfig::request_idle_timeout)
//! is given up, with one exception: on a slow path the frames, more urgent bodies, and what
//! was queued before go first, and the peer opens a stream's window in steps that may take
//! long to fill. So silence does not count while the connection moves other streams: for a
//! writer, until more was delivered than could have been queued before it; for a reader, up
//! to [`SILENCE_FACTOR_MAX`] times the timeout.

use crate::close::{Closed, StreamCode};
use crate::gate::Gate;
use crate::request_error::RequestError;
use crate::shared::Shared;
use bytes::Bytes;
use quinn::{ReadError, RecvStream, SendStream, WriteError};
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// How many idle timeouts a reader waits at most, however busy the connection: 2 minutes
/// with the default. A writer has no such limit, since on a path of modem speed one step of
/// the window alone may take longer, and what it holds up is its own connection only.
const SILENCE_FACTOR_MAX: u32 = 12;

/// More than probes and keep-alives deliver in half a timeout: some 40 of 35 bytes.
const PROBES_BYTES: u64 = 4 << 10;

/// Fills `buffer`. Returns how much of it was filled: less than all only at the end.
pub(crate) async fn read_full(
    stream: &mut RecvStream,
    shared: &Shared,
    buffer: &mut [u8],
) -> Result<usize, RequestError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match patiently(shared, Way::In, stream.read(&mut buffer[filled..])).await {
            Err(error) => return Err(give_up(stream, error)),
            Ok(Ok(Some(count))) => filled += count,
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err(read_failure(&error)),
        }
    }
    Ok(filled)
}

/// The next bytes in order, at most `max`; `None` at the end. May be cancelled.
pub(crate) async fn read_some(
    stream: &mut RecvStream,
    shared: &Shared,
    max: usize,
) -> Result<Option<Bytes>, RequestError> {
    match patiently(shared, Way::In, stream.read_chunk(max, true)).await {
        Err(error) => Err(give_up(stream, error)),
        Ok(Ok(chunk)) => Ok(chunk.map(|chunk| chunk.bytes)),
        Ok(Err(error)) => Err(read_failure(&error)),
    }
}

/// Writes all pieces. Not to be cancelled halfway if more is to be written after.
pub(crate) async fn write_full(
    stream: &mut SendStream,
    shared: &Shared,
    pieces: &mut [Bytes],
) -> Result<(), RequestError> {
    let mut done = 0;
    while done < pieces.len() {
        if pieces[done].is_empty() {
            done += 1;
            continue;
        }
        match patiently(shared, Way::Out, stream.write_chunks(&mut pieces[done..])).await? {
            Ok(written) => done += written.chunks,
            Err(error) => return Err(write_failure(&error)),
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// What a connection moved until some moment.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    /// Bytes that the peer acknowledged. This goes on while a deep queue empties and nothing
    /// can be sent, and stops in an outage, when much is sent for nothing.
    delivered: u64,
    /// Parts of streams received.
    received: u64,
}

impl Moved {
    pub(crate) fn by(shared: &Shared) -> Self {
        Self { delivered: shared.path.view().delivered, received: shared.quic.stats().frame_rx.stream }
    }

    /// Whether parts of streams came since then, or more was delivered than signs of life.
    pub fn is_more_than(self, then: Self) -> bool {
        self.busy_since(then, Way::In)
    }

    /// Whether streams moved since then. A reader looks both ways: what it waits for may be
    /// the answer to what this side is still sending.
    fn busy_since(self, then: Self, way: Way) -> bool {
        // A path that changed starts to count anew, which is a sign of life, too.
        let sent = self.delivered.abs_diff(then.delivered) > PROBES_BYTES;
        match way {
            Way::Out => sent,
            Way::In => sent || self.received != then.received,
        }
    }
}

/// Waits for one step of a stream as long as it makes sense. The connection is looked at
/// only after half a timeout of silence, so that steps that come soon cost nothing.
async fn patiently<T>(shared: &Shared, way: Way, step: impl Future<Output = T>) -> Result<T, RequestError> {
    let config = &shared.config;
    let much = 2 * Gate::shared_window(config);
    let mut step = pin!(step);
    let mut begun: Option<Moved> = None;
    let mut last: Option<Moved> = None;
    let mut silence = Duration::ZERO;
    for halves in 1u32.. {
        // On a path with a deep queue nothing moves here while that queue empties.
        let half = (config.request_idle_timeout / 2).max(2 * shared.quic.rtt());
        if let Ok(done) = timeout(half, &mut step).await {
            return Ok(done);
        }
        silence += half;
        let moved = Moved::by(shared);
        let first = *begun.get_or_insert(moved);
        let quiet = last.is_some_and(|last| !moved.busy_since(last, way));
        let passed_over = way == Way::Out && moved.delivered.saturating_sub(first.delivered) > much;
        let too_long = way == Way::In && halves >= 2 * SILENCE_FACTOR_MAX;
        if quiet || (halves >= 2 && (passed_over || too_long)) {
            return Err(RequestError::Idle(silence));
        }
        last = Some(moved);
    }
    Err(RequestError::Idle(config.request_idle_timeout))
}

pub(crate) fn read_failure(error: &ReadError) -> RequestError {
    match error {
        ReadError::Reset(code) => RequestError::Refused(StreamCode::from_wire(*code)),
        ReadError::ConnectionLost(error) => RequestError::Closed(Closed::from(error)),
        ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected => RequestError::Over,
    }
}

pub(crate) fn write_failure(error: &WriteError) -> RequestError {
    match error {
        WriteError::Stopped(code) => RequestError::Refused(StreamCode::from_wire(*code)),
        WriteError::ConnectionLost(error) => RequestError::Closed(Closed::from(error)),
        WriteError::ClosedStream | WriteError::ZeroRttRejected => RequestError::Over,
    }
}

/// Tells the peer to stop; a stream that is over already needs no telling.
pub(crate) fn stop(stream: &mut RecvStream, code: StreamCode) {
    let _ = stream.stop(code.to_wire());
}

/// Takes back what was not delivered; a stream that is over already stays as it is.
pub(crate) fn reset(stream: &mut SendStream, code: StreamCode) {
    let _ = stream.reset(code.to_wire());
}

fn give_up(stream: &mut RecvStream, error: RequestError) -> RequestError {
    stop(stream, StreamCode::IDLE);
    error
}
