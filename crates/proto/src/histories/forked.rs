//! What is known of forked histories, and of records that were written again.

use crate::histories::lost::Lost;
use crate::mirror::Mirror;
use crate::state::log_entry::LogEntry;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{FileId, Key, Life, OriginId, RecordId};
use wayfs_wire::Stamp;

/// Which of an origin's tentative records are taken out of the view, of which the parent has others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goes {
    /// All: what follows them has nothing to stand on.
    All,
    /// Those up to this number: the parent has it, and what is behind it goes on from there.
    Through(u64),
}

impl Goes {
    /// The last number that goes. `last`: the last that there is.
    pub(crate) fn through(self, last: u64) -> u64 {
        match self {
            Self::All => last,
            Self::Through(through) => through,
        }
    }
}

/// What records that were written again are called.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RenamedRecords {
    /// As which each was.
    pub(super) renamed: BTreeMap<RecordId, RecordId>,
    /// Of those that became one: whose content the record has.
    pub(super) stands_for: BTreeMap<RecordId, RecordId>,
    /// Into which file such a record stored: copies that tell of it may be gone before the programs that
    /// have the file open, or whose writes to it a restart commits.
    pub(super) stored_into: BTreeMap<RecordId, FileId>,
}

/// What is known of forked histories.
#[derive(Debug, Default)]
pub(crate) struct Fork {
    /// Our own history forked, and how that was noticed.
    pub(super) noticed: Option<String>,
    /// Origins whose tentative records are being taken out of the view, and which of them.
    pub(super) parted: BTreeMap<OriginId, Goes>,
    /// Records that were written again.
    pub(super) names: Mirror<RenamedRecords>,
    /// Requests that wait may name some of them as they were called before.
    pub(super) renames_waiting: bool,
    /// As what the origins that we had before went on, since this store was opened: the next origin, and its last record that
    /// stands for one of theirs.
    pub(super) went_on: BTreeMap<OriginId, (OriginId, u64)>,
    /// This store wrote under another origin before.
    pub(super) has_former: bool,
    /// Our last record when this store was opened.
    pub(super) opened_at: u64,
    /// What a parent that was put back lost.
    pub(super) lost: Lost,
    /// Client: the parent went back, and has only our records up to here.
    pub(super) lost_after: Option<u64>,
    /// Client: and of the origins that we had before only so many.
    pub(super) lost_before: BTreeMap<OriginId, u64>,
    /// Client: who had told all that is known here when this store took another number, in which of its lives.
    pub(super) told_by: Option<Stamp>,
    /// Client: this parent said in the session before that it has all that the home has, and lacked records of ours.
    pub(super) caught_up: Option<Stamp>,
    /// Station: what children wrote and the home, that was put back, has not. It is written again when all that it was upon is.
    pub(super) unwritten: Vec<(OriginId, Vec<LogEntry>)>,
    /// Station: what tentative records touched before the home, that was put back, told its state.
    pub(super) touched: BTreeMap<RecordId, Vec<Key>>,
    /// Station: keys that a replay put back while the home told its whole state, and that it has not named.
    pub(super) unnamed: BTreeSet<Key>,
    /// Station: the origins that the home named while it told its whole state.
    pub(super) named: BTreeSet<OriginId>,
    /// Whose wish for a new origin was passed on.
    pub(super) asked: BTreeMap<(OriginId, Life), OriginId>,
}
