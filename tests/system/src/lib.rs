//! Machines, daemons and mounts for tests that run the real program.
//!
//! Every machine has its own state, cache, configuration and runtime directories,
//! every wait has a bound, and whatever happens, nothing stays mounted or running.

pub mod claims;
mod descriptors;
mod far;
pub mod histories;
mod machine;
mod process;
mod site;
mod small_disk;
mod turns;
mod wait;
mod world;

pub use descriptors::own_descriptors;
pub use far::Far;
pub use machine::{Machine, Mount, Server, free_port, is_mounted};
pub use process::{Finished, Process, run, run_for};
pub use site::Site;
pub use small_disk::SmallDisk;
pub use turns::{busy, turns};
pub use wait::{eventually, within};
pub use world::World;
