//! TCP end points in packets and virtual time, for experiments with lossy hops.
//!
//! Pure: time comes in as an argument, segments come out of [`Endpoint::poll_segment`] and go into
//! [`Endpoint::handle_segment`]; payload is counted, not carried. [`Scheme`] says how a sender finds losses and what it does
//! about its window, a file each; [`Timers`] says whether its timers are those of BSD (ticks of 500 ms) or fine ones.
//!
//! What is left out because no experiment needs it: urgent data, simultaneous open, TIME-WAIT, path MTU discovery,
//! window scaling on the wire (windows are plain numbers here).

mod bbr;
mod config;
mod control;
mod cubic;
mod eln;
mod endpoint;
mod flight;
mod newreno;
mod receiver;
mod recovery;
mod reno;
mod rto;
mod sack;
mod schemes;
mod segment;
mod sender;
mod seq;
mod smart;

pub use config::{Config, Scheme, Timers};
pub use endpoint::{Endpoint, Event, State};
pub use segment::{Flags, Segment};
pub use sender::SenderStatistics;
pub use seq::Seq;

#[cfg(test)]
mod tests;
