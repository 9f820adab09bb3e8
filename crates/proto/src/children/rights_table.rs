//! Which child has which directories alone, who claims them, and who was asked to give them back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wayfs_types::{FileId, OriginId, Time};
use wayfs_wire::{AskId, RecallId};

/// Claims of all children that wait. One more is granted at once: a child that claims so much has no use of the order.
pub(super) const CLAIMS_MAX: usize = 16_384;

/// The table of a parent.
#[derive(Debug, Default)]
pub(crate) struct ChildRights {
    pub(super) alone: BTreeMap<FileId, OriginId>,
    pub(super) claims: VecDeque<Claim>,
    /// What children were asked to give back, by child and number.
    pub(super) calls: BTreeMap<(OriginId, RecallId), Call>,
    last: RecallId,
    /// Children to whom something is to be said.
    pub(crate) posted: BTreeSet<OriginId>,
}

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) child: OriginId,
    pub(super) ask: AskId,
    pub(super) files: BTreeSet<FileId>,
    /// Who was asked for all of them.
    pub(super) called: BTreeSet<OriginId>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) files: Vec<FileId>,
    pub(super) since: Time,
}

impl ChildRights {
    pub(super) fn is_called(&self, child: OriginId, mut of: impl FnMut(&FileId) -> bool) -> bool {
        let calls = self.calls.range((child, RecallId(0))..=(child, RecallId(u64::MAX)));
        calls.into_iter().any(|(_, call)| call.files.iter().any(&mut of))
    }

    /// A child is gone, with all that it had.
    pub(crate) fn forget(&mut self, child: OriginId) {
        self.take(child);
    }

    /// A session is over: answers what its child had alone.
    pub(crate) fn take(&mut self, child: OriginId) -> Vec<FileId> {
        self.claims.retain(|claim| claim.child != child);
        self.calls.retain(|(called, _), _| *called != child);
        let alone = self.alone.iter().filter(|(_, holder)| **holder == child).map(|(file, _)| *file).collect();
        self.alone.retain(|_, holder| *holder != child);
        alone
    }

    /// A number for a question.
    pub(crate) fn next_recall(&mut self) -> RecallId {
        self.last = self.last.next();
        self.last
    }

    /// A child looks at a directory no more.
    pub(crate) fn leave(&mut self, child: OriginId, file: FileId) {
        if self.alone.get(&file) == Some(&child) {
            self.alone.remove(&file);
        }
    }

    pub(super) fn end_call(&mut self, child: OriginId, serial: RecallId) {
        for file in self.calls.remove(&(child, serial)).map(|call| call.files).unwrap_or_default() {
            self.leave(child, file);
        }
    }

    pub(super) fn first_call(&self) -> Option<Time> {
        self.calls.values().map(|call| call.since).min()
    }
}
