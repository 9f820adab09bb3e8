//! Floor 1: what a child replica and its parent say to each other, as bytes.
//!
//! [`Message`] is the vocabulary, [`encode`] and [`decode`] the codec, [`check`] the
//! bounds that hold for anything a peer may send. `docs/format/wire.md` draws the bytes.

// What is new must be thought of wherever kinds are told apart.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod check;
mod codec;
mod down;
mod message;
mod parts;
#[cfg(test)]
mod tests;
mod up;

pub use check::{CLAIM_MAX, FACTS_MAX, LOCKS_TOLD_MAX, Malformed, ROOMS_MAX, SEEN_MAX};
pub use codec::{Cut, LEN_MAX, WireError, decode, encode, encode_image, encode_images, image_len, record_len};
pub use down::Down;
pub use message::Message;
pub use parts::{
    Applied, AskId, AskedVersion, DelegationId, FrameSerial, Full, HaveList, HeldVersion, KeyImage, LentVersion,
    LockVerdict, Mark, Omitted, Question, QuotaRoom, RecallId, Resume, Room, Sealed, SentRecord, ServerRoom, Span,
    Stamp, Then, Verdict,
};
pub use up::Up;
