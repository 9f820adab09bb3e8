//! Holders of locks that are not there, and until when they are waited for.

use crate::children::ChildKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::{Life, OriginId, Time};

/// Who stands for all members: a home that took the place of another does not know who had locks there.
pub(super) const ALL: OriginId = OriginId::GENESIS;

/// What is kept of a child over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HolderRow {
    pub(super) is_station: bool,
    /// The life of its store in which it was given locks; none for a client, whose programs end with it.
    pub(super) life: Life,
}

/// Who may have locks.
#[derive(Debug, Default)]
pub(crate) struct LockGrace {
    /// Who has a row, and when it is looked at again.
    pub(super) rows: BTreeMap<OriginId, (HolderRow, Time)>,
    /// Who may have had locks before we were opened, and is not back.
    pub(super) awaited: BTreeMap<OriginId, Awaited>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    pub(super) until: Time,
    /// It came back without what it knew.
    pub(super) forgot: bool,
}

impl LockGrace {
    /// Whether a child is believed what it says that it had.
    pub(crate) fn waits_for(&self, child: OriginId) -> bool {
        self.awaited.contains_key(&child) || self.awaited.contains_key(&ALL)
    }

    /// When something is to be done next.
    pub(crate) fn next(&self) -> Option<Time> {
        let looks = self.rows.values().map(|(_, look)| *look);
        looks.chain(self.awaited.values().map(|awaited| awaited.until)).min()
    }

    /// A child is back, in this life of its store.
    pub(crate) fn note_back(&mut self, child: OriginId, life: Life) {
        let row = self.rows.get(&child).map(|(row, _)| *row);
        if let Some(awaited) = self.awaited.get_mut(&child) {
            awaited.forgot |= row.is_some_and(|row| row.is_station && row.life != life);
        }
    }

    pub(super) fn await_all(&mut self, opened: Time, lease: Duration) {
        for (child, (row, _)) in &self.rows {
            let until = if row.is_station { locks_end(opened, lease) } else { opened + lease };
            self.awaited.insert(*child, Awaited { until, forgot: false });
        }
    }
}

/// Whose locks are kept.
#[derive(Debug, Default)]
pub(crate) struct KeptLocks {
    pub(super) away: BTreeMap<OriginId, Away>,
    /// Stations that came back without what they knew, and until when the locks of their former life are kept.
    pub(super) forgetful: BTreeMap<OriginId, Time>,
}

/// A child that is away and may have left locks here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Away {
    pub(super) heard: Time,
    pub(super) is_station: bool,
    /// Its claims are over.
    pub(super) is_late: bool,
}

impl Away {
    /// When nothing of it is kept any more.
    pub(super) fn end(&self, lease: Duration) -> Time {
        if self.is_station { locks_end(self.heard, lease) } else { self.heard + lease }
    }

    pub(super) fn next(&self, lease: Duration) -> Time {
        if self.is_late { self.end(lease) } else { self.heard + lease }
    }
}

/// Until when the locks of a station are kept.
pub(crate) fn locks_end(heard: Time, lease: Duration) -> Time {
    heard + lease + lease
}

impl KeptLocks {
    /// When something ends next.
    pub(crate) fn next(&self, lease: Duration) -> Option<Time> {
        let away = self.away.values().map(|away| away.next(lease));
        away.chain(self.forgetful.values().copied()).min()
    }

    /// Whether a station came back without what it knew, and its clients may come back yet.
    pub(crate) fn is_forgetful(&self, station: OriginId) -> bool {
        self.forgetful.contains_key(&station)
    }

    /// A child went.
    pub(crate) fn note_away(&mut self, child: OriginId, kind: ChildKind, heard: Time) {
        self.away.insert(child, Away { heard, is_station: kind == ChildKind::Station, is_late: false });
    }

    /// A child is back.
    pub(crate) fn note_back(&mut self, child: OriginId) {
        self.away.remove(&child);
    }

    /// The same of a station, in another life of its store: it may have forgotten what it had.
    pub(crate) fn note_back_forgetful(&mut self, child: OriginId, lease: Duration) {
        if let Some(away) = self.away.remove(&child) {
            self.forgetful.insert(child, locks_end(away.heard, lease));
        }
    }
}
