//! The rules of WayFS: the sole place where a tree changes.
//!
//! Floor 1, pure: what a record does to a tree ([`apply`]), how a local change
//! becomes a record ([`build`]), which records of an unsent log can go
//! ([`Canceller`]), and what holds of every tree ([`check`]). No input or
//! output, no clock, no randomness.
//!
//! `docs/conflicts.md` tells users what happens when two updates meet.

// What is new must be thought of wherever kinds are told apart.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod apply;
mod attributes;
mod build;
mod cancel;
mod chain;
mod check;
mod conflict_name;
mod edit;
mod effect;
mod exchange;
mod landing;
mod limits;
mod lineage;
mod lost;
mod make;
mod names;
mod remove;
mod rename;
mod store;
mod view;

pub use apply::apply;
pub use build::{Author, BuildError, XATTR_VALUE_LEN_MAX, build};
pub use cancel::{Canceller, CreateFolding, parents_of};
pub use chain::chained;
pub use check::{Violation, check};
pub use edit::root_inode;
pub use effect::{Effect, Outcome, Stored};
pub use limits::{Lies, PART_DEPTH_MAX, lies};
pub use names::{has_name, names_of};
pub use view::{
    ALIAS_CHAIN_MAX, MemoryView, NameCursor, View, ViewMut, applied, applied_chain, entry, inode, purgeable, resolve,
};
