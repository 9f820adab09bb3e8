//! Why connections and streams end: numbers for the wire, causes for people.

use quinn::TransportErrorCode;
use std::fmt;

/// The number a connection is closed with, told to the peer.
///
/// Below 1000 the numbers are this crate's; from [`CloseCode::APPLICATION`] on
/// they belong to whoever uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloseCode(u32);

impl CloseCode {
    /// Done; nothing is wrong.
    pub const GOODBYE: Self = Self(0);
    /// A frame of a kind that this version does not know.
    pub const FRAME_KIND: Self = Self(1);
    /// A frame that declared more than [`crate::FRAME_LEN_MAX`] bytes.
    pub const FRAME_TOO_LONG: Self = Self(2);
    /// The control stream ended in the middle of a frame, or was refused.
    pub const CONTROL_LOST: Self = Self(3);
    /// The peer's key has no business here.
    pub const NOT_ADMITTED: Self = Self(4);
    /// The last handle of the connection was dropped.
    pub const DROPPED: Self = Self(5);
    /// The whole endpoint is going down.
    pub const SHUTDOWN: Self = Self(6);
    /// A packed frame that cannot be unpacked.
    pub const FRAME_DAMAGED: Self = Self(7);
    /// First number that this crate never uses.
    pub(crate) const APPLICATION: u32 = 1000;

    /// A number of the application's own, counted from [`CloseCode::APPLICATION`].
    pub const fn application(number: u32) -> Self {
        Self(Self::APPLICATION.saturating_add(number))
    }

    /// The plain number.
    pub const fn raw(self) -> u32 {
        self.0
    }

    pub(crate) fn from_wire(code: quinn::VarInt) -> Self {
        // Larger numbers than ours cannot be told apart from "unknown", and need not be.
        Self(u32::try_from(code.into_inner()).unwrap_or(u32::MAX))
    }

    pub(crate) fn to_wire(self) -> quinn::VarInt {
        quinn::VarInt::from_u32(self.0)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::GOODBYE => f.write_str("goodbye"),
            Self::FRAME_KIND => f.write_str("unknown kind of frame"),
            Self::FRAME_TOO_LONG => f.write_str("frame too long"),
            Self::CONTROL_LOST => f.write_str("control stream lost"),
            Self::NOT_ADMITTED => f.write_str("not admitted"),
            Self::DROPPED => f.write_str("dropped"),
            Self::SHUTDOWN => f.write_str("shutting down"),
            Self::FRAME_DAMAGED => f.write_str("packed frame damaged"),
            Self(other) => write!(f, "code {other}"),
        }
    }
}

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// This side closed it.
    #[error("closed on this side")]
    ByUs,
    /// The peer closed it, for the reason it gave.
    #[error("closed by the peer: {code}{}{reason}", if reason.is_empty() { "" } else { ": " })]
    ByPeer {
        /// The peer's number.
        code: CloseCode,
        /// The peer's words, cleaned of control characters; may be empty.
        reason: String,
    },
    /// Nothing was heard for the idle timeout.
    #[error("nothing was heard from the peer for too long")]
    TimedOut,
    /// The peer restarted and knows nothing of this connection.
    #[error("the peer has restarted")]
    Restarted,
    /// The transport failed: a handshake refused, or a broken peer.
    #[error("transport: {0}")]
    Transport(String),
}

/// What TLS says to a peer that offers no protocol known here.
const NO_COMMON_PROTOCOL: u8 = 120;

impl From<&quinn::ConnectionError> for Closed {
    fn from(error: &quinn::ConnectionError) -> Self {
        use quinn::ConnectionError as Quic;
        match error {
            Quic::LocallyClosed => Self::ByUs,
            Quic::ApplicationClosed(close) => {
                Self::ByPeer { code: CloseCode::from_wire(close.error_code), reason: clean(&close.reason) }
            }
            Quic::TimedOut => Self::TimedOut,
            Quic::Reset => Self::Restarted,
            Quic::ConnectionClosed(close) if close.error_code == TransportErrorCode::crypto(NO_COMMON_PROTOCOL) => {
                Self::Transport("the peer speaks another version of this protocol, or another one".to_owned())
            }
            Quic::VersionMismatch | Quic::TransportError(_) | Quic::ConnectionClosed(_) | Quic::CidsExhausted => {
                Self::Transport(error.to_string())
            }
        }
    }
}

/// The number a single stream is given up with, told to the peer.
///
/// As with [`CloseCode`], numbers from 1000 on are the application's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamCode(u32);

impl StreamCode {
    /// The side that read or wrote lost interest.
    pub const ABANDONED: Self = Self(0);
    /// The responder was dropped without an answer.
    pub const NO_ANSWER: Self = Self(1);
    /// A header longer than [`crate::HEADER_LEN_MAX`].
    pub const HEADER_TOO_LONG: Self = Self(2);
    /// A body declared longer than allowed, or longer than declared.
    pub const BODY_TOO_LONG: Self = Self(3);
    /// Bytes that are no request or no answer.
    pub const MALFORMED: Self = Self(4);
    /// No byte came in the time allowed.
    pub const IDLE: Self = Self(5);
    /// First number that this crate never uses.
    pub(crate) const APPLICATION: u32 = 1000;

    /// A number of the application's own, counted from [`StreamCode::APPLICATION`].
    pub const fn application(number: u32) -> Self {
        Self(Self::APPLICATION.saturating_add(number))
    }

    /// The plain number.
    pub const fn raw(self) -> u32 {
        self.0
    }

    pub(crate) fn from_wire(code: quinn::VarInt) -> Self {
        Self(u32::try_from(code.into_inner()).unwrap_or(u32::MAX))
    }

    pub(crate) fn to_wire(self) -> quinn::VarInt {
        quinn::VarInt::from_u32(self.0)
    }
}

impl fmt::Display for StreamCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ABANDONED => f.write_str("abandoned"),
            Self::NO_ANSWER => f.write_str("no answer"),
            Self::HEADER_TOO_LONG => f.write_str("header too long"),
            Self::BODY_TOO_LONG => f.write_str("body too long"),
            Self::MALFORMED => f.write_str("malformed"),
            Self::IDLE => f.write_str("idle too long"),
            Self(other) => write!(f, "code {other}"),
        }
    }
}

/// Longest reason shown, in characters: a peer's words end up in logs.
const REASON_LEN_MAX: usize = 200;

fn clean(reason: &[u8]) -> String {
    String::from_utf8_lossy(reason).chars().map(|c| if c.is_control() { ' ' } else { c }).take(REASON_LEN_MAX).collect()
}
