//! Operations of the file system, as any front end asks for them: the kernel through `crate::fuse`, a test by a call.
//!
//! What is known here is answered on the thread that asks. What must wait for the network is answered later from the engine's
//! callback or from a worker; no thread that asks ever waits for the network. Every wait has a bound, and a signal that asks the
//! program to end ends it.
//!
//! The kernel caches names, attributes and pages for a long time; the replica's hooks break what it caches through
//! [`crate::notices`].

mod acl;
mod asking;
pub mod attribute_changes;
pub mod attributes;
mod caller;
mod cold;
mod committing;
mod copy_sources;
pub(crate) mod copying;
pub mod core;
pub mod data;
mod directory_page;
mod error;
mod following;
pub mod handles;
mod held_locks;
pub mod identity;
mod ids;
mod in_step;
mod interrupting;
mod kernel;
pub mod listing;
pub(crate) mod lock_wishes;
pub mod locks;
mod memory_locks;
mod nameless;
pub mod names;
pub mod opening;
pub mod pending;
pub mod people;
pub(crate) mod permission;
mod readdir;
pub mod reply;
pub mod results;
pub mod saving;
mod second_walks;
mod settings;
mod shared_memory;
mod shown;
mod signals;
mod space;
mod syncing;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod warmed;
mod warming;
mod write_pattern;
pub mod xattrs;

pub use caller::{Caller, Credentials, Interrupt};
pub use core::FileSystem;
pub use directory_page::{Detail, DirectoryEntry, DirectoryPage, PageRequest, Taken};
pub use error::Error;
pub use identity::{Identities, NumberPair, Numbers};
pub use ids::{HandleId, LockOwner, Token};
pub use kernel::{Abilities, Kernel, NotRegistered};
pub use lock_wishes::{ConflictingLock, LockScope, LockTest, LockWait, LockWish, Unlock};
pub use people::People;
pub use settings::{Close, FileSystemSettings};
