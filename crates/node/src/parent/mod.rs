//! The session to the parent: which server, and when to move to another.

mod choice;
mod link;
mod measuring;
mod readmission;
mod search_error;
mod status;
mod throughput;

pub use link::{LinkSettings, ParentLink};
pub use status::{CandidateStatus, LinkState, LinkStatus};
pub use throughput::Throughput;
