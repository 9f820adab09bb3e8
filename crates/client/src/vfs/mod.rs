//! The mount: the kernel's requests turned into requests of the replica and operations on open files.
//!
//! What is known here is answered on the thread that read the request. What must wait for the
//! network is answered later from the engine's callback or from a worker; no thread that reads
//! requests ever waits for the network. Every wait has a bound, and a signal that asks the program to end ends it.
//!
//! The kernel caches names, attributes and pages for a long time; the replica's hooks break what it
//! caches through [`crate::notices`].

mod acl;
pub mod attribute_changes;
pub mod attributes;
mod cold;
mod copying;
pub mod core;
pub mod data;
pub mod dispatch;
pub mod errno;
mod following;
pub mod handles;
pub mod identity;
mod in_step;
pub mod listing;
pub mod locks;
#[cfg(test)]
mod mount_tests;
mod nameless;
pub mod names;
pub mod opening;
#[cfg(test)]
mod passthrough_write_tests;
pub mod pending;
pub mod people;
pub(crate) mod permission;
mod rehearsing;
pub mod saving;
mod second_walks;
mod shared_memory;
mod signals;
#[cfg(test)]
mod stale_tests;
mod warming;
mod write_pattern;
pub mod xattrs;

pub use core::{Close, Vfs, VfsSettings};
pub use dispatch::Front;
pub use identity::{Identities, Numbers};
pub use people::People;
