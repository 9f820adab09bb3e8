//! Applying one record: the sole place where a tree changes.
//!
//! Every replica runs this code: the home on records in its order, a station
//! and a client on their tentative records on top of what the home confirmed.
//! The outcome depends on the tree and the record, on nothing else, and is
//! defined for every record that can be decoded: bytes from a liar give a
//! strange tree at worst, never a broken one.
//!
//! `docs/conflicts.md` tells the rules with examples.

use crate::chain::chained;
use crate::edit::{Edit, Permissions};
use crate::view::{ViewMut, inode};
use crate::{Effect, Outcome, attributes, exchange, limits, lost, make, remove, rename, store};
use std::sync::Arc;
use wayfs_types::{FileId, Image, Key, LifeSpan, Limits, Op, Record, StorageError};

/// Applies a record to whatever tree it finds, and notes it in its origin's image, if the view holds that.
///
/// Records of one origin must come in order, without gaps but those that an [`Op::Skip`] makes; [`crate::applied`]
/// tells the last one.
/// A record at or before it is a [`Outcome::Duplicate`] and touches nothing.
///
/// # Errors
/// [`StorageError`] from the view. The tree may be half changed then: apply to an overlay.
pub fn apply(view: &mut impl ViewMut, record: &Record) -> Result<Effect, StorageError> {
    let origin_key = Key::Origin(record.id.origin());
    let origin = match view.image(&origin_key)? {
        Some(Image::Origin(origin)) => Some(origin),
        _ => None,
    };
    if origin.as_ref().is_some_and(|origin| record.id.sequence() <= origin.applied) {
        return Ok(Effect::new(Outcome::Duplicate));
    }
    let label = origin.as_ref().map_or_else(|| format!("origin-{}", record.id.origin()), |o| o.label.clone());
    let limits = origin.as_ref().map_or(Limits::NONE, |origin| origin.limits);
    let effect = match inode(view, FileId::made_by(record.id))? {
        // Only a record that was applied can have made what bears its id: its image came before its origin's.
        Some(made) if !store::is_overtaken(&made, record) => Effect::new(Outcome::Duplicate),
        // Whoever has the row does the same, and the record keeps its place: nothing that follows or waits is held up.
        _ if limits.is_fenced => Effect::new(Outcome::NoEffect),
        _ if limits.is_none() => dispatch(&mut Edit::new(view, record, label), &record.op)?,
        _ => limits::dispatch_limited(&mut Edit::new(view, record, label), &limits, dispatch)?,
    };
    if let Some(origin) = origin {
        let mut origin = Arc::unwrap_or_clone(origin);
        if let Op::Skip { life, .. } = record.op {
            origin.lives.begin(LifeSpan { life, after: origin.applied, from: record.id.sequence() });
        }
        origin.applied = record.id.sequence();
        origin.chain = chained(origin.chain, record);
        view.put(origin_key, Some(Image::Origin(origin.into())))?;
    }
    Ok(effect)
}

fn dispatch<V: ViewMut>(edit: &mut Edit<'_, V>, op: &Op) -> Result<Effect, StorageError> {
    // Without its root a view holds nothing to apply anything to.
    if edit.living(FileId::ROOT)?.is_none() {
        return Ok(Effect::new(Outcome::NoEffect));
    }
    match op {
        Op::Create { parent, name, kind, mode, uid, gid, content } => {
            let permissions = Permissions { mode: *mode, uid: *uid, gid: *gid };
            let inode = edit.new_inode(kind.clone(), permissions, content.clone());
            make::create(edit, *parent, name, inode)
        }
        Op::Mkdir { parent, name, mode, uid, gid } => {
            let inode = edit.new_directory(Permissions { mode: *mode, uid: *uid, gid: *gid });
            make::create(edit, *parent, name, inode)
        }
        Op::Link { file, parent, name } => make::link(edit, *file, *parent, name),
        Op::Unlink { parent, name, file, version } => remove::unlink(edit, *parent, name, *file, *version),
        Op::Rmdir { parent, name, file } => remove::rmdir(edit, *parent, name, *file),
        Op::Rename { from_parent, from_name, file, to_parent, to_name, replaced } => {
            let from = rename::Spot { parent: *from_parent, name: from_name };
            let to = rename::Spot { parent: *to_parent, name: to_name };
            rename::rename(edit, &from, *file, &to, *replaced)
        }
        Op::Exchange { from_parent, from_name, file, to_parent, to_name, other } => {
            let from = rename::Spot { parent: *from_parent, name: from_name };
            let to = rename::Spot { parent: *to_parent, name: to_name };
            exchange::exchange(edit, &from, *file, &to, *other)
        }
        Op::SetAttr { file, base, change } => attributes::set_attr(edit, *file, *base, change),
        Op::SetXattr { file, name, value } => attributes::set_xattr(edit, *file, name, value.as_ref()),
        Op::Store { file, base, content, mtime } => store::store(edit, *file, *base, content, *mtime),
        Op::Resolve { conflict } => attributes::resolve_conflict(edit, *conflict),
        Op::Touch | Op::Skip { .. } => Ok(Effect::new(Outcome::AsMeant)),
        Op::Lost { file, version, instead, mtime } => lost::lost(edit, *file, *version, instead.as_ref(), *mtime),
    }
}
