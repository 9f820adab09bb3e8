//! Two names that change places: both move or neither does.
//!
//! Nothing is removed by it, so nothing can be lost: whatever was written to one of the two meanwhile moves along. Where one
//! of them no longer stands where the writer saw it, the first rename won, and all of the exchange is refused.

use crate::edit::Edit;
use crate::landing::place_of;
use crate::names::has_name;
use crate::rename::{Spot, is_within};
use crate::view::ViewMut;
use crate::{Effect, Outcome};
use std::sync::Arc;
use wayfs_types::{ConflictKind, FileId, Place, StorageError};

/// Puts what stands at one spot to the other, and the other way round.
pub(crate) fn exchange<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    from: &Spot<'_>,
    file: FileId,
    to: &Spot<'_>,
    other: FileId,
) -> Result<Effect, StorageError> {
    let (file, other) = (edit.resolve(file)?, edit.resolve(other)?);
    let (Some(inode), Some(there)) = (edit.inode(file)?, edit.inode(other)?) else {
        return Ok(Effect::new(Outcome::NoEffect));
    };
    let left = Place { parent: edit.resolve(from.parent)?, name: from.name.clone() };
    let wanted = Place { parent: edit.resolve(to.parent)?, name: to.name.clone() };
    // Two names of one file, or of two that became one.
    if file == other {
        return Ok(Effect::on(Outcome::Merged, file));
    }
    if inode.is_removed() {
        return edit.refuse_removed(ConflictKind::RenameRename, file, Arc::unwrap_or_clone(inode), wanted);
    }
    if there.is_removed() {
        return edit.refuse_removed(ConflictKind::RenameRename, other, Arc::unwrap_or_clone(there), left);
    }
    let source = place_of(edit, file, from.parent, from.name)?;
    let target = place_of(edit, other, to.parent, to.name)?;
    let (Some(source), Some(target)) = (source, target) else {
        if has_name(edit.view, file, &inode, &wanted)? && has_name(edit.view, other, &there, &left)? {
            return Ok(Effect::on(Outcome::Merged, file));
        }
        return edit.refuse(ConflictKind::RenameRename, file, Some(wanted));
    };
    let is_circle = (inode.is_directory() && is_within(edit.view, target.parent, file)?)
        || (there.is_directory() && is_within(edit.view, source.parent, other)?);
    if is_circle {
        return edit.refuse(ConflictKind::RenameCycle, file, Some(wanted));
    }
    edit.swap((file, source), (other, target))?;
    Ok(Effect::on(Outcome::AsMeant, file))
}
