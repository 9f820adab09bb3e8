//! A child that comes back: what it did before stands before what others are told and given.
//!
//! A client says in order what it does in a directory that it changes alone, and under a lock. When its session breaks, or it is killed,
//! the last of it is in its log and nowhere else, and comes behind the start of its next session. So who looks there goes on waiting,
//! and locks that it does not claim again stay its own, until it says that all of that is there:
//!
//! ```text
//!   session over ──▶ Hello ──▶ Start ──▶ GiveBack, of nothing
//!                               Records, GivenBack ──▶ others are answered, and get the locks
//! ```
//!
//! Nobody is waited for longer than a lease behind the start, nor behind the last word of the session before if there is no start.

use crate::children::Children;
use crate::children::former::Former;
use crate::replica::Replica;
use crate::replica::core::Core;
use std::collections::BTreeSet;
use wayfs_types::{MetaStore, OriginId};
use wayfs_wire::{Down, RecallId, Then};

impl<S: MetaStore> Replica<S> {
    /// A child has told what it knows of, and goes on to say what it did.
    pub(crate) fn begin_return(&mut self, child: OriginId) {
        let is_station = self.children.by_origin.get(&child).is_some_and(|row| row.is_station);
        let had_rights = self.children.returning.by_child.contains_key(&child);
        if is_station || !(had_rights || self.locks.has_stale(child)) {
            self.locks.locks_child_started(&mut self.core, &mut self.children, child);
            return self.settle_requests();
        }
        let serial = self.children.rights.next_recall();
        let now = self.core.now;
        let former = self.children.returning.by_child.entry(child);
        let former = former.or_insert_with(|| Former { alone: BTreeSet::new(), since: now, asked: None });
        (former.since, former.asked) = (now, Some(serial));
        self.children.post_rights(child, Down::GiveBack { serial, files: Vec::new(), then: Then::Look });
    }

    /// A child has said all that it had done before its session began, if this answers the question.
    pub(crate) fn end_return(&mut self, child: OriginId, serial: RecallId) {
        if self.children.returning.by_child.get(&child).is_some_and(|former| former.asked == Some(serial)) {
            self.children.returning.forget(child);
            self.locks.locks_child_started(&mut self.core, &mut self.children, child);
            self.settle_requests();
        }
    }

    /// Waits no more for who did not come back within a lease, or did not answer for one.
    pub(crate) fn end_late_returns(&mut self) {
        let lease = self.core.config.lease;
        let late = |former: &Former| self.core.now >= former.since + lease;
        let over: Vec<(OriginId, Option<RecallId>)> = self
            .children
            .returning
            .by_child
            .iter()
            .filter(|(_, former)| late(former))
            .map(|(child, former)| (*child, former.asked))
            .collect();
        for (child, asked) in over {
            match asked {
                Some(serial) => {
                    tracing::warn!(%child, "a client that came back did not say for a lease that it had sent what it did before");
                    self.end_return(child, serial);
                }
                None => self.children.returning.forget(child),
            }
        }
    }
}

impl Children {
    /// A child opens another session: what it had in the last one it may not have said to the end.
    pub(crate) fn note_former_session<S: MetaStore>(&mut self, core: &Core<S>, child: OriginId) {
        let heard = self.by_origin.get(&child).map_or(core.now, |row| row.heard);
        let alone = self.rights.take(child);
        self.returning.note(child, alone.into_iter(), heard);
    }
}
