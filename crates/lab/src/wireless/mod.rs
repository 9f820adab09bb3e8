//! TCP over a lossy hop, simulated: end points of crate `tcp`, hops of crate `link`, and what crate `hop` does about them.
//!
//! A path is a row of [`Stage`]s from a fixed host to a mobile: wires, and hops over the air with a scheme at their ends. A
//! [`Transfer`] runs connections over it in virtual time. One seed decides every loss and every phase of a timer,
//! so one seed is one result.

mod carried;
mod errors;
mod reader;
mod route;
mod stage;
mod transfer;

use errors::Errors;
pub(crate) use reader::Reader;
pub(crate) use route::{Below, Hop, Repeats, Route};
pub(crate) use transfer::{Outcome, Trace, Transfer};
