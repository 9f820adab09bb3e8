//! What is left of records that are written again under another origin.
//!
//! Others may write the same again: a station what its clients had told it, each client what it told the station. Whoever
//! looks at the result (a station that compares states) writes one record for a file where its writer had made it empty
//! and then stored into it. Equal files become one where they meet, an empty one and a full one do not. So both write the
//! same: a file is made with its content, what was made and removed is not written at all (the rules of log cancellation).

use crate::state::log_entry::LogEntry;
use crate::state::of_record::files_of;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_tree::{Canceller, CreateFolding};
use wayfs_types::{FileId, Op, Record, RecordId};

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

/// What is to be written again of records of one origin, in order. `kept`: files of which a content that may be the last
/// whole one was written over: of these every record is written again.
pub(crate) fn rewritten(entries: Vec<LogEntry>, kept: &BTreeSet<FileId>) -> Rewritten {
    let mut canceller = Canceller::new(CreateFolding::Fold);
    let mut instead: BTreeMap<RecordId, Record> = BTreeMap::new();
    // Stores that went into the making of their file: others that are cancelled went into a later one.
    let mut folded: BTreeSet<RecordId> = BTreeSet::new();
    for entry in &entries {
        if files_of(&entry.record).any(|file| kept.contains(&file)) {
            canceller.observe(&entry.record);
            continue;
        }
        for record in canceller.push(&entry.record) {
            if matches!((&record.op, &entry.record.op), (Op::Create { .. }, Op::Store { .. })) {
                folded.insert(entry.record.id);
            }
            instead.insert(record.id, record);
        }
    }
    let mut done = Rewritten::default();
    // Where the making of a file stands in what is left.
    let mut made: BTreeMap<RecordId, usize> = BTreeMap::new();
    // What stores were upon that nothing stands for any more. What programs name of them comes later, and is told by
    // [`crate::histories::renamed::Again::nothing`].
    let mut upon: BTreeMap<RecordId, RecordId> = BTreeMap::new();
    for LogEntry { record, held, .. } in entries {
        let id = record.id;
        let base = if let Op::Store { base, .. } = &record.op { Some(*base) } else { None };
        let stored_into = if let Op::Store { file, .. } = &record.op {
            Some(file.maker()).filter(|_| folded.contains(&id))
        } else {
            None
        };
        let record = instead.remove(&id).unwrap_or(record);
        match &record.op {
            Op::Touch | Op::Skip { .. } => match stored_into.and_then(|maker| made.get(&maker).copied()) {
                // Into the making of its file.
                Some(index) => {
                    done.left[index].held |= held;
                    done.left[index].formers.push(id);
                }
                None => {
                    done.dropped.push(id);
                    // Where that leads to by now: no circle that a child's records make is gone round.
                    upon.extend(base.map(|base| (id, upon.get(&base).copied().unwrap_or(base))));
                }
            },
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
            | Op::Lost { .. }
            | Op::Exchange { .. } => {
                if matches!(record.op, Op::Create { .. }) {
                    made.insert(id, done.left.len());
                }
                done.left.push(Rewrite { record, held, formers: vec![id] });
            }
        }
    }
    done.left.iter_mut().for_each(|rewrite| lead_to_what_is_there(&mut rewrite.record, &upon));
    done
}

