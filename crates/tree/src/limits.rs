//! Members that may do less than others: what becomes of a record that its writer's limits forbid.
//!
//! The limits stand in the writer's image, which the home writes and every replica has. So all of them come to the same
//! outcome, whatever the writer's own machine checked, and the record keeps its place in its origin's history: nothing
//! that follows it is held up.
//!
//! * An owner, set-id bits and the like are left out, and the rest is done.
//! * Contents and new names outside of the writer's part of the tree land in its part: what an honest member
//!   wrote while somebody moved the directory away is kept.
//! * Everything else is not done, and there is a report.

use crate::edit::{Edit, Met};
use crate::effect::{Effect, Outcome};
use crate::view::{NameCursor, View, ViewMut, inode, resolve};
use std::sync::Arc;
use wayfs_types::request::Change;
use wayfs_types::{
    AttrChange, ConflictKind, Content, FileId, FsError, Image, Inode, Key, Kind, Limits, Name, Op, Place, Record,
    StorageError, XattrName,
};

/// Directories above one another that are looked at to tell whether a file lies in a member's part; what is deeper counts as
/// outside. Each record of such a member costs so much at most.
pub const PART_DEPTH_MAX: usize = 4096;
/// Set-user-id and set-group-id. On directories they give nobody any rights.
const SET_ID: u16 = 0o6000;

/// Where a file lies, seen from a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lies {
    /// It is that directory, or one of its names leads there.
    Within,
    /// No name of it does.
    Outside,
    /// The way up ends at something that is not known.
    Unknown,
}

/// Where a file lies, or where it stood last if it was removed.
///
/// # Errors
/// [`StorageError`] from the view.
pub fn lies(view: &impl View, file: FileId, top: FileId) -> Result<Lies, StorageError> {
    let file = resolve(view, file)?;
    if file == top {
        return Ok(Lies::Within);
    }
    let Some(inode) = inode(view, file)? else { return Ok(Lies::Unknown) };
    let mut found = Lies::Outside;
    for place in inode.places.iter().chain(&inode.removed_from) {
        match directory_lies(view, place.parent, top)? {
            Lies::Within => return Ok(Lies::Within),
            Lies::Unknown => found = Lies::Unknown,
            Lies::Outside => {}
        }
    }
    if !inode.is_crowded() {
        return Ok(found);
    }
    if !view.is_whole() {
        found = Lies::Unknown;
    }
    let mut at = NameCursor::START;
    while let Some(place) = view.names_after(file, &at, 1)?.pop() {
        match directory_lies(view, place.parent, top)? {
            Lies::Within => return Ok(Lies::Within),
            Lies::Unknown => found = Lies::Unknown,
            Lies::Outside => {}
        }
        at = NameCursor::behind(place.parent);
    }
    Ok(found)
}

fn directory_lies(view: &impl View, directory: FileId, top: FileId) -> Result<Lies, StorageError> {
    let mut at = resolve(view, directory)?;
    for _ in 0..PART_DEPTH_MAX {
        if at == top {
            return Ok(Lies::Within);
        }
        let Some(inode) = inode(view, at)? else { return Ok(Lies::Unknown) };
        match inode.places.first().or(inode.removed_from.as_ref()) {
            Some(place) => at = resolve(view, place.parent)?,
            None => break,
        }
    }
    Ok(Lies::Outside)
}

/// What a record is under its writer's limits.
enum Judged {
    /// What it says.
    Meant,
    /// This instead.
    Instead(Op),
    /// This instead, with a report: it was for a place outside of the writer's part.
    Moved(Op),
    /// Nothing, with a report about this file.
    Forbidden(FileId),
}

