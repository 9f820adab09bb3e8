//! When a home looks for others who could have what is at one server only, and whom it asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wayfs_types::{OriginId, RecordId, Time};

/// Pause between two parts of a pass over what is missing.
pub(super) const PASS_PAUSE: Duration = Duration::from_secs(1);

/// The home's pass over what is missing: whom to ask when those on record are away.
#[derive(Debug, Default)]
pub(crate) struct Replacing {
    /// When to go on; `None`: nothing happened since the last pass.
    pub(super) at: Option<Time>,
    /// The pass goes on after this version.
    pub(super) after: Option<RecordId>,
    /// Something happened during the present pass: another follows it.
    pub(super) is_again: bool,
    /// The present pass met a holder that has not been away for long enough.
    pub(super) is_early: bool,
    /// Since when holders are away.
    pub(super) away: BTreeMap<OriginId, Time>,
    /// Since when others say of a server that it has contents, and it does not.
    pub(super) claims: BTreeMap<OriginId, Time>,
    /// What stations told in their present sessions that they have.
    told: BTreeSet<(RecordId, OriginId)>,
    /// What they were asked for in their present sessions, since they are on record for it (or as who could give it) and had not told.
    pub(super) asked: BTreeSet<(RecordId, OriginId)>,
}

impl Replacing {
    /// Something happened that may call for another holder: a pass begins soon.
    pub(crate) fn begin(&mut self, now: Time) {
        if self.after.is_some() {
            self.is_again = true;
            return;
        }
        let soon = now + PASS_PAUSE;
        self.at = Some(self.at.map_or(soon, |at| at.min(soon)));
    }

    /// A child tells, in its present session, that it has contents.
    pub(crate) fn note_told(&mut self, version: RecordId, child: OriginId) {
        self.told.insert((version, child));
    }

    /// Whether a child told, in its newest session, that it has contents, or could give them.
    pub(crate) fn has_told(&self, version: RecordId, child: OriginId) -> bool {
        self.told.contains(&(version, child))
    }

    /// A child begins a session: it tells all that it has again.
    pub(crate) fn begin_session(&mut self, child: OriginId) {
        self.told.retain(|(_, other)| *other != child);
        self.asked.retain(|(_, other)| *other != child);
        self.claims.remove(&child);
    }

    /// Nobody needs to have this version any more.
    pub(crate) fn end(&mut self, version: RecordId) {
        for all in [&mut self.told, &mut self.asked] {
            while let Some(of) = all.range((version, OriginId::GENESIS)..).next().copied().filter(|of| of.0 == version)
            {
                all.remove(&of);
            }
        }
    }

    /// When the pass goes on.
    pub(crate) const fn timeout(&self) -> Option<Time> {
        self.at
    }
}
