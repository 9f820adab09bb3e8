//! Operations that make a name: create, mkdir, link.

use crate::edit::{Edit, Met, later};
use crate::landing::{Landing, locate, settle};
use crate::view::ViewMut;
use crate::{Effect, Outcome};
use std::sync::Arc;
use wayfs_types::{ConflictKind, FileId, Inode, Kind, Name, Place, StorageError};

/// Longest target of a symbolic link in bytes (`PATH_MAX` without its closing zero).
pub(crate) const SYMLINK_TARGET_LEN_MAX: usize = 4095;

/// Makes a file or a directory with the record's id.
pub(crate) fn create<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    parent: FileId,
    name: &Name,
    mut inode: Inode,
) -> Result<Effect, StorageError> {
    if matches!(&inode.kind, Kind::Symlink(target) if target.len() > SYMLINK_TARGET_LEN_MAX) {
        return Ok(Effect::new(Outcome::NoEffect));
    }
    let landing = locate(edit.view, parent)?;
    let directory = settle(edit, &landing)?;
    inherit(edit, directory, &mut inode)?;
    let place = Place { parent: directory, name: name.clone() };
    let own = edit.own_file();
    let id = edit.record.id;
    if !landing.is_homeless
        && let Some(taken) = edit.entry(directory, name)?
    {
        return meet(edit, place, taken.file, inode);
    }
    let at = edit.free_place(&place)?;
    edit.attach(own, inode, at)?;
    let outcome = landed(edit, &landing, own, place)?;
    Ok(Effect::on(outcome, own).making(own).storing(own, id))
}

/// A directory that is made in an exclusive one is exclusive from its first moment on: set afterwards, it would have come too late
/// for whoever is first to make something in it.
fn inherit<V: ViewMut>(edit: &mut Edit<'_, V>, directory: FileId, inode: &mut Inode) -> Result<(), StorageError> {
    if !inode.is_directory() {
        return Ok(());
    }
    let Some(above) = edit.living(directory)? else { return Ok(()) };
    let mode = above.xattrs.iter().find(|(name, _)| name.as_bytes() == Inode::EXCLUSIVE);
    inode.xattrs.extend(mode.map(|(name, value)| (name.clone(), value.clone())));
    Ok(())
}

/// The name is taken: equal things become one, others stand side by side.
fn meet<V: ViewMut>(edit: &mut Edit<'_, V>, place: Place, taken: FileId, inode: Inode) -> Result<Effect, StorageError> {
    let own = edit.own_file();
    let id = edit.record.id;
    let there = edit.living(taken)?;
    if let Some(there) = there.as_deref().filter(|there| is_equal(there, &inode)) {
        edit.alias(own, id, taken)?;
        return Ok(Effect::on(Outcome::Merged, taken).storing(taken, there.version));
    }
    let at = edit.conflict_place(&place)?;
    edit.attach(own, inode, at)?;
    let winner = there.map_or(taken.maker(), |there| there.version);
    let kind = ConflictKind::CreateCreate;
    let outcome = edit.report(Met { kind, file: taken, copy: Some(own), winner, place: Some(place) })?;
    Ok(Effect::on(outcome, own).making(own).storing(own, id))
}

/// Gives a file one more name.
pub(crate) fn link<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    file: FileId,
    parent: FileId,
    name: &Name,
) -> Result<Effect, StorageError> {
    let file = edit.resolve(file)?;
    let Some(inode) = edit.inode(file)? else {
        return Ok(Effect::new(Outcome::NoEffect));
    };
    let mut inode = Arc::unwrap_or_clone(inode);
    if inode.is_removed() {
        let place = Place { parent, name: name.clone() };
        return edit.refuse_removed(ConflictKind::StoreUnlink, file, inode, place);
    }
    if inode.is_directory() || inode.links() as usize >= Inode::LINKS_MAX {
        return Ok(Effect::on(Outcome::NoEffect, file));
    }
    inode.ctime = later(inode.ctime, edit.record.time);
    let landing = locate(edit.view, parent)?;
    let directory = settle(edit, &landing)?;
    let place = Place { parent: directory, name: name.clone() };
    let taken = edit.entry(directory, name)?.map(|entry| entry.file);
    if taken == Some(file) {
        return Ok(Effect::on(Outcome::Merged, file));
    }
    let at = edit.free_place(&place)?;
    edit.attach(file, inode, at)?;
    let outcome = match taken.filter(|_| !landing.is_homeless) {
        Some(taken) => {
            let winner = edit.inode(taken)?.map_or(taken.maker(), |there| there.version);
            let kind = ConflictKind::CreateCreate;
            edit.report(Met { kind, file: taken, copy: Some(file), winner, place: Some(place) })?
        }
        None => landed(edit, &landing, file, place)?,
    };
    Ok(Effect::on(outcome, file))
}

/// The outcome of having put a file where a landing said, with the report if its directory was gone.
pub(crate) fn landed<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    landing: &Landing,
    file: FileId,
    place: Place,
) -> Result<Outcome, StorageError> {
    let winner = edit.record.id;
    if landing.is_homeless {
        let kind = ConflictKind::Homeless;
        return edit.report(Met { kind, file, copy: Some(file), winner, place: Some(place) });
    }
    if landing.revives() {
        let kind = ConflictKind::InsideRmdir;
        return edit.report(Met { kind, file: place.parent, copy: None, winner, place: Some(place) });
    }
    Ok(Outcome::AsMeant)
}

/// Whether two files are the same for whoever reads them. Two directories are: their entries merge.
pub(crate) fn is_equal(one: &Inode, other: &Inode) -> bool {
    one.kind == other.kind && one.content == other.content
}
