//! Versions of which the home fetched something because somebody reads: perhaps not all.
//!
//! A reader of a part has the home fetch that part. The version counts as sent for the policy, and what is left of it goes at
//! the bound, unless the home says before that it has all.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{FileId, RecordId, Time};

/// The versions, and when the rest of each goes. One of a file at most.
#[derive(Debug, Default)]
pub(crate) struct BackFetched {
    versions: BTreeMap<FileId, (RecordId, Time)>,
    files: BTreeMap<RecordId, FileId>,
    by_due: BTreeSet<(Time, FileId)>,
}

impl BackFetched {
    pub(crate) fn insert(&mut self, file: FileId, version: RecordId, due: Time) {
        self.remove(file);
        self.versions.insert(file, (version, due));
        self.files.insert(version, file);
        self.by_due.insert((due, file));
    }

    pub(crate) fn has(&self, file: FileId, version: RecordId) -> bool {
        self.versions.get(&file).is_some_and(|(known, _)| *known == version)
    }

    pub(crate) fn remove(&mut self, file: FileId) -> Option<RecordId> {
        let (version, due) = self.versions.remove(&file)?;
        self.files.remove(&version);
        self.by_due.remove(&(due, file));
        Some(version)
    }

    pub(crate) fn remove_version(&mut self, version: RecordId) {
        if let Some(file) = self.files.get(&version).copied() {
            self.remove(file);
        }
    }

    /// Takes one out that is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<(FileId, RecordId)> {
        let (_, file) = *self.by_due.first().filter(|(due, _)| *due <= now)?;
        Some((file, self.remove(file)?))
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        self.by_due.first().map(|(due, _)| *due)
    }
}
