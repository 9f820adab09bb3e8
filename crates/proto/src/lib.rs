//! The replica engine.
mod api;
pub use api::*;
