//! Giving a file a new content. A stored content is never dropped: it becomes
//! current, or it becomes a file of its own.
//!
//! **Overtaken versions.** Who moves between stations may build upon a version whose record is still on its way by the station that
//! was left. The store upon it leaves an alias in its name ([`expect`]), so that it is known for an ancestor when it comes: it takes
//! nobody's place, and a file that was removed meanwhile stays so. What came before it by the same way is not named anywhere: of
//! that nobody can tell whether the file's line goes through it. It becomes a copy, or brings the file back until the version that is named
//! comes, too.

use crate::edit::{Edit, Met, Permissions, later};
use crate::landing::{locate, settle};
use crate::lineage::{follow, holds_or_lost};
use crate::lost::forget_loss;
use crate::make::landed;
use crate::view::{View, ViewMut, applied, inode, resolve};
use crate::{Effect, Outcome};
use std::sync::Arc;
use wayfs_types::{
    ConflictKind, Content, FileId, Image, Inode, Key, Kind, Name, Op, Place, Record, RecordId, StorageError, WallTime,
};

/// Stores a content upon a version.
pub(crate) fn store<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    file: FileId,
    base: RecordId,
    content: &Content,
    mtime: WallTime,
) -> Result<Effect, StorageError> {
    let named = edit.resolve(file)?;
    let seen = follow(edit.view, file, base)?;
    let new = New { content, mtime };
    let Some(inode) = edit.inode(seen.file)?.filter(|inode| inode.kind == Kind::File) else {
        return store_unknown(edit, &new);
    };
    let id = edit.record.id;
    if is_known_ahead(edit.view, edit.record, seen.file)? {
        return come_late(edit, seen.file, seen.base, &inode);
    }
    let effect = if inode.is_removed() {
        bring_back(edit, seen.file, Arc::unwrap_or_clone(inode), &new)?
    } else if holds_or_lost(edit.view, edit.record.id.origin(), seen, inode.version)? {
        forget_loss(edit, inode.version)?;
        if inode.version != seen.base {
            expect(edit, seen.base, seen.file)?;
        }
        let inode = new.written_into(Arc::unwrap_or_clone(inode), id, edit.record.time);
        edit.put_inode(seen.file, inode)?;
        Effect::on(Outcome::AsMeant, seen.file).storing(seen.file, id)
    } else if inode.content == *content {
        edit.alias(edit.own_file(), id, seen.file)?;
        return Ok(Effect::on(Outcome::Merged, seen.file).storing(seen.file, inode.version));
    } else {
        return store_beside(edit, seen.file, &inode, &new);
    };
    // A later store upon this one must find the file that it went to.
    if seen.file != named {
        edit.alias(edit.own_file(), id, seen.file)?;
    }
    Ok(effect)
}

/// A version was built upon whose record has not come: an alias tells that it was seen. Of a writer's own versions nobody comes late.
fn expect<V: ViewMut>(edit: &mut Edit<'_, V>, base: RecordId, file: FileId) -> Result<(), StorageError> {
    let id = edit.record.id;
    if base.origin() == id.origin() || base.sequence() <= applied(edit.view, base.origin())? {
        return Ok(());
    }
    edit.alias(FileId::made_by(base), id, file)
}

/// Whether what bears a record's id was left by one that was built upon it, and came first: the alias names that one.
pub(crate) fn is_overtaken(left: &Inode, record: &Record) -> bool {
    matches!(record.op, Op::Store { .. }) && left.merged_into.is_some() && left.attr_version.0 != record.id
}

/// Whether it was seen in this very file.
fn is_known_ahead(view: &impl View, record: &Record, file: FileId) -> Result<bool, StorageError> {
    let own = FileId::made_by(record.id);
    let is_overtaken = inode(view, own)?.is_some_and(|left| is_overtaken(&left, record));
    Ok(is_overtaken && resolve(view, own)? == file)
}

