//! Models of network links: when does a packet come out at the other end, if at all?
//!
//! Pure: time and randomness come in as arguments, so the simulator and the
//! user-space emulator run the same code and one seed gives one trace.
//!
//! [`Direction`] tells the fate of a packet when it is offered; [`Medium`] holds
//! packets while rates, delays and bad periods change over them, and lets several
//! lines share one channel. [`Profile`] names lines, [`description`] reads them
//! from files.

mod capacity;
pub mod description;
mod direction;
mod line;
mod loss;
mod medium;
mod nanos;
mod periods;
mod profile;
mod propagation;
mod receiver;
mod temporal;

pub use capacity::{Capacity, TraceError};
pub use direction::{Direction, DirectionConfig, Fate, Statistics};
pub use line::{LineConfig, LineState, LineStatistics, Way, WayStatistics};
pub(crate) use loss::bit_error_loss;
pub use loss::{Probability, ProbabilityError};
pub use medium::{Delivery, Duplex, LineId, Medium};
pub use periods::{BadPeriods, Judged, Met};
pub use profile::{PROFILES, Profile};
pub use propagation::{DelaySample, DelayTrace, DelayTraceError};
pub use receiver::{ReceiverConfig, WhenFull};
pub use temporal::{Durations, Temporal, TemporalState};
