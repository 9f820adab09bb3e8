//! How a request and its answer begin, on a stream of their own.
//!
//! ```text
//! question: kind u8 = 1 | priority u8 | header len u32 | body len u64 | header | body
//! answer:   { 0 u8 | 2 u8 }  1 u8     | header len u32 | body len u64 | header | body
//! ```
//!
//! Numbers are little-endian. Each 0 before an answer says "still at work", each 2 the same and that the work moves: what
//! it waits for itself is on its way. What the headers mean is the application's business.

use crate::close::StreamCode;
use crate::request_error::{HEADER_LEN_MAX, RequestError};
use crate::shared::Shared;
use crate::stream::{read_full, stop};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quinn::RecvStream;

pub(crate) const KIND_REQUEST: u8 = 1;
pub(crate) const ANSWER_LATER: u8 = 0;
pub(crate) const ANSWER_HERE: u8 = 1;
pub(crate) const ANSWER_MOVES: u8 = 2;

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
