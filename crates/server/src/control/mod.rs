//! The server's side of the control protocol.

mod commands;
mod copy;
mod copy_in;
mod copy_out;
mod deleting;
mod doctor;
mod failed;
mod files;
mod intake;
mod ledger;
mod local;
mod members;
mod pieces;
mod promoting;
mod stations;
mod status;
mod sync;
mod tar_in;
mod tar_out;
mod tar_reader;
mod tickets;
mod volumes;
mod xattr;

pub(crate) use commands::ServerCommands;
pub(crate) use tar_in::read_archive;
