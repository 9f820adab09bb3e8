//! The mount: the kernel's requests turned into operations of [`crate::fs`], and their results into its answers.

mod errno;
mod front;
#[cfg(test)]
mod mount_tests;
#[cfg(test)]
mod passthrough_write_tests;
mod rehearsing;
#[cfg(test)]
mod stale_tests;

pub(crate) use errno::{errno, name_errno};
pub(crate) use front::Front;
