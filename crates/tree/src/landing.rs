//! Where something lands whose directory may be gone.
//!
//! A directory that was removed while somebody worked in it comes back, with
//! the directories above it as far as they were removed, too. If one of them
//! is not even remembered, the root takes what needs a home.

use crate::conflict_name::is_conflict_name_of;
use crate::edit::Edit;
use crate::names::{each_name_in, has_name};
use crate::view::{View, ViewMut, inode, resolve};
use std::sync::Arc;
use wayfs_types::{FileId, Name, Place, StorageError};

/// Removed directories brought back at most by one record: deeper ones are only met by damaged or half-known state.
const REVIVED_MAX: usize = 10_000;

/// How a directory can be reached.
pub(crate) struct Landing {
    /// The nearest living directory at or above the one asked for.
    pub(crate) living: FileId,
    /// Markers to bring back below it, the outermost first.
    revived: Vec<FileId>,
    /// Whether the way up ended at something unknown, so that the root must do.
    pub(crate) is_homeless: bool,
}

impl Landing {
    /// Whether directories must be brought back.
    pub(crate) fn revives(&self) -> bool {
        !self.revived.is_empty()
    }
}

/// Finds the way to a directory without changing anything.
pub(crate) fn locate(view: &impl View, directory: FileId) -> Result<Landing, StorageError> {
    let mut revived = Vec::new();
    let mut at = resolve(view, directory)?;
    while revived.len() < REVIVED_MAX {
        match inode(view, at)? {
            Some(inode) if inode.is_directory() && !inode.is_removed() => {
                revived.reverse();
                return Ok(Landing { living: at, revived, is_homeless: false });
            }
            Some(inode) if inode.is_directory() => {
                let Some(last) = &inode.removed_from else {
                    break;
                };
                revived.push(at);
                at = resolve(view, last.parent)?;
            }
            _ => break,
        }
    }
    Ok(Landing { living: FileId::ROOT, revived: Vec::new(), is_homeless: true })
}

/// Brings back what the landing needs and answers the directory to use.
pub(crate) fn settle<V: ViewMut>(edit: &mut Edit<'_, V>, landing: &Landing) -> Result<FileId, StorageError> {
    let mut parent = landing.living;
    for directory in &landing.revived {
        parent = revive(edit, *directory, parent)?;
    }
    Ok(parent)
}

fn revive<V: ViewMut>(edit: &mut Edit<'_, V>, directory: FileId, parent: FileId) -> Result<FileId, StorageError> {
    let Some(marker) = edit.inode(directory)? else {
        return Ok(parent);
    };
    let Some(last) = marker.removed_from.clone() else {
        return Ok(parent);
    };
    let place = Place { parent, name: last.name };
    let taken = edit.entry(parent, &place.name)?;
    if let Some(taken) = taken
        && edit.living(taken.file)?.is_some_and(|inode| inode.is_directory())
    {
        // Somebody made the directory anew: the two are one.
        edit.alias(directory, marker.version, taken.file)?;
        return Ok(taken.file);
    }
    let place = edit.free_place(&place)?;
    edit.attach(directory, Arc::unwrap_or_clone(marker), place)?;
    Ok(directory)
}

/// Where a file stands that its writer knows as `name` in `parent`: there, or
/// under a conflict name beside it that an earlier record of the writer got.
/// Another's conflict name is a name that the writer knows as such.
pub(crate) fn place_of<V: ViewMut>(
    edit: &Edit<'_, V>,
    file: FileId,
    parent: FileId,
    name: &Name,
) -> Result<Option<Place>, StorageError> {
    let parent = edit.resolve(parent)?;
    let Some(inode) = edit.living(file)? else {
        return Ok(None);
    };
    let exact = Place { parent, name: name.clone() };
    if has_name(edit.view, file, &inode, &exact)? {
        return Ok(Some(exact));
    }
    let renamed = |place: &&Place| place.parent == parent && is_conflict_name_of(&place.name, name, &edit.label);
    if let Some(listed) = inode.places.iter().find(renamed) {
        return Ok(Some(listed.clone()));
    }
    let mut found = None;
    if inode.is_crowded() {
        each_name_in(edit.view, file, parent, |place| {
            found = Some(place).filter(|place| renamed(&place));
            found.is_none()
        })?;
    }
    Ok(found)
}