/// Applies an operation as far as its writer's limits let it.
pub(crate) fn dispatch_limited<V: ViewMut>(
    edit: &mut Edit<'_, V>,
    limits: &Limits,
    dispatch: impl FnOnce(&mut Edit<'_, V>, &Op) -> Result<Effect, StorageError>,
) -> Result<Effect, StorageError> {
    let record = edit.record;
    let effect = match judge(edit.view, limits, record)? {
        Judged::Meant => dispatch(edit, &record.op)?,
        Judged::Instead(op) => dispatch(edit, &op)?,
        Judged::Moved(op) => {
            let effect = dispatch(edit, &op)?;
            moved(edit, &op, effect)?
        }
        Judged::Forbidden(file) => {
            let place = inode(edit.view, file)?.and_then(|inode| inode.places.first().cloned());
            return edit.refuse(ConflictKind::Limited, file, place);
        }
    };
    settle_owner(edit, limits, &effect)?;
    Ok(effect)
}

/// Says in a report that something landed where its writer may work, unless there is one of something else already.
fn moved<V: ViewMut>(edit: &mut Edit<'_, V>, op: &Op, effect: Effect) -> Result<Effect, StorageError> {
    let (Some(file), Outcome::AsMeant) = (effect.made, effect.outcome) else { return Ok(effect) };
    let place = match op {
        Op::Create { parent, name, .. } | Op::Mkdir { parent, name, .. } => {
            Some(Place { parent: *parent, name: name.clone() })
        }
        Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::SetAttr { .. }
        | Op::SetXattr { .. }
        | Op::Store { .. }
        | Op::Resolve { .. }
        | Op::Touch
        | Op::Skip { .. }
        | Op::Lost { .. }
        | Op::Exchange { .. } => None,
    };
    let kind = ConflictKind::Limited;
    let outcome = edit.report(Met { kind, file, copy: Some(file), winner: edit.record.id, place })?;
    Ok(Effect { outcome, ..effect })
}

/// A conflict copy has the owner and mode of what it is a copy of, and a file that is written keeps its own: also these
/// keep to the limits.
fn settle_owner<V: ViewMut>(edit: &mut Edit<'_, V>, limits: &Limits, effect: &Effect) -> Result<(), StorageError> {
    if let (Some(file), Some(squash)) = (effect.made, limits.squash)
        && let Some(made) = edit.living(file)?
        && (made.uid, made.gid) != (squash.uid, squash.gid)
    {
        edit.put_inode(file, Inode { uid: squash.uid, gid: squash.gid, ..Arc::unwrap_or_clone(made) })?;
    }
    let Some(stored) = effect.stored.filter(|_| limits.no_setid) else { return Ok(()) };
    let Some(written) = edit.living(stored.file)?.filter(|inode| inode.kind == Kind::File) else { return Ok(()) };
    let mut written = Arc::unwrap_or_clone(written);
    let before = (written.mode, written.xattrs.len());
    written.mode &= !SET_ID;
    written.xattrs.retain(|name, _| !is_of_the_system(name));
    if (written.mode, written.xattrs.len()) != before {
        edit.put_inode(stored.file, written)?;
    }
    Ok(())
}

fn is_of_the_system(name: &XattrName) -> bool {
    name.as_bytes().starts_with(b"security.") || name.as_bytes().starts_with(b"trusted.")
}

fn judge(view: &impl View, limits: &Limits, record: &Record) -> Result<Judged, StorageError> {
    if let Some(top) = limits.below {
        match place(view, top, record)? {
            Judged::Meant => {}
            Judged::Moved(op) => return Ok(squashed(view, limits, &op)?.map_or(Judged::Moved(op), Judged::Moved)),
            other @ (Judged::Instead(_) | Judged::Forbidden(_)) => return Ok(other),
        }
    }
    if limits.no_setid
        && let Some(file) = forbidden_thing(record)
    {
        return Ok(Judged::Forbidden(file));
    }
    Ok(squashed(view, limits, &record.op)?.map_or(Judged::Meant, Judged::Instead))
}

/// What a member without set-id bits may not make at all.
fn forbidden_thing(record: &Record) -> Option<FileId> {
    match &record.op {
        Op::Create { parent, kind: Kind::CharDevice(_) | Kind::BlockDevice(_), .. } => Some(*parent),
        Op::SetXattr { file, name, value: Some(_) } if is_of_the_system(name) => Some(*file),
        Op::Create { .. }
        | Op::Mkdir { .. }
        | Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::SetAttr { .. }
        | Op::SetXattr { .. }
        | Op::Store { .. }
        | Op::Resolve { .. }
        | Op::Touch
        | Op::Skip { .. }
        | Op::Lost { .. }
        | Op::Exchange { .. } => None,
    }
}

/// The operation without the owner and the bits that its writer may not give; `None`: there are none in it.
fn squashed(view: &impl View, limits: &Limits, op: &Op) -> Result<Option<Op>, StorageError> {
    let mut op = op.clone();
    let mut is_changed = false;
    let mut set = |at: &mut u32, to: u32| {
        is_changed |= *at != to;
        *at = to;
    };
    match &mut op {
        Op::Create { uid, gid, .. } | Op::Mkdir { uid, gid, .. } => {
            if let Some(squash) = limits.squash {
                set(uid, squash.uid);
                set(gid, squash.gid);
            }
        }
        Op::SetAttr { change, .. } if limits.squash.is_some() => {
            is_changed |= change.uid.take().is_some() | change.gid.take().is_some();
        }
        Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::SetAttr { .. }
        | Op::SetXattr { .. }
        | Op::Store { .. }
        | Op::Resolve { .. }
        | Op::Touch
        | Op::Skip { .. }
        | Op::Lost { .. }
        | Op::Exchange { .. } => {}
    }
    if limits.no_setid {
        let mode = match &mut op {
            Op::Create { mode, .. } => Some(mode),
            Op::SetAttr { file, change: AttrChange { mode: Some(mode), .. }, .. } => {
                let changed = inode(view, resolve(view, *file)?)?;
                (!changed.is_some_and(|inode| inode.is_directory())).then_some(mode)
            }
            Op::Mkdir { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. }
            | Op::SetAttr { .. }
            | Op::SetXattr { .. }
            | Op::Store { .. }
            | Op::Resolve { .. }
            | Op::Touch
            | Op::Skip { .. }
            | Op::Lost { .. }
            | Op::Exchange { .. } => None,
        };
        if let Some(mode) = mode.filter(|mode| **mode & SET_ID != 0) {
            *mode &= !SET_ID;
            is_changed = true;
        }
    }
    Ok(is_changed.then_some(op))
}

/// Whether all that a record is about lies in its writer's part.
fn place(view: &impl View, top: FileId, record: &Record) -> Result<Judged, StorageError> {
    let is_in = |file: FileId| -> Result<bool, StorageError> {
        Ok(match lies(view, file, top)? {
            Lies::Within => true,
            Lies::Outside => false,
            // A replica that has only a part of the tree cannot tell; its servers can.
            Lies::Unknown => !view.is_whole(),
        })
    };
    let all_in = |files: &[FileId]| -> Result<Judged, StorageError> {
        for file in files {
            if !is_in(*file)? {
                return Ok(Judged::Forbidden(*file));
            }
        }
        Ok(Judged::Meant)
    };
    match &record.op {
        Op::Create { parent, .. } | Op::Mkdir { parent, .. } if is_in(*parent)? => Ok(Judged::Meant),
        Op::Create { .. } | Op::Mkdir { .. } => Ok(Judged::Moved(made_in(top, &record.op))),
        Op::Store { file, .. } if is_in(*file)? => Ok(Judged::Meant),
        Op::Store { content, .. } => Ok(Judged::Moved(kept_in(top, record, content))),
        Op::Link { file, parent, .. } => all_in(&[*parent, *file]),
        Op::Unlink { parent, .. } | Op::Rmdir { parent, .. } => all_in(&[*parent]),
        Op::Rename { from_parent, file, to_parent, .. } => all_in(&[*from_parent, *to_parent, *file]),
        Op::Exchange { from_parent, file, to_parent, other, .. } => all_in(&[*from_parent, *to_parent, *file, *other]),
        Op::SetAttr { file, .. } | Op::SetXattr { file, .. } => all_in(&[*file]),
        Op::Resolve { conflict } => match view.image(&Key::Conflict(*conflict))? {
            Some(Image::Conflict(report)) => all_in(&[report.file]),
            _ => Ok(Judged::Meant),
        },
        // The home alone writes losses, and has no limits.
        Op::Touch | Op::Skip { .. } | Op::Lost { .. } => Ok(Judged::Meant),
    }
}

/// The same made in another directory.
fn made_in(top: FileId, op: &Op) -> Op {
    let mut op = op.clone();
    if let Op::Create { parent, .. } | Op::Mkdir { parent, .. } = &mut op {
        *parent = top;
    }
    op
}

/// A new file with a content for which there is no other place. Only its owner may read it: nobody else's rights are known.
fn kept_in(top: FileId, record: &Record, content: &Content) -> Op {
    let name = Name::new("recovered").expect("a plain word is a name");
    let (uid, content) = (record.user.0, content.clone());
    Op::Create { parent: top, name, kind: Kind::File, mode: 0o600, uid, gid: 0, content }
}

/// Refuses a change that is against the limits of whoever asks for it, so that he hears of it, and leaves out of its record what is
/// left out silently.
///
/// # Errors
/// `AccessDenied` outside of the member's part, `NotPermitted` for owners, set-id bits, devices and attributes of the system.
pub(crate) fn admit(
    view: &impl View,
    limits: &Limits,
    change: &Change,
    record: &mut Record,
) -> Result<Result<(), FsError>, StorageError> {
    if let Change::SetAttr { file, change } = change
        && let Some(inode) = inode(view, resolve(view, *file)?)?
    {
        let gives_away =
            change.uid.is_some_and(|uid| uid != inode.uid) || change.gid.is_some_and(|gid| gid != inode.gid);
        let sets_id = !inode.is_directory() && change.mode.is_some_and(|mode| mode & SET_ID != 0);
        if limits.squash.is_some() && gives_away || limits.no_setid && sets_id {
            return Ok(Err(FsError::NotPermitted));
        }
    }
    match judge(view, limits, record)? {
        Judged::Meant => {}
        Judged::Instead(op) => record.op = op,
        Judged::Forbidden(_) if limits.no_setid && forbidden_thing(record).is_some() => {
            return Ok(Err(FsError::NotPermitted));
        }
        Judged::Moved(_) | Judged::Forbidden(_) => return Ok(Err(FsError::AccessDenied)),
    }
    Ok(Ok(()))
}
