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

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::absent::Away;
use crate::locks::table::Which;
use crate::replica::core::Core;
use std::collections::BTreeMap;
use wayfs_types::{MetaStore, OriginId, Time};

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
