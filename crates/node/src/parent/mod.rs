//! The session to the parent: which server, and when to move to another.

mod choice;
mod dialling;
mod link;
mod measuring;
mod readmission;
mod sampling;
mod search_error;
mod searching;
mod status;
mod throughput;
mod watching;

pub use link::{LinkSettings, ParentLink};
pub use status::{CandidateStatus, LinkState, LinkStatus};
pub use throughput::Throughput;
