//! A deterministic simulator of whole volumes.
//!
//! Clients, stations and a home run the engine that ships, over simulated disks,
//! chunk stores, links and clocks. Faults come first (safety is checked all the
//! time), then the world is healed and must converge (liveness). One seed is one
//! trace.

mod administrator;
mod bug_hunt;
mod cancelled;
mod check;
mod claims;
mod contents;
mod counter;
mod counts;
mod coverage;
mod dcache;
mod disk;
mod exclusive;
pub mod explore;
mod faults;
mod fences;
mod heirs;
mod history;
mod host;
mod lock_use;
mod locks;
mod looking;
mod makers;
mod network;
mod openfiles;
mod parent_choice;
mod parents;
mod plan;
pub mod planted;
mod policies;
mod propagation;
mod push;
mod pushing;
mod quiet;
mod reader;
mod reading;
mod run;
mod search;
mod shared_changes;
mod sharing;
mod shrink;
mod stores;
mod tally;
mod tree_dump;
mod uploads;
mod users;
mod violation;
mod workload;
mod world;

#[cfg(test)]
mod tests;

pub use coverage::{Branch, Coverage};
pub use openfiles::plan::OpenFilesPlan;
pub use plan::{Disaster, Limits, Operation, Plan, Step};
pub use planted::Bug;
pub use run::{Report, run, run_planned};
pub use shrink::{Shrunk, shrink};
pub use stores::StoresPlan;
pub use violation::Violation;
pub use world::Verbosity;
