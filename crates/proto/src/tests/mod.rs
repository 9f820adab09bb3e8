//! The engine driven by hand: replicas joined by queues, a virtual clock, no runtime.

mod basics;
mod caching;
mod faults;
mod liars;
mod locking;
mod moving;
mod storms;
mod volume;
mod world;
