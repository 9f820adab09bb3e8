//! Reading what is kept, so that damage is found before the last good copy is gone.
//!
//! Disks damage what they keep without a word, and most contents are read once. A **pass** reads every chunk of all that is in use
//! here: what is damaged or gone is fetched anew from whoever has it, and what nobody has is said to the engine, whose home
//! decides what becomes of it (`wayfs_proto`, `lost.rs`). A thread makes one pass after the other, so slowly that nobody
//! notices (`pace.rs`), and goes on after a restart where it was (`position.rs`); a person may ask for a pass at once.

mod pace;
mod pass;
mod position;
mod scrubber;

#[cfg(test)]
pub(crate) use pass::Pass;
pub use position::{ScrubCounts, ScrubPosition};
pub use scrubber::ScrubError;
pub(crate) use scrubber::{Scrubber, run};
