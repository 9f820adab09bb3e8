//! How contents move between machines, decided without input or output.
//!
//! Each machine takes events and answers what is to be done: `handle(now, input)`, then `poll_output()` until it has none, then
//! `poll_timeout()`. Bytes of contents do not pass through it: it names digests, and its driver moves what they name. A peer
//! is whatever its driver names sessions by, small and ordered.
//!
//! * [`fetches`]: who waits for which chunk.
//! * [`push`]: bringing one content to the parent.
//! * [`search`]: whom to ask for a chunk that is not here.
//! * [`uploads`]: the queue of contents for the parent, and what becomes of those that fail.

// What is new must be thought of wherever kinds are told apart.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod fetches;
mod order;
mod patience;
mod piece;
pub mod push;
pub mod search;
pub mod uploads;
mod want;

pub use fetches::Fetches;
pub use order::{Order, PushId};
pub use patience::Patience;
pub use piece::{PIECES_MAX, Piece, Presence};
pub use push::Push;
pub use search::Search;
pub use uploads::Uploads;
pub use want::Want;
