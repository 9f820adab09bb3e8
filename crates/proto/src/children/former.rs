//! What children had when their sessions ended, until they have said more of it.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{FileId, OriginId, Time};
use wayfs_wire::RecallId;

/// Who is expected to say more of a session that is over, or to have said all. A client stands here while it is away for less than a
/// lease, or has started and not answered: there are as many as members, and so many directories as they had rights to.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    pub(super) by_child: BTreeMap<OriginId, Former>,
}

/// What a child had when its session ended.
#[derive(Debug)]
pub(super) struct Former {
    /// Directories that it changed alone.
    pub(super) alone: BTreeSet<FileId>,
    /// When it was heard last, or started anew.
    pub(super) since: Time,
    /// The question in its new session.
    pub(super) asked: Option<RecallId>,
}

impl Returning {
    /// A session is over in which a child had these alone.
    pub(super) fn note(&mut self, child: OriginId, alone: impl Iterator<Item = FileId>, heard: Time) {
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
