//! The commands that ask or change a volume, once for every role.
//!
//! A mount and a server answer `conflicts`, `queue`, `scrub`, `events` and `doctor` by the same rules, in the same words, within the
//! same limits. What differs between them (who is asked for labels, whose kernel has caches) is behind [`LocalVolume`].
//!
//! ```text
//!   ControlServer ──▶ client::commands ──┐
//!                                        ├──▶ admin ──▶ node::Volume
//!   ControlServer ──▶ server::control  ──┘
//! ```

pub mod below;
pub mod conflicts;
pub mod contents;
pub mod doctor;
mod errors;
pub mod events;
pub mod happenings;
pub mod ledger;
mod local;
mod pattern;
pub mod queue;
pub mod scrub;
mod settle;
pub mod stations;
mod words;

pub use errors::{stopped, storage};
pub use local::{LocalVolume, Touched};
pub use settle::{Settling, resolve};
pub use words::{age_ms, elapsed_ms, kind_word, unix_ms};
