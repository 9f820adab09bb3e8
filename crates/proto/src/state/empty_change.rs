//! Names with nothing behind them.
//!
//! Such a name tells others little: it is the lock of a program, or the beginning of something. A station that gathers
//! records waits longer where one stands among them (`upstream/gathered.rs`).

use std::collections::BTreeSet;
use wayfs_types::{Content, FileId, Op, RecordId};

/// What a record does to such names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EmptyChange {
    /// It makes an empty file or directory.
    makes: bool,
    /// Files and directories that have something in them now, or are gone.
    ends: [Option<FileId>; 2],
}

impl EmptyChange {
    pub(crate) fn of(op: &Op) -> Self {
        let (makes, ends) = match op {
            Op::Create { parent, content, .. } => (*content == Content::EMPTY, [Some(*parent), None]),
            Op::Mkdir { parent, .. } => (true, [Some(*parent), None]),
            Op::Link { parent, .. } => (false, [Some(*parent), None]),
            Op::Rename { to_parent, replaced, .. } => (false, [Some(*to_parent), replaced.map(|seen| seen.file)]),
            Op::Store { file, .. } | Op::Unlink { file, .. } | Op::Rmdir { file, .. } => (false, [Some(*file), None]),
            Op::SetAttr { .. }
            | Op::SetXattr { .. }
            | Op::Resolve { .. }
            | Op::Touch
            | Op::Skip { .. }
            | Op::Lost { .. }
            | Op::Exchange { .. } => (false, [None, None]),
        };
        Self { makes, ends }
    }

    /// Keeps account of what is empty.
    pub(crate) fn note(self, record: RecordId, empty: &mut BTreeSet<FileId>) {
        for file in self.ends.into_iter().flatten() {
            empty.remove(&file);
        }
        if self.makes {
            empty.insert(FileId::made_by(record));
        }
    }
}
