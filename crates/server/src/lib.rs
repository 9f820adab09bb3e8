//! Floor 4: the server daemon: home of its own volumes, station of others'.
//!
//! [`Server`] opens a data directory ([`layout`]), serves its volumes over one port, admits machines
//! with tickets ([`tickets`], [`admission`]), says which policy sends contents ahead,
//! and answers the control protocol ([`control`]).

mod addresses;
mod admission;
mod backup;
mod broken;
mod config;
mod control;
mod deletion;
mod durable_file;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod layout;
mod promotion;
mod repair;
mod rotation;
mod served;
mod server;
mod shared;
mod tickets;

pub use backup::{RestoreError, Source as BackupSource, restore};
pub use config::ServerConfig;
pub use error::StartError;
pub use promotion::{Outlook, PromotionError};
pub use repair::repair;
pub use rotation::{KeyState, Rotation, RotationError, rotate_key};
pub use server::{Server, ServerStopper};

#[cfg(test)]
mod tests;
