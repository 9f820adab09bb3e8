//! Reading and writing a stream with a limit on silence.

use crate::RequestError;
use crate::close::{Closed, StreamCode};
use bytes::Bytes;
use quinn::{ReadError, RecvStream, SendStream, WriteError};
use std::time::Duration;
use tokio::time::timeout;

/// Fills `buffer`. Returns how much of it was filled: less than all only at the end.
pub(crate) async fn read_full(
    stream: &mut RecvStream,
    buffer: &mut [u8],
    idle: Duration,
) -> Result<usize, RequestError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match timeout(idle, stream.read(&mut buffer[filled..])).await {
            Err(_) => return Err(give_up(stream, idle)),
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
    max: usize,
    idle: Duration,
) -> Result<Option<Bytes>, RequestError> {
    match timeout(idle, stream.read_chunk(max, true)).await {
        Err(_) => Err(give_up(stream, idle)),
        Ok(Ok(chunk)) => Ok(chunk.map(|chunk| chunk.bytes)),
        Ok(Err(error)) => Err(read_failure(&error)),
    }
}

/// Writes all pieces. Not to be cancelled halfway if more is to be written after.
pub(crate) async fn write_full(
    stream: &mut SendStream,
    pieces: &mut [Bytes],
    idle: Duration,
) -> Result<(), RequestError> {
    let mut done = 0;
    while done < pieces.len() {
        if pieces[done].is_empty() {
            done += 1;
            continue;
        }
        match timeout(idle, stream.write_chunks(&mut pieces[done..])).await {
            Err(_) => return Err(RequestError::Idle(idle)),
            Ok(Ok(written)) => done += written.chunks,
            Ok(Err(error)) => return Err(write_failure(&error)),
        }
    }
    Ok(())
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

fn give_up(stream: &mut RecvStream, idle: Duration) -> RequestError {
    stop(stream, StreamCode::IDLE);
    RequestError::Idle(idle)
}
