//! Removing chunks that nobody needs: what nothing refers to, and at clients what the cache has no room for.
//!
//! A sweep marks what is in use (walking trees by their list nodes), then removes the rest in
//! small steps. Whatever was put, asked for or promised meanwhile is protected
//! (`contents/protection.rs`): a step removes under the lock that protection takes.

mod alarm;
mod mark;
mod names;
mod sweeper;

pub(crate) use alarm::SweepAlarm;
pub(crate) use sweeper::run;
