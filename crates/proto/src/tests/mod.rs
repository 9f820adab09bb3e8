//! The engine driven by hand: replicas joined by queues, a virtual clock, no runtime.
#![allow(clippy::unwrap_used, reason = "tests may, and Clippy does not see that these are")]
#![cfg_attr(fuzzing, allow(dead_code, unused_imports, reason = "the fuzzer uses some of it"))]

mod ahead;
pub(crate) mod arbitrary;
mod basics;
mod caching;
mod cancelling;
mod copies;
mod duty;
mod exclusive;
mod facts;
mod faults;
mod fences;
mod forking;
mod former;
mod guesses;
mod happenings;
mod home_words;
mod interrupted;
mod ledger;
mod liars;
mod limited;
mod links;
mod lock_grace;
mod locking;
mod lost;
mod moving;
mod namesakes;
mod noise;
mod omitting;
mod overtaken;
mod put_back;
mod put_back_contents;
mod put_back_twice;
mod quotas;
pub(crate) mod random_peers;
mod renamed;
mod reports;
mod seals;
mod sharing;
mod station_back;
mod storms;
mod succeeding;
mod taken_over;
mod two_orders;
mod volume;
pub(crate) mod world;
