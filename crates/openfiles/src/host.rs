//! What open files ask of the machine that they are on: the time, and who else has a body.
//!
//! With [`super::contents`] beside it and [`super::kernel_way::Register`] above, these are all the ways by which a write becomes a
//! record: a test has a clock, a kernel and an engine of its own, and runs the same path without threads.

use super::body::BodyFile;
use wayfs_types::Time;

/// The machine below open files.
pub trait Host: Send + Sync + std::fmt::Debug {
    /// The clock by which commits become due. It counts time asleep.
    fn now(&self) -> Time;

    /// Whether programs have a body from the kernel, mappings included: they may store into it, and nobody hears of that.
    fn is_held_elsewhere(&self, body: &BodyFile) -> bool;
}
