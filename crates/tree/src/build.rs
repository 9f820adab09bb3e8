//! From a local change to a record: checked by the rules of POSIX against the
//! tree at hand, and filled in with the versions seen there.
//!
//! A built record applied to the same view does what was asked, without a
//! conflict. The two exceptions are asked for: a store upon a version that is no
//! longer current, and a store to a file that another removed, are settled by the
//! conflict rules. A store to a file that its own origin removed is refused: who
//! removed it saw all that it held, and what is written to it afterwards has no name.

use crate::attributes::xattrs_len;
use crate::limits;
use crate::make::SYMLINK_TARGET_LEN_MAX;
use crate::rename::is_within;
use crate::view::{View, entry, inode, resolve};
use bytes::Bytes;
use std::sync::Arc;
use wayfs_types::request::{Change, RenameTarget, XattrPresence};
use wayfs_types::{
    AttrChange, Content, FileId, FsError, Image, Inode, Key, Kind, Limits, Name, Op, Record, RecordId, Replaced,
    StorageError, UserId, WallTime, XattrName,
};

/// Longest value of one extended attribute in bytes, as Linux has it.
pub const XATTR_VALUE_LEN_MAX: usize = 64 * 1024;

/// Who writes a record, as which, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Author {
    /// The record's id: the next of the origin's sequence.
    pub id: RecordId,
    /// On whose behalf.
    pub user: UserId,
    /// By the writer's wall clock.
    pub time: WallTime,
}

