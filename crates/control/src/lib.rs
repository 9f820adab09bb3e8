//! The local control protocol: how the tools talk to a running daemon.
//!
//! A daemon (a mount or a server) listens on a Unix socket of mode 0600; a mount that
//! root made for all users on another one that all may connect to, where commands run with the rights of who asks. One line of JSON
//! goes in ([`Command`]), lines of JSON come back ([`Reply`]): any number of progress and event
//! lines, then exactly one that ends the command. Running daemons leave a file each in a
//! runtime directory ([`Registry`]), by which the tools find the daemon behind a path.
//!
//! ```text
//!   wayfs sync DIR ──▶ Registry ──▶ ControlClient ═══ socket ═══ ControlServer ──▶ CommandHandler (client, server)
//! ```
//!
//! Every path in a command is relative to the root of the volume; the empty path is the root.

mod arguments;
mod caught;
mod client;
mod command;
mod descriptor;
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod line;
pub mod link_signals;
pub mod path_text;
mod peer;
mod registry;
mod reply;
pub mod report;
mod server;
mod socket;
pub mod stream;
#[cfg(test)]
mod tests;

pub use arguments::{
    ConflictRef, CopyForm, EventsWanted, Keep, LinkNotice, Owner, ParseKeepError, Privileges, Selection, TicketLimits,
    TicketRole, TicketText,
};
pub use caught::{catch_in_command, is_in_command};
pub use client::{CallError, ControlClient, Watch};
pub use command::Command;
pub use handler::{CommandHandler, Gone, Sink, for_owner_only};
pub use peer::Peer;
pub use registry::{Account, DaemonKind, EndNote, Found, Registered, Registration, Registry, RegistryError};
pub use reply::{ControlError, Done, ErrorKind, Event, EventKind, Progress, Reply};
pub use server::{CONNECTIONS_MAX, ControlServer, StartError};
pub use wayfs_types::request::Level;

/// What to do about contents that are lost.
pub const LOST_NEXT: &str = "`wayfs conflicts list` names them; write the files again, or bring back the machine that has them. \
                             `wayfs conflicts resolve ID` takes one off the list.";

/// So many versions are lost, in words.
pub fn lost_text(versions: u64) -> String {
    match versions {
        1 => "nobody has the bytes of one version of a file".to_owned(),
        more => format!("nobody has the bytes of {more} versions of files"),
    }
}
