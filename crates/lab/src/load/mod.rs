//! Load on a file system: a mix of operations, offered at a rate, carried out by a fixed number of workers.
//!
//! A [`plan`] says which operation is due when (Poisson arrivals, all from a seed). [`carry_out`] gives each to the next free
//! [`Worker`]: if all are busy it waits, as a request does at a load generator of SPEC SFS. The response time of an operation
//! is counted from its begin, not from when it was due, and what is *delivered* is what ended, not what was offered; both as
//! SFS has it. [`Level`] is what one such run says.

mod carry_out;
mod level;
mod mix;
mod plan;

pub use carry_out::{Done, Worker, carry_out};
pub use level::{Level, Window};
pub(crate) use mix::SFS;
pub use mix::{Mix, Operation};
pub use plan::{Planned, plan};
