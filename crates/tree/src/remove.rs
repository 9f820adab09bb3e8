//! Operations that take a name away: unlink and rmdir.
//!
//! An update beats a removal: what its remover did not see stays.

use crate::edit::Edit;
use crate::landing::place_of;
use crate::lineage::{follow, holds_or_lost, is_lost_heir};
use crate::lost::forget_loss;
use crate::view::{ViewMut, entry};
use crate::{Effect, Outcome};
use wayfs_types::{ConflictKind, FileId, Inode, Name, Place, RecordId, StorageError};

/// Takes a name from a file that is not a directory.
pub(crate) fn unlink<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    parent: FileId,
    name: &Name,
    file: FileId,
    version: RecordId,
) -> Result<Effect, StorageError> {
    let seen = follow(edit.view, file, version)?;
    let file = edit.resolve(file)?;
    let asked = Place { parent: edit.resolve(parent)?, name: name.clone() };
    let Some(inode) = edit.living(file)?.filter(|inode| !inode.is_directory()) else {
        return Ok(Effect::on(Outcome::NoEffect, file));
    };
    let stands = match place_of(edit, file, parent, name)? {
        None => place_before_loss(edit, seen.base, &inode)?,
        there => there,
    };
    let Some(place) = stands else {
        return edit.refuse(ConflictKind::StoreUnlink, file, Some(asked));
    };
    // What the remover saw may have become a conflict copy. That stays, too: it may have had
    // another name where the remover looked.
    let by = edit.record.id.origin();
    let was_seen = seen.file == file && holds_or_lost(edit.view, by, seen, inode.version)?;
    if inode.has_one_name() && !was_seen {
        return edit.refuse(ConflictKind::StoreUnlink, file, Some(asked));
    }
    let removed = edit.detach(file, &place)?;
    if removed.is_some() {
        forget_loss(edit, inode.version)?;
    }
    Ok(Effect::on(Outcome::AsMeant, file).removing(removed))
}

/// Where a file with one name stands, if its remover gave it that name and what he did later is lost here: the home was put back to a copy
/// of before he moved it, and removed it.
fn place_before_loss<V: ViewMut>(
    edit: &Edit<'_, V>,
    base: RecordId,
    inode: &Inode,
) -> Result<Option<Place>, StorageError> {
    let Some(place) = inode.places.first().filter(|_| inode.has_one_name()) else { return Ok(None) };
    let Some(entry) = entry(edit.view, place.parent, &place.name)? else { return Ok(None) };
    let is_his = is_lost_heir(edit.view, edit.record.id.origin(), entry.version, base)?;
    Ok(is_his.then(|| place.clone()))
}

/// Removes a directory if it is empty here, too.
pub(crate) fn rmdir<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    parent: FileId,
    name: &Name,
    file: FileId,
) -> Result<Effect, StorageError> {
    let file = edit.resolve(file)?;
    if edit.living(file)?.is_none_or(|inode| !inode.is_directory()) {
        return Ok(Effect::on(Outcome::NoEffect, file));
    }
    let place = place_of(edit, file, parent, name)?;
    match place {
        Some(place) if edit.view.first_entry(file)?.is_none() => {
            let removed = edit.detach(file, &place)?;
            Ok(Effect::on(Outcome::AsMeant, file).removing(removed))
        }
        stays => edit.refuse(ConflictKind::InsideRmdir, file, stays),
    }
}
