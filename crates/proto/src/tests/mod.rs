//! The engine driven by hand: replicas joined by queues, a virtual clock, no runtime.

mod ahead;
mod basics;
mod caching;
mod cancelling;
mod copies;
mod duty;
mod facts;
mod faults;
mod forking;
mod former;
mod ledger;
mod liars;
mod locking;
mod lost;
mod moving;
mod noise;
mod omitting;
mod put_back;
mod reports;
mod sharing;
mod station_back;
mod storms;
mod succeeding;
mod taken_over;
mod volume;
pub(crate) mod world;
