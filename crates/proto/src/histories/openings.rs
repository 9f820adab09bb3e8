//! The openings of a store, and what the cursor of a child is to them.

use wayfs_types::{CommitNumber, Life, Time};
use wayfs_wire::Resume;

/// Why a session ends with a child that may have seen what is lost.
pub(crate) const BEGIN_ANEW: &str = "the home lost what it had told: begin anew";

/// One opening of our store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) life: Life,
    /// Our newest change then.
    pub(super) at: CommitNumber,
}

/// The openings of our store, oldest first.
#[derive(Debug, Default, Clone)]
pub(crate) struct Lives {
    pub(super) opened: Vec<Opened>,
    /// Some were forgotten.
    pub(super) is_cut: bool,
    /// The present one, and the number of its row.
    pub(super) present: Option<(u64, Opened)>,
    /// A child knew more than we.
    pub(crate) went_back: bool,
    /// When we last heard, in this life, that what we had told is lost.
    pub(crate) lost_at: Option<Time>,
}

/// What a cursor of a child is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// Of our history.
    Ours,
    /// Of another store, or of a life so long ago that nothing can be said.
    Foreign,
    /// Of a history that this store had and has lost.
    Lost,
    /// Of the home whose place this one took.
    Former,
}

impl Lives {
    /// The present life, if the driver drew one.
    pub(super) fn present(&self) -> Option<Life> {
        self.present.map(|(_, opened)| opened.life)
    }

    /// Whether the store was opened before in another life: then it may be an older copy.
    pub(crate) fn is_later(&self) -> bool {
        self.is_cut || self.opened.len() > 1
    }

    /// What a cursor is, if our newest change is `current`.
    pub(super) fn place(&self, resume: &Resume, current: CommitNumber) -> Cursor {
        let Some(index) = self.opened.iter().position(|opened| opened.life == resume.stamp.life) else {
            return if self.is_cut { Cursor::Foreign } else { Cursor::Lost };
        };
        let end = self.opened.get(index + 1).map_or(current, |next| next.at);
        if resume.cursor <= end { Cursor::Ours } else { Cursor::Lost }
    }
}
