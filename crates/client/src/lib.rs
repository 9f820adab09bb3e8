//! WayFS client: the mount.

pub mod engine;
pub mod files;
pub mod notices;
pub mod vfs;
pub mod workers;
