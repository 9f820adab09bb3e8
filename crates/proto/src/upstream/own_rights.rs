//! The rights to change alone of a session with a parent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wayfs_types::{FileId, Time};
use wayfs_wire::{AskId, RecallId, Then};

/// Directories that are remembered as stirred before those that are quiet again are forgotten.
const STIRRED_MAX: usize = 4096;
/// A directory that several look at is quiet when nobody was about to change it for so long.
pub(crate) const QUIET: Duration = Duration::from_secs(30);

/// The rights of a session with a parent.
#[derive(Debug, Default)]
pub(crate) struct OwnRights {
    /// Whether the parent was told that we take them.
    pub(super) takes: bool,
    /// The first question that was put after that.
    pub(super) first_ask: Option<AskId>,
    /// Directories that nobody else looks at.
    pub(super) alone: BTreeSet<FileId>,
    /// Directories that somebody else may change at any moment.
    pub(super) doubted: BTreeSet<FileId>,
    /// When somebody else was last about to change a directory; of those that were not quiet since.
    stirred: BTreeMap<FileId, Time>,
    /// Directories of which the kernel keeps what it was told before, though nothing that is told now is kept: we had them alone. Until
    /// it asks for all names again.
    pub(super) kept: BTreeSet<FileId>,
    pub(super) claims: BTreeMap<AskId, Vec<FileId>>,
    /// What is being given back, by its number.
    pub(super) given: BTreeMap<RecallId, (Vec<FileId>, Then)>,
    /// The shortest way to the parent and back that was seen.
    pub(super) rtt_min: Option<Duration>,
}

impl OwnRights {
    /// Whether a directory is to be asked for before what is cached of it is shown.
    pub(crate) fn doubts(&self, directory: FileId) -> bool {
        self.doubted.contains(&directory)
    }

    pub(crate) fn note_rtt(&mut self, rtt: Duration) {
        let known = self.rtt_min.get_or_insert(rtt);
        *known = (*known).min(rtt);
    }

    /// A directory is watched no more.
    pub(crate) fn forget(&mut self, directory: FileId) {
        self.alone.remove(&directory);
        self.doubted.remove(&directory);
        self.stirred.remove(&directory);
    }

    /// Somebody else is about to change a directory.
    pub(super) fn stir(&mut self, directory: FileId, now: Time) {
        if self.stirred.len() >= STIRRED_MAX {
            self.stirred.retain(|_, at| now < *at + QUIET);
        }
        self.stirred.insert(directory, now);
    }

    /// Whether a directory is being given back to somebody who changes it: what is told of it after the kernel was told to ask
    /// again would stay there.
    pub(super) fn is_called(&self, directory: FileId) -> bool {
        self.given.values().any(|(files, then)| *then == Then::Ask && files.contains(&directory))
    }

    /// Whether nobody is or was lately about to change a directory that we look at with others.
    pub(super) fn is_shared(&self, directory: FileId, now: Time) -> bool {
        !self.doubts(directory) && self.stirred.get(&directory).is_none_or(|at| now >= *at + QUIET)
    }

    /// Whether the parent knew that we take rights when it was asked this for the first time.
    pub(crate) fn counts_from(&self, ask: AskId) -> bool {
        self.first_ask.is_some_and(|first| ask >= first)
    }

    /// The parent answered about a directory: whoever had it alone gave it back before.
    pub(crate) fn trust(&mut self, directory: FileId) {
        self.doubted.remove(&directory);
    }
}
