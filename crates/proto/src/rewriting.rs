//! What is left of records that are written again under another origin.
//!
//! Others may write the same again: a station what its clients had told it, each client what it told the station. Whoever
//! looks at the result (a station that compares states) writes one record for a file where its writer had made it empty
//! and then stored into it. Equal files become one where they meet, an empty one and a full one do not. So both write the
//! same: a file is made with its content, what was made and removed is not written at all (the rules of log cancellation).

use crate::tentative::LogEntry;
use std::collections::BTreeMap;
use wayfs_tree::{Canceller, CreateFolding};
use wayfs_types::{Op, Record, RecordId};

/// A record to be written again.
#[derive(Debug)]
pub(crate) struct Rewrite {
    pub(crate) record: Record,
    /// We, or someone below, hold its contents.
    pub(crate) held: bool,
    /// The records that it stands for, its own first.
    pub(crate) formers: Vec<RecordId>,
}

/// Records of one origin, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    pub(crate) left: Vec<Rewrite>,
    /// Records that need not be written again: nothing stands for them.
    pub(crate) dropped: Vec<RecordId>,
}

/// What is to be written again of records of one origin, in order.
pub(crate) fn rewritten(entries: Vec<LogEntry>) -> Rewritten {
    let mut canceller = Canceller::new(CreateFolding::Fold);
    let mut instead: BTreeMap<RecordId, Record> = BTreeMap::new();
    for entry in &entries {
        for record in canceller.push(&entry.record) {
            instead.insert(record.id, record);
        }
    }
    let mut done = Rewritten::default();
    // Where the making of a file stands in what is left.
    let mut made: BTreeMap<RecordId, usize> = BTreeMap::new();
    for LogEntry { record, held, .. } in entries {
        let id = record.id;
        let stored_into = if let Op::Store { file, .. } = &record.op { Some(file.maker()) } else { None };
        let record = instead.remove(&id).unwrap_or(record);
        match &record.op {
            Op::Touch | Op::Skip { .. } => match stored_into.and_then(|maker| made.get(&maker).copied()) {
                // Into the making of its file.
                Some(index) => {
                    done.left[index].held |= held;
                    done.left[index].formers.push(id);
                }
                None => done.dropped.push(id),
            },
            _ => {
                made.insert(id, done.left.len());
                done.left.push(Rewrite { record, held, formers: vec![id] });
            }
        }
    }
    done
}
