//! The session to the parent. `wayfs-roam` decides which server it is, and when to move; this is its driver, and what can be said of it.

mod adopting;
mod driver;
mod known_servers;
mod link;
mod readmission;
mod sampling;
mod shared;
mod status;
mod tasks;
mod throughput;
mod words;

pub use link::ParentLink;
pub use shared::LinkSettings;
pub use status::{CandidateStatus, LinkState, LinkStatus};
pub use throughput::Throughput;
