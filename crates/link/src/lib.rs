//! Models of network links: when does a packet come out at the other end, if at all?
//!
//! Pure: time and randomness come in as arguments, so the simulator and the
//! user-space emulator run the same code and one seed gives one trace.

mod capacity;
mod direction;
mod loss;
mod profile;
mod temporal;

pub use capacity::{Capacity, TraceError};
pub use direction::{Direction, DirectionConfig, Fate, Statistics};
pub use loss::{Probability, ProbabilityError, bit_error_loss};
pub use profile::{PROFILES, Profile};
pub use temporal::{Durations, Temporal, TemporalState};
