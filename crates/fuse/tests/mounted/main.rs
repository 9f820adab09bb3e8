//! Real mounts of the loopback file system, and of small file systems made to misbehave.
//!
//! Every test runs under a watchdog that aborts the FUSE connection, so that nothing is left hanging
//! in the kernel. Without `/dev/fuse` the tests pass and print why.

// Signals and lock calls have no safe form in the libraries that the tests use.
#![allow(unsafe_code)]
// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod caching;
mod files;
mod interrupts;
mod locks;
mod mounting;
mod names;
mod passthrough;
mod stage;
