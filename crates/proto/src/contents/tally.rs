//! Running sums over the records of a log that are beyond a mark.

use crate::contents::weight::Weight;
use crate::state::log_item::LogItem;
use crate::state::position::LogPosition;
use std::collections::BTreeMap;
use wayfs_types::WallTime;

/// Records of a log beyond a mark. The mark goes through the log in order.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// What is beyond the mark.
    pub(crate) beyond: Weight,
    through: u64,
    /// Positions before this one are not beyond it.
    next: LogPosition,
}

impl Tally {
    pub(crate) fn append(&mut self, item: &LogItem) {
        if item.id.sequence() > self.through {
            self.beyond.add(item.weight);
        }
    }

    pub(crate) fn forget(&mut self, item: &LogItem) {
        if item.id.sequence() > self.through {
            self.beyond.subtract(item.weight);
        }
    }

    /// The mark went on.
    pub(crate) fn advance(&mut self, items: &BTreeMap<LogPosition, LogItem>, through: u64) {
        if through <= self.through {
            return;
        }
        for (position, item) in items.range(self.next..) {
            if item.id.sequence() > through {
                break;
            }
            if item.id.sequence() > self.through {
                self.beyond.subtract(item.weight);
            }
            self.next = position.next();
        }
        self.through = through;
    }

    /// Whether a record is beyond the mark.
    pub(super) const fn has_beyond(&self, item: &LogItem) -> bool {
        item.id.sequence() > self.through
    }

    /// The first record beyond the mark that is an update.
    pub(super) fn oldest(&self, items: &BTreeMap<LogPosition, LogItem>) -> Option<WallTime> {
        let mut beyond = items.range(self.next..).map(|(_, item)| item);
        beyond.find(|item| item.id.sequence() > self.through && item.weight.records > 0).map(|item| item.time)
    }
}

/// How far a client's own records have come elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnProgress {
    /// All through this one are safe.
    pub(crate) safe: u64,
    /// All through this one are visible.
    pub(crate) visible: u64,
}
