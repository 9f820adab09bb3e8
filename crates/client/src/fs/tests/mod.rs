//! Operations without a kernel: what a front end is answered, when, and what the caches are told before.

mod attributes;
mod caches;
mod data;
mod listing;
mod locks;
mod names;
mod replies;
mod waiting;
mod xattrs;
