//! Why a request, or one of its bodies, fails.

use crate::close::{Closed, StreamCode};
use std::time::Duration;

/// Longest header of a request or an answer, in bytes: 1 MiB.
pub const HEADER_LEN_MAX: usize = 1 << 20;

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