/// Why no record was built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The rules forbid the change: the answer for the user.
    #[error(transparent)]
    Refused(#[from] FsError),
    /// The view could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Checks a change against the view and makes the record of it.
///
/// Permissions are not checked here; the kernel does. The limits of the author are.
///
/// # Errors
/// [`BuildError::Refused`] with what POSIX says, [`BuildError::Storage`] from the view.
pub fn build(view: &impl View, change: &Change, author: Author) -> Result<Record, BuildError> {
    let op = match change {
        Change::Create { parent, name, kind, mode, uid, gid } => {
            check_kind(kind)?;
            let parent = free_name(view, *parent, name)?;
            let (name, kind, mode) = (name.clone(), kind.clone(), mode & 0o7777);
            Op::Create { parent, name, kind, mode, uid: *uid, gid: *gid, content: Content::EMPTY }
        }
        Change::Publish { parent, name, mode, uid, gid, content } => {
            let parent = free_name(view, *parent, name)?;
            if !content.is_well_formed() {
                return Err(FsError::Invalid.into());
            }
            let (name, mode, content) = (name.clone(), mode & 0o7777, content.clone());
            Op::Create { parent, name, kind: Kind::File, mode, uid: *uid, gid: *gid, content }
        }
        Change::Mkdir { parent, name, mode, uid, gid } => {
            let parent = free_name(view, *parent, name)?;
            Op::Mkdir { parent, name: name.clone(), mode: mode & 0o7777, uid: *uid, gid: *gid }
        }
        Change::Link { file, parent, name } => link(view, *file, *parent, name)?,
        Change::Unlink { parent, name } => unlink(view, *parent, name)?,
        Change::Rmdir { parent, name } => rmdir(view, *parent, name)?,
        Change::Rename { from_parent, from_name, to_parent, to_name, target } => {
            rename(view, (*from_parent, from_name), (*to_parent, to_name), *target)?
        }
        Change::SetAttr { file, change } => set_attr(view, *file, change)?,
        Change::SetXattr { file, name, value, presence } => set_xattr(view, *file, name, value.as_ref(), *presence)?,
        Change::Store { file, base, content, mtime } => {
            let file = storable(view, *file, author.id)?;
            store(view, file, *base, content, *mtime)?
        }
        Change::Append { file, base, content, mtime } => {
            let file = storable(view, *file, author.id)?;
            match inode(view, file)? {
                Some(inode) if inode.version != *base && !inode.is_removed() => return Err(FsError::Changed.into()),
                Some(_) | None => store(view, file, *base, content, *mtime)?,
            }
        }
        Change::Resolve { conflict } => match view.image(&Key::Conflict(*conflict))? {
            Some(_) => Op::Resolve { conflict: *conflict },
            None => return Err(FsError::NotFound.into()),
        },
    };
    let mut record = Record { id: author.id, time: author.time, user: author.user, op };
    let limits = match view.image(&Key::Origin(author.id.origin()))? {
        Some(Image::Origin(origin)) => origin.limits,
        _ => Limits::NONE,
    };
    if !limits.is_none() {
        limits::admit(view, &limits, change, &mut record)??;
    }
    Ok(record)
}

fn check_kind(kind: &Kind) -> Result<(), FsError> {
    match kind {
        Kind::Directory => Err(FsError::Invalid),
        Kind::Symlink(target) if target.is_empty() => Err(FsError::NotFound),
        Kind::Symlink(target) if target.len() > SYMLINK_TARGET_LEN_MAX => Err(FsError::NameTooLong),
        Kind::File | Kind::Symlink(_) | Kind::Fifo | Kind::Socket | Kind::CharDevice(_) | Kind::BlockDevice(_) => {
            Ok(())
        }
    }
}

/// A living file and what its id means.
fn living(view: &impl View, file: FileId) -> Result<(FileId, Arc<Inode>), BuildError> {
    let file = resolve(view, file)?;
    match inode(view, file)? {
        Some(inode) if !inode.is_removed() => Ok((file, inode)),
        _ => Err(FsError::NotFound.into()),
    }
}

fn directory(view: &impl View, file: FileId) -> Result<FileId, BuildError> {
    let (file, inode) = living(view, file)?;
    if inode.is_directory() { Ok(file) } else { Err(FsError::NotDirectory.into()) }
}

/// The living directory in which a name is free.
fn free_name(view: &impl View, parent: FileId, name: &Name) -> Result<FileId, BuildError> {
    let parent = directory(view, parent)?;
    match entry(view, parent, name)? {
        None => Ok(parent),
        Some(_) => Err(FsError::Exists.into()),
    }
}

/// Directory, file and inode of a name.
fn named(view: &impl View, parent: FileId, name: &Name) -> Result<(FileId, FileId, Arc<Inode>), BuildError> {
    let parent = directory(view, parent)?;
    let entry = entry(view, parent, name)?.ok_or(FsError::NotFound)?;
    let (file, inode) = living(view, entry.file)?;
    Ok((parent, file, inode))
}

fn link(view: &impl View, file: FileId, parent: FileId, name: &Name) -> Result<Op, BuildError> {
    let (file, inode) = living(view, file)?;
    if inode.is_directory() {
        return Err(FsError::NotPermitted.into());
    }
    let parent = free_name(view, parent, name)?;
    if inode.links() as usize >= Inode::LINKS_MAX {
        return Err(FsError::TooManyLinks.into());
    }
    Ok(Op::Link { file, parent, name: name.clone() })
}

fn unlink(view: &impl View, parent: FileId, name: &Name) -> Result<Op, BuildError> {
    let (parent, file, inode) = named(view, parent, name)?;
    if inode.is_directory() {
        return Err(FsError::IsDirectory.into());
    }
    Ok(Op::Unlink { parent, name: name.clone(), file, version: inode.version })
}

fn rmdir(view: &impl View, parent: FileId, name: &Name) -> Result<Op, BuildError> {
    let (parent, file, inode) = named(view, parent, name)?;
    if !inode.is_directory() {
        return Err(FsError::NotDirectory.into());
    }
    if view.first_entry(file)?.is_some() {
        return Err(FsError::NotEmpty.into());
    }
    Ok(Op::Rmdir { parent, name: name.clone(), file })
}

fn rename(
    view: &impl View,
    from: (FileId, &Name),
    to: (FileId, &Name),
    target: RenameTarget,
) -> Result<Op, BuildError> {
    let (from_parent, file, mover) = named(view, from.0, from.1)?;
    let to_parent = directory(view, to.0)?;
    let there = entry(view, to_parent, to.1)?;
    match (there, target) {
        (Some(_), RenameTarget::MustBeFree) => return Err(FsError::Exists.into()),
        (None, RenameTarget::Exchange) => return Err(FsError::NotFound.into()),
        _ => {}
    }
    // Two names of one file: POSIX asks for nothing to happen.
    if there.is_some_and(|there| there.file == file) {
        return Ok(Op::Touch);
    }
    if mover.is_directory() && is_within(view, to_parent, file)? {
        return Err(FsError::Invalid.into());
    }
    let (from_name, to_name) = (from.1.clone(), to.1.clone());
    if let Some(there) = there.filter(|_| target == RenameTarget::Exchange) {
        let (other, inode) = living(view, there.file)?;
        if inode.is_directory() && is_within(view, from_parent, other)? {
            return Err(FsError::Invalid.into());
        }
        return Ok(Op::Exchange { from_parent, from_name, file, to_parent, to_name, other });
    }
    let replaced = match there {
        Some(there) => Some(replaceable(view, &mover, there.file)?),
        None => None,
    };
    Ok(Op::Rename { from_parent, from_name, file, to_parent, to_name, replaced })
}

fn replaceable(view: &impl View, mover: &Inode, there: FileId) -> Result<Replaced, BuildError> {
    let (file, inode) = living(view, there)?;
    match (mover.is_directory(), inode.is_directory()) {
        (true, false) => Err(FsError::NotDirectory.into()),
        (false, true) => Err(FsError::IsDirectory.into()),
        (true, true) if view.first_entry(file)?.is_some() => Err(FsError::NotEmpty.into()),
        _ => Ok(Replaced { file, version: inode.version }),
    }
}

fn set_attr(view: &impl View, file: FileId, change: &AttrChange) -> Result<Op, BuildError> {
    let (file, inode) = living(view, file)?;
    let mode = change.mode.map(|mode| mode & 0o7777);
    Ok(Op::SetAttr { file, base: inode.attr_version, change: AttrChange { mode, ..*change } })
}

fn set_xattr(
    view: &impl View,
    file: FileId,
    name: &XattrName,
    value: Option<&Bytes>,
    presence: XattrPresence,
) -> Result<Op, BuildError> {
    let (file, inode) = living(view, file)?;
    let mut inode = Arc::unwrap_or_clone(inode);
    let old = inode.xattrs.remove(name);
    match (presence, value, &old) {
        (XattrPresence::MustBeNew, Some(_), Some(_)) => return Err(FsError::Exists.into()),
        (XattrPresence::MustExist, Some(_), None) | (_, None, None) => {
            return Err(FsError::NoAttribute.into());
        }
        _ => {}
    }
    if let Some(value) = value {
        let len = xattrs_len(&inode) + name.as_bytes().len() + value.len();
        if value.len() > XATTR_VALUE_LEN_MAX {
            return Err(FsError::TooBig.into());
        }
        if len > Inode::XATTRS_LEN_MAX {
            return Err(FsError::NoSpace.into());
        }
    }
    Ok(Op::SetXattr { file, name: name.clone(), value: value.cloned() })
}

/// The file that a store means, unless its own writer removed that.
fn storable(view: &impl View, file: FileId, author: RecordId) -> Result<FileId, BuildError> {
    let file = resolve(view, file)?;
    let by_own_hand = |inode: &Inode| inode.is_removed() && inode.attr_version.0.origin() == author.origin();
    match inode(view, file)? {
        Some(inode) if inode.merged_into.is_none() && by_own_hand(&inode) => Err(FsError::Stale.into()),
        _ => Ok(file),
    }
}

fn store(view: &impl View, file: FileId, base: RecordId, content: &Content, mtime: WallTime) -> Result<Op, BuildError> {
    let inode = inode(view, file)?.ok_or(FsError::NotFound)?;
    match inode.kind {
        Kind::File if content.is_well_formed() => Ok(Op::Store { file, base, content: content.clone(), mtime }),
        Kind::Directory => Err(FsError::IsDirectory.into()),
        Kind::File | Kind::Symlink(_) | Kind::Fifo | Kind::Socket | Kind::CharDevice(_) | Kind::BlockDevice(_) => {
            Err(FsError::Invalid.into())
        }
    }
}
