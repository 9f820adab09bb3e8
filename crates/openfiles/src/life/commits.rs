//! The commit of an open file: taken, made, failed, deferred.

use super::table::{Event, Stage};
use super::{Changes, Life, Origin};
use std::time::Duration;
use wayfs_types::Time;

/// Pause before a failed commit is tried again: long enough not to hash a large file all the time
/// while a disk is full, short beside what a person waits.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// A file that was closed and waits for its record, or for the disk to have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closing {
    pub(crate) since: Time,
    /// Length of the body.
    pub(crate) len: u64,
    /// Where the next daemon finds that it was closed.
    pub(crate) note: String,
}

/// The commit of what was written: see the drawing in [`super`].
#[derive(Debug, Clone, Default)]
pub(crate) enum Commit {
    #[default]
    Idle,
    Emptied,
    Deferred(Closing),
    Due(Option<Closing>),
    BackingOff {
        until: Time,
        closing: Option<Closing>,
    },
    Running {
        taken: Changes,
        /// Length of the file when they were taken.
        size: u64,
        closing: Option<Closing>,
    },
}

impl Commit {
    pub(super) fn stage(&self) -> Stage {
        match self {
            Self::Idle => Stage::Idle,
            Self::Emptied => Stage::Emptied,
            Self::Deferred(_) => Stage::Deferred,
            Self::Due(_) => Stage::Due,
            Self::BackingOff { .. } => Stage::BackingOff,
            Self::Running { .. } => Stage::Running,
        }
    }

    pub(super) fn closing(&self) -> Option<&Closing> {
        match self {
            Self::Idle | Self::Emptied => None,
            Self::Deferred(closing) => Some(closing),
            Self::Due(closing) | Self::BackingOff { closing, .. } | Self::Running { closing, .. } => closing.as_ref(),
        }
    }

    fn into_closing(self) -> Option<Closing> {
        match self {
            Self::Idle | Self::Emptied => None,
            Self::Deferred(closing) => Some(closing),
            Self::Due(closing) | Self::BackingOff { closing, .. } | Self::Running { closing, .. } => closing,
        }
    }
}

impl Life {
    /// What the commit that is running took.
    pub(crate) fn taken(&self) -> Option<&Changes> {
        match &self.commit {
            Commit::Running { taken, .. } => Some(taken),
            Commit::Idle | Commit::Emptied | Commit::Deferred(_) | Commit::Due(_) | Commit::BackingOff { .. } => None,
        }
    }

    /// Length of the file as the commit that is running took it; 0 if none is.
    pub(crate) fn taken_size(&self) -> u64 {
        match &self.commit {
            Commit::Running { size, .. } => *size,
            Commit::Idle | Commit::Emptied | Commit::Deferred(_) | Commit::Due(_) | Commit::BackingOff { .. } => 0,
        }
    }

    /// The close that waits for its record.
    pub(crate) fn closing(&self) -> Option<&Closing> {
        self.commit.closing()
    }

    /// Closes whose records the disk may not have.
    pub(crate) fn noted(&self) -> &[Closing] {
        &self.noted
    }

    /// Where the uncommitted changes come from.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// A commit takes what was written so far, of a file of this length; answers what that is.
    pub(crate) fn commit_begun(&mut self, size: u64, now: Time) -> Changes {
        self.step(Event::Taken, |life| {
            let changes = std::mem::take(&mut life.changes);
            let closing = std::mem::take(&mut life.commit).into_closing();
            life.commit = Commit::Running { taken: changes.clone(), size, closing };
            life.dirty_since.get_or_insert(now);
            changes
        })
    }

    /// A record holds what the commit took; answers where that came from.
    pub(crate) fn commit_done(&mut self, now: Time) -> Origin {
        // What came while it was hashed, such as a time that was set just after the close, waits for no other close, and the
        // file is not whole without it: a rename, and whoever looks elsewhere, would show the time of the write.
        let is_in_part = self.is_set_since_its_close();
        self.step(if is_in_part { Event::MadeInPart } else { Event::Made }, |life| {
            let closing = std::mem::take(&mut life.commit).into_closing();
            if is_in_part {
                life.commit = Commit::Due(closing);
            } else {
                life.noted.extend(closing);
            }
            life.dirty_since = life.changes.is_any.then_some(now);
            std::mem::take(&mut life.origin)
        })
    }

    /// No record came of it: what it took is uncommitted as before, in a file that is `size` long now. Nothing happens if no
    /// commit is running.
    pub(crate) fn commit_failed(&mut self, size: u64, now: Time) {
        if self.taken().is_none() {
            return;
        }
        self.step(Event::Failed, |life| {
            if let Commit::Running { taken, closing, .. } = std::mem::take(&mut life.commit) {
                life.commit = Commit::BackingOff { until: now + RETRY_PAUSE, closing };
                life.changes = taken.followed_by(&life.changes, size);
            }
        });
    }

    /// What could not be committed is tried again without a pause, if it waits for one.
    pub(crate) fn retry_at_once(&mut self) {
        if matches!(self.stage(), Stage::Due | Stage::BackingOff) {
            self.step(Event::Retried, |life| {
                life.commit = Commit::Due(std::mem::take(&mut life.commit).into_closing())
            });
        }
    }

    /// It was closed before its commit, and a note says so; answers the close before, if that waits still.
    pub(crate) fn closed_early(&mut self, closing: Closing) -> Option<Closing> {
        self.step(Event::Closed, |life| {
            let before = std::mem::take(&mut life.commit);
            let former = before.closing().cloned();
            life.commit = match before {
                Commit::Due(_) => Commit::Due(Some(closing)),
                Commit::BackingOff { until, .. } => Commit::BackingOff { until, closing: Some(closing) },
                Commit::Running { taken, size, .. } => Commit::Running { taken, size, closing: Some(closing) },
                Commit::Idle | Commit::Emptied | Commit::Deferred(_) => Commit::Deferred(closing),
            };
            former
        })
    }

    /// Nobody wants the record of a close: the file has no name.
    pub(crate) fn forget_close(&mut self) -> Option<Closing> {
        self.step(Event::Unnamed, |life| match &mut life.commit {
            Commit::Idle | Commit::Emptied => None,
            Commit::Deferred(_) => std::mem::take(&mut life.commit).into_closing(),
            Commit::Due(closing) | Commit::BackingOff { closing, .. } | Commit::Running { closing, .. } => {
                closing.take()
            }
        })
    }

    /// The disk has the records of closes up to one; answers those.
    pub(crate) fn notes_durable(&mut self, through: Time) -> Vec<Closing> {
        self.noted.extract_if(.., |closing| closing.since <= through).collect()
    }
}
