//! How contents move between machines, decided without input or output.
//!
//! Each machine takes events and answers what is to be done: `handle(now, input)`, then `poll_output()` until it has none, then
//! `poll_timeout()`. Bytes of contents do not pass through it: it names digests, and its driver moves what they name. A peer
//! is whatever its driver names sessions by, small and ordered.
//!
//! * [`push`]: bringing one content to the parent.
//! * [`uploads`]: the queue of contents for the parent, and what becomes of those that fail.

mod order;
mod piece;
pub mod push;
pub mod uploads;

pub use order::{Order, PushId};
pub use piece::{PIECES_MAX, Piece, Presence};
pub use push::Push;
pub use uploads::Uploads;
