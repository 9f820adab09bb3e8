//! The bytes of a version are lost: what its file shows instead.
//!
//! The home says so when nobody is left who could have them. The file shows the last content that is whole, under a
//! version of its own, since those who saw the lost one must not see an older one. Whoever goes on from the lost version
//! meets nobody: nothing else took its place.

use crate::edit::{Edit, later};
use crate::lineage::follow;
use crate::view::ViewMut;
use crate::{Effect, Outcome};
use std::sync::Arc;
use wayfs_types::{Conflict, ConflictKind, Content, FileId, Image, Key, Kind, RecordId, StorageError, WallTime};

/// Takes a lost version out of the place of the current one.
pub(crate) fn lost<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    file: FileId,
    version: RecordId,
    instead: Option<&Content>,
    mtime: WallTime,
) -> Result<Effect, StorageError> {
    let seen = follow(edit.view, file, version)?;
    let id = edit.record.id;
    let Some(inode) = edit.living(seen.file)?.filter(|inode| inode.kind == Kind::File) else {
        return Ok(Effect::on(Outcome::NoEffect, seen.file));
    };
    if inode.version != seen.base {
        return Ok(Effect::on(Outcome::NoEffect, seen.file));
    }
    let mut inode = Arc::unwrap_or_clone(inode);
    let place = inode.places.first().cloned();
    inode.version = id;
    inode.ctime = later(inode.ctime, edit.record.time);
    if let Some(content) = instead {
        inode.content = content.clone();
        inode.mtime = mtime;
    }
    edit.put_inode(seen.file, inode)?;
    let report = Conflict {
        kind: ConflictKind::ContentLost,
        file: seen.file,
        copy: None,
        winner: if instead.is_some() { id } else { version },
        record: version,
        user: edit.record.user,
        time: edit.record.time,
        place,
    };
    edit.view.put(Key::Conflict(id), Some(Image::Conflict(Box::new(report))))?;
    Ok(Effect::on(Outcome::Conflict(ConflictKind::ContentLost), seen.file))
}

/// A file whose bytes were lost is written or removed: the report has nothing to say any more, unless an older content had
/// been brought back, on which a program may have gone on without knowing.
pub(crate) fn forget_loss<V: ViewMut>(edit: &mut Edit<'_, V>, replaced: RecordId) -> Result<(), StorageError> {
    let key = Key::Conflict(replaced);
    match edit.view.image(&key)? {
        Some(Image::Conflict(report)) if report.is_bare_loss() => edit.view.put(key, None),
        _ => Ok(()),
    }
}
