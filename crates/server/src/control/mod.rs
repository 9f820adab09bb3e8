//! The server's side of the control protocol.

mod conflicts;
mod copy;
mod copy_in;
mod copy_out;
mod doctor;
mod files;
mod members;
mod status;
mod sync;
mod target;
mod volumes;

pub(crate) use target::Target;
