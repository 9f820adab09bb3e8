//! Versions that nobody has on record and that the home looks for.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{OriginId, RecordId, Time, Top};

/// Versions that nobody has on record and that are looked for.
#[derive(Debug, Default)]
pub(crate) struct Seeking {
    pub(super) by_version: BTreeMap<RecordId, Sought>,
    /// Two of the versions with the same contents that somebody may still come with, in this part of a pass: among many of the
    /// same contents, as of empty logs, each would look at all the others.
    pub(super) may_come: BTreeMap<Top, Vec<RecordId>>,
    /// Children whose sessions ended since who is there was looked at.
    pub(super) went: BTreeSet<OriginId>,
}

#[derive(Debug)]
pub(super) struct Sought {
    pub(super) since: Time,
    pub(super) asked: BTreeSet<OriginId>,
    pub(super) look: Look,
}

/// The home's own look, and its last questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Others have time to answer first.
    Ahead,
    UnderWay,
    /// Nobody who is there gave what lacks.
    InVain,
}

impl Seeking {
    /// A child has a new session, or none: it is asked again when it is there.
    pub(crate) fn ask_again(&mut self, child: OriginId) {
        for sought in self.by_version.values_mut() {
            sought.asked.remove(&child);
        }
    }

    /// A child's session ended.
    pub(crate) fn note_went(&mut self, child: OriginId) {
        if !self.by_version.is_empty() {
            self.went.insert(child);
        }
    }

    /// Another part of a pass begins.
    pub(crate) fn begin_part(&mut self) {
        self.may_come.clear();
    }

    /// Whether a version is looked for.
    pub(crate) fn is_sought(&self, version: RecordId) -> bool {
        self.by_version.contains_key(&version)
    }

    pub(crate) fn end(&mut self, version: RecordId) {
        self.by_version.remove(&version);
    }
}
