//! WayFS client: the mount.
pub mod files;
