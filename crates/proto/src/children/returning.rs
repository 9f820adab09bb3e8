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
use crate::replica::{Core, Replica};
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{FileId, MetaStore, OriginId, Time};
use wayfs_wire::{Down, RecallId, Then};

/// Who is expected to say more of a session that is over, or to have said all. A client stands here while it is away for less than a
/// lease, or has started and not answered: there are as many as members, and so many directories as they had rights to.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    by_child: BTreeMap<OriginId, Former>,
}

/// What a child had when its session ended.
#[derive(Debug)]
struct Former {
    /// Directories that it changed alone.
    alone: BTreeSet<FileId>,
    /// When it was heard last, or started anew.
    since: Time,
    /// The question in its new session.
    asked: Option<RecallId>,
}

impl Returning {
    /// A session is over in which a child had these alone.
    fn note(&mut self, child: OriginId, alone: impl Iterator<Item = FileId>, heard: Time) {
        let mut alone = alone.peekable();
        if let Some(former) = self.by_child.get_mut(&child) {
            former.asked = None;
            former.alone.extend(alone);
        } else if alone.peek().is_some() {
            self.by_child.insert(child, Former { alone: alone.collect(), since: heard, asked: None });
        }
    }

    /// Whether somebody else may have changed something here of which nothing has come yet.
    pub(crate) fn is_anothers(&self, child: OriginId, file: &FileId) -> bool {
        self.by_child.iter().any(|(other, former)| *other != child && former.alone.contains(file))
    }

    /// A child went for good, or nobody waits for it.
    pub(crate) fn forget(&mut self, child: OriginId) {
        self.by_child.remove(&child);
    }

    pub(crate) fn first(&self) -> Option<Time> {
        self.by_child.values().map(|former| former.since).min()
    }
}

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
