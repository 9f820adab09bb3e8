//! The mount: the kernel's requests turned into operations of [`crate::fs`], and their results into its answers.
//!
//! * `front`: each request, decoded once, and the operation that it asks for;
//! * `decoded`: the kernel's arguments in the types of the file system;
//! * `answers`: results, each kind in its form; `kernel_form`: what they are made of;
//! * `errno`: the one table from refusals to error numbers;
//! * `kernel`: what the file system asks of the kernel;
//! * `rehearsing`: requests that are made for nothing but their echo in inotify.

mod answers;
mod decoded;
mod errno;
mod front;
mod kernel;
mod kernel_form;
#[cfg(test)]
mod mount_tests;
#[cfg(test)]
mod passthrough_write_tests;
mod rehearsing;
#[cfg(test)]
mod stale_tests;
#[cfg(test)]
mod translation_tests;

pub(crate) use front::Front;
