//! The trait: one hook per event, each answers a decision.

use std::time::Duration;
use wayfs_types::{FileId, Time};

/// When to send the file's newest version, which is not sent yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// As decided before; for a new version: not ahead of need.
    Keep,
    /// At once.
    Now,
    /// At this time, whatever was decided before.
    At(Time),
}

/// What became of a version before the next one was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was never sent: sending it would have been waste.
    Unsent,
    /// It was sent, and as far as is known nobody elsewhere read it.
    SentUnread,
    /// It was read elsewhere.
    Read,
}

/// What another node did with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read its contents, which were at the home already.
    Read,
    /// Wrote it.
    Write,
}

/// Decides which updates of one station are worth sending before anyone asks.
///
/// Hooks are called in the order of events, with a `now` that does not run
/// back. Whatever is remembered per file is bounded; a file that was forgotten
/// is treated as one never seen.
pub trait PropagationPolicy: std::fmt::Debug + Send {
    /// A version was written here.
    fn on_update(&mut self, now: Time, file: FileId) -> Decision;

    /// Called before [`Self::on_update`] if there was a version of this node before: what became of it.
    fn on_overwritten(&mut self, _now: Time, _file: FileId, _fate: Fate) {}

    /// The notice of the newest version made the home break a callback elsewhere: somebody has an older copy.
    fn on_shared(&mut self, _now: Time, _file: FileId) -> Decision {
        Decision::Keep
    }

    /// Somebody elsewhere had to wait for a version that was not sent, so long after it was written.
    fn on_back_fetch(&mut self, _now: Time, _file: FileId, _age: Duration) {}

    /// Asked after a back-fetch: whether all updates of this last span are to be sent, too.
    fn recent_to_send(&self) -> Option<Duration> {
        None
    }

    /// Another node read or wrote the file, so long after its last version was written here, if one was.
    fn on_elsewhere(&mut self, _now: Time, _file: FileId, _access: Access, _age: Option<Duration>) {}
}
