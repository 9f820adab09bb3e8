//! The numbers that change with every batch, and are stored with it.

use crate::replica::composition::Position;
use crate::state::position::LogPosition;
use crate::state::tables::table;
use serde::{Deserialize, Serialize};
use wayfs_types::CommitNumber;
use wayfs_wire::{Resume, Stamp};

/// The one row of the meta table that changes with every batch.
pub(crate) const COUNTERS: &[u8] = &[table::META, b'c'];

/// What must survive a crash together with every batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Newest change of the view, in this replica's own numbering.
    pub(super) change: CommitNumber,
    /// Next place in the log.
    pub(super) position: LogPosition,
    /// Last sequence of our own.
    pub(super) sequence: u64,
    /// Tombstones are purged up to this change.
    pub(super) purged: CommitNumber,
    /// Names this store for children.
    pub(super) stamp: Option<Stamp>,
    /// Where we left off with our parent.
    pub(super) resume: Option<Resume>,
    /// A station that takes over the whole state: what has a number up to here at the end is no more.
    pub(super) reset: Option<CommitNumber>,
    /// The home was put back to an older copy: what it lost is written again.
    pub(super) rescues: bool,
    /// The parent's whole state has been here once.
    pub(super) synced: bool,
}

impl Counters {
    /// Those of a store that holds nothing yet.
    pub(super) fn of_new(position: Position) -> Self {
        Self {
            change: CommitNumber::ZERO,
            position: LogPosition::START.next(),
            sequence: 0,
            purged: CommitNumber::ZERO,
            stamp: None,
            resume: None,
            reset: None,
            rescues: false,
            synced: position == Position::Orders,
        }
    }
}
