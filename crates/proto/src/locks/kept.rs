//! Locks of children that are not there to speak for them.
//!
//! Those of a client that left are kept for a lease after it was heard last: so long it may believe in them.
//!
//! The locks of a station that is away are kept for two leases after it was heard last. The station takes what it has for its
//! clients for lost a lease after it asked the home last (`locks/vouched.rs`), and a client what it has a lease after it asked
//! its station last: so nobody thinks any more that he has one when it is given to another. Claims are no program's, and kept for one
//! lease: what is changed under them is answered when the home has it.
//!
//! A station that was restarted has forgotten what its clients have. What it does not reclaim is kept as long, for them to come
//! back to it and ask for it (`Up::KeepLock`).

use crate::children::ChildKind;
use crate::children::Children;
use crate::locks::Locks;
use crate::locks::table::Which;
use crate::replica::Core;
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::{MetaStore, OriginId, Time};

/// Whose locks are kept.
#[derive(Debug, Default)]
pub(crate) struct KeptLocks {
    away: BTreeMap<OriginId, Away>,
    /// Stations that came back without what they knew, and until when the locks of their former life are kept.
    forgetful: BTreeMap<OriginId, Time>,
}

/// A child that is away and may have left locks here.
#[derive(Debug, Clone, Copy)]
struct Away {
    heard: Time,
    is_station: bool,
    /// Its claims are over.
    is_late: bool,
}

impl Away {
    /// When nothing of it is kept any more.
    fn end(&self, lease: Duration) -> Time {
        if self.is_station { locks_end(self.heard, lease) } else { self.heard + lease }
    }

    fn next(&self, lease: Duration) -> Time {
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

impl Locks {
    /// A child has reclaimed what it knows of.
    pub(crate) fn locks_child_started<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
    ) {
        let is_forgetful = self.kept.is_forgetful(child);
        let which = if is_forgetful { Which::Claims } else { Which::All };
        let granted = self.table.release_stale(child, which);
        Self::tell_granted(core, children, granted);
        self.locks_left_claimed(core, child);
        self.end_relays(core);
        self.end_grace_of(core, children, child);
    }

    /// Ends what was kept long enough.
    pub(crate) fn check_kept_locks<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        let (now, lease) = (core.now, core.config.lease);
        let away = &self.kept.away;
        let over: Vec<_> = away.iter().filter(|(_, away)| now >= away.next(lease)).map(|(o, a)| (*o, *a)).collect();
        for (child, away) in over {
            if now >= away.end(lease) {
                self.kept.away.remove(&child);
                if away.is_station {
                    self.locks_release_child(core, children, child);
                } else {
                    self.locks_leave(core, children, child);
                }
            } else {
                self.kept.away.insert(child, Away { is_late: true, ..away });
                let granted = self.table.release_all(child, Which::Claims);
                Self::tell_granted(core, children, granted);
            }
        }
        let forgetful = std::mem::take(&mut self.kept.forgetful);
        let (over, left) = forgetful.into_iter().partition(|(_, until)| now >= *until);
        self.kept.forgetful = left;
        for (station, _) in BTreeMap::<OriginId, Time>::into_iter(over) {
            // One that has not yet reclaimed what it knows of does so now.
            let is_reclaiming = children.is_beginning(station);
            if !is_reclaiming {
                let granted = self.table.release_stale(station, Which::All);
                Self::tell_granted(core, children, granted);
            }
        }
    }
}
