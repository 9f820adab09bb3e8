//! Moving a name. The first rename of a thing wins; whoever comes later onto a
//! taken name stands beside it. Nothing is replaced that the renamer did not see.

use crate::edit::{Edit, Met};
use crate::landing::{locate, place_of, settle};
use crate::lineage::{follow, holds_or_lost};
use crate::make::{is_equal, landed};
use crate::names::has_name;
use crate::view::{View, ViewMut, inode};
use crate::{Effect, Outcome};
use std::sync::Arc;
use wayfs_types::{ConflictKind, FileId, Inode, Name, OriginId, Place, Replaced, StorageError};

/// Directories above one another at most; only damaged or half-known state has more.
const DEPTH_MAX: usize = 1_000_000;

/// A name in a directory as a record gives it.
pub(crate) struct Spot<'a> {
    pub(crate) parent: FileId,
    pub(crate) name: &'a Name,
}

/// Moves a file from one spot to another.
pub(crate) fn rename<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    from: &Spot<'_>,
    file: FileId,
    to: &Spot<'_>,
    replaced: Option<Replaced>,
) -> Result<Effect, StorageError> {
    let file = edit.resolve(file)?;
    let Some(inode) = edit.inode(file)? else {
        return Ok(Effect::new(Outcome::NoEffect));
    };
    let wanted = Place { parent: edit.resolve(to.parent)?, name: to.name.clone() };
    if inode.is_removed() {
        return edit.refuse_removed(ConflictKind::RenameRename, file, Arc::unwrap_or_clone(inode), wanted);
    }
    let Some(source) = place_of(edit, file, from.parent, from.name)? else {
        if has_name(edit.view, file, &inode, &wanted)? {
            return Ok(Effect::on(Outcome::Merged, file));
        }
        return edit.refuse(ConflictKind::RenameRename, file, Some(wanted));
    };
    let landing = locate(edit.view, to.parent)?;
    if inode.is_directory() && is_within(edit.view, landing.living, file)? {
        return edit.refuse(ConflictKind::RenameCycle, file, Some(wanted));
    }
    let directory = settle(edit, &landing)?;
    // A directory that came back may have merged with the very one that is moved.
    if landing.revives() && inode.is_directory() && is_within(edit.view, directory, file)? {
        return edit.refuse(ConflictKind::RenameCycle, file, Some(wanted));
    }
    let place = Place { parent: directory, name: to.name.clone() };
    if place == source {
        return Ok(Effect::on(Outcome::AsMeant, file));
    }
    let taken = edit.entry(directory, to.name)?.map(|entry| entry.file);
    if taken == Some(file) {
        edit.detach(file, &source)?;
        return Ok(Effect::on(Outcome::AsMeant, file));
    }
    if let Some(taken) = taken.filter(|_| !landing.is_homeless) {
        let mover = Mover { file, inode: &inode, source };
        return move_onto(edit, &mover, place, taken, replaced);
    }
    let at = edit.free_place(&place)?;
    edit.relocate(file, &source, at)?;
    let outcome = landed(edit, &landing, file, place)?;
    Ok(Effect::on(outcome, file))
}

/// Whether a directory is another or lies below it.
pub(crate) fn is_within(view: &impl View, directory: FileId, ancestor: FileId) -> Result<bool, StorageError> {
    let mut at = directory;
    for _ in 0..DEPTH_MAX {
        if at == ancestor {
            return Ok(true);
        }
        match inode(view, at)?.as_deref().and_then(|inode| inode.places.first()) {
            Some(place) => at = place.parent,
            None => return Ok(false),
        }
    }
    Ok(true)
}

struct Mover<'a> {
    file: FileId,
    inode: &'a Inode,
    source: Place,
}

fn move_onto<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    mover: &Mover<'_>,
    place: Place,
    taken: FileId,
    replaced: Option<Replaced>,
) -> Result<Effect, StorageError> {
    let there = edit.living(taken)?;
    let fate = match (&there, replaced) {
        (Some(there), replaced) => fate_of((edit.view, edit.record.id.origin()), mover.inode, taken, there, replaced)?,
        (None, _) => Fate::Stays(ConflictKind::RenameRename),
    };
    match fate {
        Fate::IsReplaced => {
            let removed = edit.detach(taken, &place)?;
            edit.relocate(mover.file, &mover.source, place)?;
            Ok(Effect::on(Outcome::AsMeant, mover.file).removing(removed))
        }
        Fate::IsEqual => {
            edit.detach(mover.file, &mover.source)?;
            edit.alias(mover.file, mover.inode.version, taken)?;
            // Stores upon the mover's version find its equal under the version's own number, too.
            let stored_by = FileId::made_by(mover.inode.version);
            if edit.inode(stored_by)?.is_none() {
                edit.alias(stored_by, mover.inode.version, taken)?;
            }
            Ok(Effect::on(Outcome::Merged, taken))
        }
        Fate::Stays(kind) => {
            let at = edit.conflict_place(&place)?;
            edit.relocate(mover.file, &mover.source, at)?;
            let winner = there.map_or(taken.maker(), |there| there.version);
            let met = Met { kind, file: taken, copy: Some(mover.file), winner, place: Some(place) };
            let outcome = edit.report(met)?;
            Ok(Effect::on(outcome, mover.file))
        }
    }
}

/// What happens to the file that stands where another is moved to.
enum Fate {
    IsReplaced,
    /// The mover holds the same and becomes it.
    IsEqual,
    Stays(ConflictKind),
}

fn fate_of(
    (view, by): (&impl View, OriginId),
    mover: &Inode,
    taken: FileId,
    there: &Inode,
    replaced: Option<Replaced>,
) -> Result<Fate, StorageError> {
    let seen = match replaced {
        Some(replaced) => Some(follow(view, replaced.file, replaced.version)?),
        None => None,
    };
    let seen = seen.filter(|seen| seen.file == taken);
    let is_empty = || view.first_entry(taken).map(|first| first.is_none());
    Ok(match (mover.is_directory(), there.is_directory(), seen) {
        (true, true, Some(_)) if is_empty()? => Fate::IsReplaced,
        (true, true, Some(_)) => Fate::Stays(ConflictKind::InsideRmdir),
        (false, false, Some(seen)) => {
            let is_lost =
                there.has_one_name() && !is_equal(mover, there) && !holds_or_lost(view, by, seen, there.version)?;
            if is_lost { Fate::Stays(ConflictKind::StoreStore) } else { Fate::IsReplaced }
        }
        (false, false, None) if is_equal(mover, there) && mover.has_one_name() => Fate::IsEqual,
        _ => Fate::Stays(ConflictKind::RenameRename),
    })
}
