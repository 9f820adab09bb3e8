//! What a record is about, its content and its files, and the content of an inode.

use wayfs_types::{Content, FileId, Inode, Op, Record, RecordId};

/// The content that a record names, and its file.
pub(crate) fn content_of(record: &Record) -> Option<(FileId, &Content)> {
    match &record.op {
        Op::Create { content, .. } => Some((FileId::made_by(record.id), content)),
        Op::Store { file, content, .. } => Some((*file, content)),
        Op::Mkdir { .. }
        | Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::Exchange { .. }
        | Op::SetAttr { .. }
        | Op::SetXattr { .. }
        | Op::Resolve { .. }
        | Op::Touch
        | Op::Skip { .. }
        | Op::Lost { .. } => None,
    }
}

/// The file that an operation is about.
pub(crate) fn file_of(op: &Op, id: RecordId) -> Option<FileId> {
    match op {
        Op::Create { .. } | Op::Mkdir { .. } => Some(FileId::made_by(id)),
        Op::Link { file, .. }
        | Op::Unlink { file, .. }
        | Op::Rmdir { file, .. }
        | Op::Rename { file, .. }
        | Op::Exchange { file, .. }
        | Op::SetAttr { file, .. }
        | Op::SetXattr { file, .. }
        | Op::Store { file, .. }
        | Op::Lost { file, .. } => Some(*file),
        Op::Resolve { .. } | Op::Touch | Op::Skip { .. } => None,
    }
}

/// Files whose content or names a record is about.
pub(crate) fn files_of(record: &Record) -> impl Iterator<Item = FileId> {
    let second = match &record.op {
        Op::Rename { replaced, .. } => replaced.map(|seen| seen.file),
        Op::Exchange { other, .. } => Some(*other),
        Op::Create { .. }
        | Op::Mkdir { .. }
        | Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::SetAttr { .. }
        | Op::SetXattr { .. }
        | Op::Store { .. }
        | Op::Resolve { .. }
        | Op::Touch
        | Op::Skip { .. }
        | Op::Lost { .. } => None,
    };
    file_of(&record.op, record.id).into_iter().chain(second)
}

/// What an inode says of the contents of its version: the marker of a removed file names none, whatever the file had.
pub(crate) fn content_named(inode: &Inode) -> Option<&Content> {
    (!inode.is_removed()).then_some(&inode.content)
}