/// A store upon what was dropped is one upon what that was upon. By its former number it would seem to follow all that the same
/// writer had sent before it was put back, and take its place (seed 180624439).
fn lead_to_what_is_there(record: &mut Record, upon: &BTreeMap<RecordId, RecordId>) {
    if let Op::Store { base, .. } = &mut record.op
        && let Some(before) = upon.get(base)
    {
        *base = *before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::{AttrChange, Chain, Content, Kind, Life, Name, OriginId, UserId, WallTime};

    fn id(sequence: u64) -> RecordId {
        RecordId::new(OriginId::new(4).unwrap(), sequence).unwrap()
    }

    fn entry(sequence: u64, op: Op, held: bool) -> LogEntry {
        let record = Record { id: id(sequence), time: WallTime::EPOCH, user: UserId(1), op };
        let (before, chain) = (Chain::START, Chain::START);
        LogEntry { record, held, structural: false, touched: Vec::new(), before, chain, life: Life::NONE, seal: None }
    }

    fn create(sequence: u64, name: &str) -> LogEntry {
        let (parent, name, content) = (FileId::ROOT, Name::new(name).unwrap(), Content::EMPTY);
        entry(sequence, Op::Create { parent, name, kind: Kind::File, mode: 0o644, uid: 1, gid: 1, content }, false)
    }

    fn store(sequence: u64, into: u64, base: u64, text: &str) -> LogEntry {
        let content = Content::Inline(bytes::Bytes::copy_from_slice(text.as_bytes()));
        let (file, base, mtime) = (FileId::made_by(id(into)), id(base), WallTime::EPOCH);
        entry(sequence, Op::Store { file, base, content, mtime }, true)
    }

    fn bases(done: &Rewritten) -> Vec<RecordId> {
        let base = |op: &Op| if let Op::Store { base, .. } = op { Some(*base) } else { None };
        done.left.iter().filter_map(|rewrite| base(&rewrite.record.op)).collect()
    }

    #[test]
    fn a_file_is_made_with_what_it_came_to_hold() {
        let done = rewritten(
            vec![create(1, "a"), create(2, "b"), store(3, 1, 1, "first"), store(4, 1, 3, "second")],
            &BTreeSet::new(),
        );
        assert!(done.dropped.is_empty(), "{done:?}");
        let formers: Vec<_> = done.left.iter().map(|rewrite| rewrite.formers.clone()).collect();
        assert_eq!(formers, [vec![id(1), id(3), id(4)], vec![id(2)]]);
        let Op::Create { content, .. } = &done.left[0].record.op else { panic!("{done:?}") };
        assert_eq!(*content, Content::Inline(bytes::Bytes::from_static(b"second")));
        assert!(done.left[0].held && !done.left[1].held);
    }

    /// Two programs store upon one version, which the first of them takes the place of: both are upon what that was upon.
    #[test]
    fn a_store_upon_what_was_dropped_is_upon_what_that_was_upon() {
        let stores = [store(7, 1, 3, "first"), store(8, 1, 7, "second"), store(9, 1, 7, "beside")];
        let done = rewritten(stores.into(), &BTreeSet::new());
        assert_eq!((bases(&done), done.dropped), (vec![id(3), id(3)], vec![id(7)]));
    }

    /// Nobody honest writes it, and a station writes again what its children sent.
    #[test]
    fn a_store_upon_itself_is_gone_round_once() {
        let stores = [store(7, 1, 7, "first"), store(8, 1, 7, "second"), store(9, 1, 7, "beside")];
        let done = rewritten(stores.into(), &BTreeSet::new());
        assert_eq!((bases(&done), done.dropped), (vec![id(7), id(7)], vec![id(7)]));
    }

    /// Seed 803 of `home-back`: a store that met another one bears the name of the copy that it became, and nothing is folded into it.
    #[test]
    fn what_was_stored_into_a_copy_and_over_is_dropped() {
        let other = RecordId::new(OriginId::new(9).unwrap(), 1).unwrap();
        let content = Content::Inline(bytes::Bytes::from_static(b"met another"));
        let op =
            Op::Store { file: FileId::made_by(other), base: other, content: content.clone(), mtime: WallTime::EPOCH };
        let done =
            rewritten(vec![entry(1, op, false), store(2, 1, 1, "second"), store(3, 1, 2, "third")], &BTreeSet::new());
        assert_eq!(done.dropped, [id(2)]);
        let formers: Vec<_> = done.left.iter().map(|rewrite| (rewrite.formers.clone(), rewrite.held)).collect();
        assert_eq!(formers, [(vec![id(1)], false), (vec![id(3)], true)], "its contents are those of the first alone");
        assert!(matches!(&done.left[0].record.op, Op::Store { content: kept, .. } if *kept == content));
    }

    /// Seed 1257 of `home-back`: the making of the file was said to hold what was stored into it later and over, and that had been let go.
    #[test]
    fn what_was_stored_over_is_not_what_a_file_was_made_with() {
        let change = AttrChange { mode: Some(0o600), ..AttrChange::default() };
        let attributes = entry(
            3,
            Op::SetAttr { file: FileId::made_by(id(1)), base: wayfs_types::AttrVersion(id(1)), change },
            false,
        );
        let entries = vec![
            create(1, "a"),
            store(2, 1, 1, "first"),
            attributes,
            store(4, 1, 2, "second"),
            store(5, 1, 4, "third"),
        ];
        let done = rewritten(entries, &BTreeSet::new());
        assert_eq!(done.dropped, [id(4)]);
        let formers: Vec<_> = done.left.iter().map(|rewrite| rewrite.formers.clone()).collect();
        assert_eq!(formers, [vec![id(1), id(2)], vec![id(3)], vec![id(5)]]);
    }

    #[test]
    fn what_was_made_and_removed_is_not_written_again() {
        let (parent, name, file) = (FileId::ROOT, Name::new("a").unwrap(), FileId::made_by(id(1)));
        let unlink = entry(3, Op::Unlink { parent, name, file, version: id(2) }, false);
        let done = rewritten(vec![create(1, "a"), store(2, 1, 1, "gone"), unlink, create(4, "b")], &BTreeSet::new());
        assert_eq!(done.dropped, [id(1), id(2), id(3)]);
        assert_eq!(done.left.len(), 1);
        assert_eq!(done.left[0].formers, [id(4)]);
    }
}
