//! The public face of the crate, over loopback.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

mod connecting;
mod frames;
mod hostile;
mod outage;
mod pair;
mod proxy;
mod requests;
