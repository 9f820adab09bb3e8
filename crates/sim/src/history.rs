//! What clients did and what they were told: the evidence for the checkers.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{Content, FileId, OriginId, RecordId, Time};

/// An update that a client made.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    /// Its file.
    pub(crate) file: FileId,
    /// What it was built upon; `None` for a creation.
    pub(crate) base: Option<RecordId>,
    /// What it holds.
    pub(crate) content: Content,
}

/// A name taken from a file, by removing it or by a rename over it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Removal {
    /// The file as the remover knew it.
    pub(crate) file: FileId,
    /// The version that he had seen: the record says so.
    pub(crate) version: RecordId,
    /// Whether it was the file's last name where he looked.
    pub(crate) is_last: bool,
}

/// All updates by version, all removals, and what is known to be safe.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Content versions that clients made.
    pub(crate) updates: BTreeMap<RecordId, Update>,
    /// Names taken, by the record that took them.
    pub(crate) removals: BTreeMap<RecordId, Removal>,
    /// Per origin: sequence up to which *safe* was reported.
    pub(crate) safe: BTreeMap<OriginId, u64>,
    /// Updates reported safe, with when and by which station.
    pub(crate) safe_at: Vec<SafeReport>,
    /// Creations that the home made one with an equal file: their own file may leave no trace.
    pub(crate) merged: BTreeSet<RecordId>,
    /// Versions whose bytes their holder said to be gone.
    pub(crate) gone: BTreeSet<RecordId>,
    /// Versions that the home declared lost at any time.
    pub(crate) declared: BTreeSet<RecordId>,
    /// Records that a crash took from their writer, and that may have reached others.
    uncertain: BTreeSet<RecordId>,
}

/// A report of *safe*.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SafeReport {
    /// The client's newest record covered.
    pub(crate) record: RecordId,
    /// When.
    pub(crate) at: Time,
    /// The station (host index) the client was attached to, if it was the same all the while.
    pub(crate) station: usize,
}

impl History {
    /// Whether `ancestor` is one of the versions that `version` was built upon (not `version` itself).
    pub(crate) fn descends(&self, version: RecordId, ancestor: RecordId) -> bool {
        self.line(version).skip(1).any(|base| base == ancestor)
    }

    /// A version and those that it was built upon, the newest first.
    pub(crate) fn line(&self, version: RecordId) -> impl Iterator<Item = RecordId> {
        std::iter::successors(Some(version), |at| self.updates.get(at).and_then(|update| update.base))
    }

    /// Updates of an origin up to a sequence were reported safe. Answers up to where they had been before.
    pub(crate) fn report_safe(&mut self, record: RecordId, at: Time, station: usize) -> u64 {
        let safe = self.safe.entry(record.origin()).or_default();
        let before = *safe;
        *safe = before.max(record.sequence());
        self.safe_at.push(SafeReport { record, at, station });
        before
    }

    /// Whether somebody who had seen an update replaced or removed it: then its content need not be sent any more.
    pub(crate) fn is_superseded(&self, record: RecordId) -> bool {
        self.updates.values().any(|update| update.base == Some(record))
            || self.removals.values().any(|gone| gone.version == record)
    }

    /// A crash took an origin's records after `last`, and none after `ahead` can have reached anybody. What had been reported
    /// safe by then stays promised.
    pub(crate) fn lose(&mut self, origin: OriginId, last: u64, ahead: u64) {
        let last = last.max(self.safe.get(&origin).copied().unwrap_or_default());
        let is_lost = |record: &RecordId| record.origin() == origin && record.sequence() > last;
        let is_gone = |record: &RecordId| record.origin() == origin && record.sequence() > ahead;
        self.updates.retain(|record, _| !is_gone(record));
        self.removals.retain(|record, _| !is_gone(record));
        let left = self.updates.keys().chain(self.removals.keys());
        self.uncertain.extend(left.copied().filter(is_lost));
    }

    /// Whether a crash took this record from its writer: nobody promised it, but it may have happened.
    pub(crate) fn is_uncertain(&self, record: RecordId) -> bool {
        self.uncertain.contains(&record)
    }

    /// All records that clients were answered for and that no crash took.
    pub(crate) fn made(&self) -> impl Iterator<Item = RecordId> {
        let all = self.updates.keys().chain(self.removals.keys()).copied();
        all.filter(|record| !self.is_uncertain(*record))
    }

    /// Whether somebody said that the bytes of an update are gone, so that nobody is promised anything of them.
    pub(crate) fn is_said_lost(&self, record: RecordId) -> bool {
        self.gone.contains(&record) || self.declared.contains(&record)
    }

    /// Whether an update was reported safe.
    pub(crate) fn is_safe(&self, record: RecordId) -> bool {
        !self.is_uncertain(record) && self.safe.get(&record.origin()).is_some_and(|safe| record.sequence() <= *safe)
    }
}
