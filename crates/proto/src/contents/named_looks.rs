//! Looks of a station for contents that the home named: which are under way, and from where to go on.

use crate::contents::rest::Rest;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{CommitNumber, Content, FileId, RecordId, Time, Top};

/// Most looks under way.
const LOOKS_MAX: usize = 256;

/// Which contents are looked for.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Up to this change nothing is left to look for.
    pub(super) through: CommitNumber,
    /// What this input, or one before, has the row say of that; and what the store has.
    pub(super) written: CommitNumber,
    stored: CommitNumber,
    /// Not all that came since was looked at.
    pub(super) is_behind: bool,
    pub(super) under_way: BTreeMap<RecordId, (FileId, Content)>,
    /// Those under way that the driver is to look for once more: what it said was dropped.
    pub(super) again: BTreeSet<RecordId>,
    /// What this input began to look for; and what it had an answer to, or ordered once more.
    pub(super) begun: Vec<RecordId>,
    /// What was not here when it was looked for, by its top.
    pub(super) in_vain: BTreeMap<Top, (RecordId, FileId, Content)>,
    pub(super) touched: Vec<(RecordId, (FileId, Content))>,
    pub(super) rest: Rest,
}

impl Named {
    /// Versions that are being looked for, and their bytes.
    pub(crate) fn under_way(&self) -> (u64, u64) {
        let bytes = self.under_way.values().map(|(_, content)| content.size()).fold(0, u64::saturating_add);
        (self.under_way.len() as u64, bytes)
    }

    /// Versions that are being looked for.
    pub(crate) fn looked_for(&self) -> Vec<RecordId> {
        self.under_way.keys().copied().collect()
    }

    /// Nobody wants to know any more whether a version is here.
    pub(crate) fn call_off(&mut self, version: RecordId) {
        self.under_way.remove(&version);
        self.again.remove(&version);
    }

    /// Whether a version is being looked for.
    pub(crate) fn is_under_way(&self, version: RecordId) -> bool {
        self.under_way.contains_key(&version)
    }

    /// So many looks may begin.
    pub(crate) fn room(&mut self, now: Time) -> usize {
        if self.rest.lasts(now) { 0 } else { LOOKS_MAX.saturating_sub(self.under_way.len()) }
    }

    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() < LOOKS_MAX
    }

    /// When looks go on, if they rest.
    pub(crate) const fn timeout(&self) -> Option<Time> {
        self.rest.timeout()
    }

    /// What an input did is in the store.
    pub(crate) fn committed(&mut self) {
        self.stored = self.written;
        self.begun.clear();
        self.touched.clear();
    }

    /// What an input did was dropped, and orders to look with it: what the row does not vouch for is gone through again, after a while.
    pub(crate) fn abandon(&mut self, now: Time) {
        for version in std::mem::take(&mut self.begun) {
            self.under_way.remove(&version);
        }
        for (version, found) in std::mem::take(&mut self.touched) {
            self.under_way.insert(version, found);
            self.again.insert(version);
        }
        self.behind_from(self.stored);
        self.rest.begin(now);
    }

    pub(super) fn behind_from(&mut self, stored: CommitNumber) {
        (self.through, self.written, self.stored, self.is_behind) = (stored, stored, stored, true);
    }
}
