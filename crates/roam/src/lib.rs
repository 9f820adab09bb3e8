//! Which server is the parent: searching, greeting, measuring, moving, giving up.
//!
//! Floor 1, pure. One machine, [`Roam`], decides and times everything; a driver dials, greets and attaches for it. The same
//! machine runs in the daemon (`node::parent`) and in the simulator (`sim::world::roaming`).
//!
//! ```text
//! impl Roam {
//!     pub fn handle(&mut self, now: Time, input: Input);
//!     pub fn poll_output(&mut self) -> Option<Output>;    // until None
//!     pub fn poll_timeout(&self) -> Option<Time>;         // when to feed Input::Tick
//! }
//! ```

// What is new must be thought of wherever kinds are told apart.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod api;
mod attached;
mod choice;
mod greeting;
mod known;
mod machine;
mod measuring;
mod outbox;
mod pauses;
mod round;
mod searching;
#[cfg(test)]
mod tests;
mod volley;

pub use api::{
    AddressVersion, AskedIn, Config, DialId, Failure, GreetRefusal, Input, Leaving, Output, Parents, Server,
    ServerKind, TaskId, Why,
};
pub use machine::Roam;
