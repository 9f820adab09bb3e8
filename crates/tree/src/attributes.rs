//! Attributes, extended attributes, and reports that somebody dealt with.

use crate::edit::{Edit, Met, later};
use crate::lineage::holds;
use crate::view::ViewMut;
use crate::{Effect, Outcome};
use bytes::Bytes;
use std::sync::Arc;
use wayfs_types::AttrVersion;
use wayfs_types::{AttrChange, ConflictKind, FileId, Inode, Key, RecordId, StorageError, XattrName};

/// Changes attributes: the later in order wins.
pub(crate) fn set_attr<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    file: FileId,
    base: AttrVersion,
    change: &AttrChange,
) -> Result<Effect, StorageError> {
    let file = edit.resolve(file)?;
    let Some(inode) = edit.living(file)? else {
        return Ok(Effect::on(Outcome::NoEffect, file));
    };
    let mut inode = Arc::unwrap_or_clone(inode);
    let overrides = differs(&inode, change) && !holds(file, inode.attr_version.0, base.0);
    let winner = edit.record.id;
    inode.mode = change.mode.map_or(inode.mode, |mode| mode & 0o7777);
    inode.uid = change.uid.unwrap_or(inode.uid);
    inode.gid = change.gid.unwrap_or(inode.gid);
    inode.mtime = change.mtime.unwrap_or(inode.mtime);
    inode.ctime = later(inode.ctime, edit.record.time);
    inode.attr_version = AttrVersion(winner);
    let place = inode.places.first().cloned();
    edit.put_inode(file, inode)?;
    if !overrides {
        return Ok(Effect::on(Outcome::AsMeant, file));
    }
    let kind = ConflictKind::SetAttrSetAttr;
    let outcome = edit.report(Met { kind, file, copy: None, winner, place })?;
    Ok(Effect::on(outcome, file))
}

fn differs(inode: &Inode, change: &AttrChange) -> bool {
    change.mode.is_some_and(|mode| mode & 0o7777 != inode.mode)
        || change.uid.is_some_and(|uid| uid != inode.uid)
        || change.gid.is_some_and(|gid| gid != inode.gid)
        || change.mtime.is_some_and(|mtime| mtime != inode.mtime)
}

/// Sets or removes an extended attribute: the later in order wins.
pub(crate) fn set_xattr<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    file: FileId,
    name: &XattrName,
    value: Option<&Bytes>,
) -> Result<Effect, StorageError> {
    let file = edit.resolve(file)?;
    let Some(inode) = edit.living(file)? else {
        return Ok(Effect::on(Outcome::NoEffect, file));
    };
    let mut inode = Arc::unwrap_or_clone(inode);
    if inode.xattrs.get(name) == value {
        return Ok(Effect::on(Outcome::AsMeant, file));
    }
    match value {
        Some(value) => inode.xattrs.insert(name.clone(), value.clone()),
        None => inode.xattrs.remove(name),
    };
    if xattrs_len(&inode) > Inode::XATTRS_LEN_MAX {
        let place = inode.places.first().cloned();
        return edit.refuse(ConflictKind::SetAttrSetAttr, file, place);
    }
    inode.ctime = later(inode.ctime, edit.record.time);
    edit.put_inode(file, inode)?;
    Ok(Effect::on(Outcome::AsMeant, file))
}

/// Bytes of all extended attributes, names included.
pub(crate) fn xattrs_len(inode: &Inode) -> usize {
    inode.xattrs.iter().map(|(name, value)| name.as_bytes().len() + value.len()).sum()
}

/// Takes a report away.
pub(crate) fn resolve_conflict<V: ViewMut>(edit: &mut Edit<'_, V>, conflict: RecordId) -> Result<Effect, StorageError> {
    let key = Key::Conflict(conflict);
    if edit.view.image(&key)?.is_none() {
        return Ok(Effect::new(Outcome::NoEffect));
    }
    edit.view.put(key, None)?;
    Ok(Effect::new(Outcome::AsMeant))
}
