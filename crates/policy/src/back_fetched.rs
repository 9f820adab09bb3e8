//! Versions of which the home fetched something because somebody reads: perhaps not all.
//!
//! A reader of a part has the home fetch that part. The version counts as sent for the policy, and what is left of it goes at
//! the bound, unless the home says before that it has all.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{FileId, RecordId, Time};

/// Most versions: of more the one that is due first goes at once.
const VERSIONS_MAX: usize = 65_536;

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
        let is_over = self.versions.len() > VERSIONS_MAX;
        let (_, file) = *self.by_due.first().filter(|(due, _)| is_over || *due <= now)?;
        Some((file, self.remove(file)?))
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        self.by_due.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::OriginId;

    #[test]
    fn of_too_many_the_one_that_is_due_first_goes_at_once() {
        let origin = OriginId::new(2).unwrap();
        let version = |number| RecordId::new(origin, number).unwrap();
        let mut fetched = BackFetched::default();
        for number in 1..=VERSIONS_MAX as u64 + 1 {
            fetched.insert(FileId::made_by(version(number)), version(number), Time::from_micros(1000 + number));
        }
        assert_eq!(fetched.pop_due(Time::ZERO), Some((FileId::made_by(version(1)), version(1))));
        assert_eq!(fetched.pop_due(Time::ZERO), None, "the others wait");
    }
}
