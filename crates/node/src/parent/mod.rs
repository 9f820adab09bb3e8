//! The session to the parent. `wayfs-roam` decides which server it is, and when to move; this is its driver, and what can be said of it.

mod adopting;
mod driver;
mod known_servers;
mod link;
mod readmission;
mod sampling;
mod status;
mod tasks;
mod throughput;
mod words;

pub use link::{LinkSettings, ParentLink};
pub use status::{CandidateStatus, LinkState, LinkStatus};
pub use throughput::Throughput;
