//! When file contents move from a station to the home: propagation policies.
//!
//! Floor 1, pure. An update's notice always goes at the next reconciliation;
//! its contents stay at the station until somebody needs them (a back-fetch),
//! or until a policy expects a reader and sends them ahead. The same code runs
//! in the station and in the simulator.
//!
//! [`Propagator`] is the machine that a driver holds beside a station's engine: it is told
//! what happens and answers which versions to send. It asks one [`PropagationPolicy`], of
//! which every mechanism of the research has one in a file of its own.

// What is new must be thought of wherever kinds are told apart.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod adaptive_delay;
mod back_fetched;
mod file_memory;
mod invalidation_heuristic;
mod on_demand;
mod periodic;
mod policy;
mod propagator;
mod setting;
mod ttnu;
mod write_through;

pub use adaptive_delay::AdaptiveDelay;
pub use invalidation_heuristic::InvalidationHeuristic;
pub use on_demand::OnDemand;
pub use periodic::Periodic;
pub use policy::{Access, Decision, Fate, PropagationPolicy};
pub use propagator::{Input, Output, Propagator};
pub use setting::{Mechanism, Setting, SettingError};
pub use ttnu::TimeToNextUse;
pub use write_through::WriteThrough;