/// Whoever built upon this version had seen it, so it takes nobody's place. If what took its own was removed, and an ancestor that
/// came late, too, brought the file back, that is gone again: the remover had seen both.
fn come_late<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    file: FileId,
    base: RecordId,
    inode: &Inode,
) -> Result<Effect, StorageError> {
    let merged = Effect::on(Outcome::Merged, file);
    let [place] = inode.places.as_slice() else { return Ok(merged) };
    if inode.version != base || !inode.has_one_name() {
        return Ok(merged);
    }
    let key = Key::Conflict(base);
    if let Some(Image::Conflict(report)) = edit.view.image(&key)?
        && report.kind == ConflictKind::StoreUnlink
    {
        edit.view.put(key, None)?;
    }
    let removed = edit.detach(file, place)?;
    Ok(merged.removing(removed))
}

struct New<'a> {
    content: &'a Content,
    mtime: WallTime,
}

impl New<'_> {
    fn written_into(&self, mut inode: Inode, id: RecordId, time: WallTime) -> Inode {
        // As on a local file system, closing changes nothing that the last write had not
        // changed: a program that compares times before and after sees the same.
        let is_last_write = inode.ctime < self.mtime && self.mtime <= time;
        inode.ctime = if is_last_write { self.mtime } else { later(inode.ctime, time) };
        inode.mtime = self.mtime;
        inode.content = self.content.clone();
        inode.version = id;
        inode
    }
}

/// Another version is current: this one becomes a file beside it.
fn store_beside<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    file: FileId,
    inode: &Inode,
    new: &New<'_>,
) -> Result<Effect, StorageError> {
    let own = edit.own_file();
    let id = edit.record.id;
    // A living file has a place, unless a peer said otherwise.
    let Some(place) = inode.places.first().cloned() else { return store_unknown(edit, new) };
    let at = edit.conflict_place(&place)?;
    let permissions = Permissions { mode: inode.mode, uid: inode.uid, gid: inode.gid };
    let mut copy = edit.new_inode(Kind::File, permissions, new.content.clone());
    copy.mtime = new.mtime;
    copy.xattrs = inode.xattrs.clone();
    edit.attach(own, copy, at)?;
    let kind = ConflictKind::StoreStore;
    let met = Met { kind, file, copy: Some(own), winner: inode.version, place: Some(place) };
    let outcome = edit.report(met)?;
    Ok(Effect::on(outcome, own).making(own).storing(own, id))
}

/// The file was removed: the update wins, it is there again.
fn bring_back<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    file: FileId,
    inode: Inode,
    new: &New<'_>,
) -> Result<Effect, StorageError> {
    let Some(last) = inode.removed_from.clone() else {
        return store_unknown(edit, new);
    };
    let winner = edit.record.id;
    let landing = locate(edit.view, last.parent)?;
    let directory = settle(edit, &landing)?;
    let place = Place { parent: directory, name: last.name };
    let at = edit.free_place(&place)?;
    let inode = new.written_into(inode, edit.record.id, edit.record.time);
    edit.attach(file, inode, at)?;
    let kind = if landing.is_homeless { ConflictKind::Homeless } else { ConflictKind::StoreUnlink };
    let outcome = edit.report(Met { kind, file, copy: None, winner, place: Some(place) })?;
    Ok(Effect::on(outcome, file).storing(file, winner))
}

/// Nothing is known of the file any more but the content at hand: it gets a file in the root.
fn store_unknown<V: ViewMut>(edit: &mut Edit<'_, V>, new: &New<'_>) -> Result<Effect, StorageError> {
    let own = edit.own_file();
    let id = edit.record.id;
    let name = Name::new("recovered").expect("a plain word is a name");
    let place = Place { parent: FileId::ROOT, name };
    // Only its owner may read what nobody's rights are known of.
    let user = edit.record.user.0;
    let permissions = Permissions { mode: 0o600, uid: user, gid: 0 };
    let mut inode = edit.new_inode(Kind::File, permissions, new.content.clone());
    inode.mtime = new.mtime;
    let at = edit.conflict_place(&place)?;
    edit.attach(own, inode, at)?;
    let landing = locate(edit.view, own)?;
    let outcome = landed(edit, &landing, own, place)?;
    Ok(Effect::on(outcome, own).making(own).storing(own, id))
}
