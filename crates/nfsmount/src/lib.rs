//! An NFS export as a mount: the kernel's requests by `wayfs-fuse` on one side, calls by `wayfs-nfs` on the other.
//!
//! ```text
//!  kernel ──request──> `front` ──> `workers` ──> `names` `attributes` `data` `listing` ──calls──> `wayfs_nfs::operations`
//!                                                  │
//!                                    `write_behind` `flushing`: what programs wrote and the server does not keep yet
//! ```
//! Files are close-to-open: closing writes everything to the server's disk, opening asks the server whether the file is another than
//! the kernel has pages of. Attributes and names are believed for a bounded time ([`Settings`]). Every wait for the server ends with the
//! program that waits, or with the mount.

#![warn(missing_docs)]

mod asker;
mod attributes;
mod commands;
mod data;
mod fail;
mod flushing;
mod front;
mod listing;
mod mount;
mod names;
mod nodes;
mod open_file;
mod settings;
mod users;
mod vfs;
mod workers;
mod write_behind;

pub use mount::{NfsEnded, NfsMount, NfsMountConfig, NfsMountError, NfsStopper};
pub use settings::{Caching, KNOWN, Settings, SettingsError};
#[doc(hidden)]
pub use users::read_process_tables;
