//! The seam that a daemon implements.

use crate::{Command, ControlError, Done, ErrorKind, Event, Peer, Progress};
use std::os::fd::OwnedFd;

/// The tool hung up, or the daemon is stopping: end the command soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the caller is gone")]
pub struct Gone;

/// Where a running command puts what it has to say before its result.
///
/// Writes block at most ten seconds; a tool that reads slower than that counts as gone.
pub trait Sink {
    /// Says how far it is. Call as often as you like: at most ten a second are sent.
    ///
    /// # Errors
    /// [`Gone`] when nobody listens any more.
    fn progress(&mut self, progress: &Progress) -> Result<(), Gone>;

    /// Passes an event on.
    ///
    /// # Errors
    /// [`Gone`] when nobody listens any more.
    fn event(&mut self, event: &Event) -> Result<(), Gone>;

    /// Whether the tool hung up or the daemon is stopping. Ask at least once a second in every wait.
    fn is_gone(&mut self) -> bool;

    /// The descriptor that came with the command, once. Default: none.
    fn take_descriptor(&mut self) -> Option<OwnedFd> {
        None
    }
}

/// A daemon as the control server sees it.
///
/// `run` is called on a thread of its connection, several at a time; it may block, within the
/// bound that its command carries. It never sees two results: what it returns ends the command.
/// After `Stop` or `Umount` the daemon ends only when `run` has returned, so that the answer gets out:
/// set a flag in `run`, and let the main thread drop the [`crate::ControlServer`], which
/// waits for answers that are under way.
pub trait CommandHandler: Send + Sync {
    /// Carries out a command.
    ///
    /// # Errors
    /// [`ControlError`] says what failed, why, and what to do.
    fn run(&self, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError>;

    /// Carries out a command of a user who may not control the daemon, with his own rights: it changes nothing, and the answer
    /// holds only what he may see. Default: everything is refused.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for what only the daemon's owner may do or this user may not see; else as [`CommandHandler::run`].
    fn run_for_user(&self, peer: &Peer, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
        let _ = (peer, out);
        Err(for_owner_only(&command))
    }
}

/// The refusal of a command that only the owner of a daemon may give.
pub fn for_owner_only(command: &Command) -> ControlError {
    ControlError::new(
        ErrorKind::Refused,
        format!("`{}` is for the user who started the daemon", command.name()),
        "Ask the administrator. Everybody may ask `info`, `sync`, `status`, `queue` and `conflicts list` about his own files.",
    )
}
