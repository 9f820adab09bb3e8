//! Operations that take a name away: unlink and rmdir.
//!
//! An update beats a removal: what its remover did not see stays.

use crate::edit::Edit;
use crate::landing::place_of;
use crate::lineage::{Lineage, follow, holds};
use crate::view::ViewMut;
use crate::{Effect, Outcome};
use wayfs_types::{ConflictKind, FileId, Name, Place, RecordId, StorageError};

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
    let removed_copy = if seen.file == file { None } else { remove_copy(edit, seen)? };
    let Some(inode) = edit.living(file)?.filter(|inode| !inode.is_directory()) else {
        let outcome = if removed_copy.is_some() { Outcome::AsMeant } else { Outcome::NoEffect };
        return Ok(Effect::on(outcome, file).removing(removed_copy));
    };
    let Some(place) = place_of(edit, file, parent, name)? else {
        return Ok(edit.refuse(ConflictKind::StoreUnlink, file, Some(asked))?.removing(removed_copy));
    };
    let is_last = inode.places.len() == 1;
    let was_seen = seen.file == file && holds(inode.version, seen.base);
    if is_last && !was_seen {
        return Ok(edit.refuse(ConflictKind::StoreUnlink, file, Some(asked))?.removing(removed_copy));
    }
    let removed = edit.detach(file, &place)?;
    Ok(Effect::on(Outcome::AsMeant, file).removing(removed.or(removed_copy)))
}

/// The content that the remover saw had become a conflict copy: that is what goes.
fn remove_copy<V: ViewMut>(edit: &mut Edit<'_, V>, seen: Lineage) -> Result<Option<FileId>, StorageError> {
    match edit.living(seen.file)? {
        Some(copy) if copy.places.len() == 1 && !copy.is_directory() && holds(copy.version, seen.base) => {
            edit.detach(seen.file, &copy.places[0])
        }
        _ => Ok(None),
    }
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
