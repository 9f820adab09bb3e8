//! A record of the log as memory keeps it.

use crate::contents::weight::Weight;
use crate::state::empty_change::EmptyChange;
use wayfs_types::{Chain, FileId, Life, RecordId, Ticket, WallTime};

/// A record of the log as memory keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogItem {
    pub(crate) id: RecordId,
    /// The sequence that must have come before.
    pub(crate) after: u64,
    pub(crate) time: WallTime,
    /// Batch that holds it.
    pub(crate) ticket: Ticket,
    pub(crate) structural: bool,
    pub(crate) empty_change: EmptyChange,
    /// The running hash of its origin after it.
    pub(crate) chain: Chain,
    /// The life of the writer's store in which it was written.
    pub(crate) life: Life,
    /// The parent's state does not have it yet.
    pub(crate) tentative: bool,
    /// It stands in place of another one that a former batch holds: a crash would bring that back.
    pub(crate) rewritten: bool,
    /// Its writer signed it and all before it.
    pub(crate) sealed: bool,
    pub(crate) weight: Weight,
    /// File or directory whose time it sets.
    pub(crate) dated: Option<FileId>,
}
