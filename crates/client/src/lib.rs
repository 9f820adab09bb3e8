//! The client: a mount over a replica.
//!
//! ```text
//!   kernel ── fuse ── fs ── engine (seam) ──▶ volume ──▶ station
//!                      │                         │
//!                      └── files ── contents ────┘      hooks ── notices ──▶ kernel
//! ```
//!
//! * [`Client::start`]: joins, opens the replica, mounts;
//! * `fuse`: the kernel's requests and our answers, translated;
//! * [`fs`]: operations of the file system;
//! * `files` ([`wayfs_openfiles`]): open files, between reads and writes and contents by name;
//! * [`notices`]: what the kernel must forget;
//! * [`inotify`]: changes from elsewhere, raised for programs that watch files;
//! * [`commands`]: the control socket's commands;
//! * [`saved`], [`pins`]: what survives a restart beside the replica.
//!
//! `SEMANTICS.md` says what a mount promises.

mod background_committer;
mod client;
pub mod commands;
mod config;
pub mod engine;
pub mod events;
pub mod fs;
mod fuse;
#[doc(hidden)]
pub mod fuzzing;
pub mod hooks;
pub mod inotify;
pub mod labels;
pub mod live;
mod live_ahead;
#[cfg(test)]
mod live_tests;
mod metrics;
pub mod notices;
pub mod numbers;
pub mod paths;
pub mod pins;
pub mod repair;
pub mod saved;
mod start;
mod this_host;
#[cfg(test)]
mod toy;
mod tree_ahead;
mod vain;
pub mod workers;

use wayfs_openfiles as files;
use wayfs_openfiles::stir;

pub use client::{Client, Ended, Stopper};
pub use config::{ClientConfig, Sharing, Source};
pub use fs::{Close, FileSystemSettings};
pub use start::StartError;
pub use wayfs_fuse::UmountMode;
