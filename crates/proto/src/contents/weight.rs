//! What one record weighs in the sums of what has not come all the way.

use wayfs_types::Op;

/// What one record weighs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// 1, or 0 for one that only closes a gap of numbers.
    pub(super) records: u64,
    /// Bytes of contents that travel in it.
    pub(super) bytes: u64,
}

impl Weight {
    pub(crate) fn of(op: &Op) -> Self {
        let bytes = match op {
            Op::Create { content, .. } | Op::Store { content, .. } if content.root().is_none() => content.size(),
            Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. }
            | Op::SetAttr { .. }
            | Op::SetXattr { .. }
            | Op::Store { .. }
            | Op::Resolve { .. }
            | Op::Touch
            | Op::Skip { .. }
            | Op::Lost { .. }
            | Op::Exchange { .. } => 0,
        };
        Self { records: u64::from(!matches!(op, Op::Skip { .. })), bytes }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        self.records -= other.records;
        self.bytes -= other.bytes;
    }
}
