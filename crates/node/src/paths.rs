//! Paths from the root of a volume, as the view has them. The root's is empty; none begins with `/`.

use crate::live_replica::LiveReplica;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use wayfs_types::{FileId, Inode, Name, Op, Place, Record, StorageError};

/// Longest chain of directories followed upwards: deeper than `PATH_MAX` allows.
const DEPTH_MAX: usize = 4096;
/// Entries read at a time.
const PAGE: usize = 1024;

/// The path of a file; `None` if it has none, or not all of it is known here.
pub fn path_of(replica: &LiveReplica, file: FileId) -> Option<PathBuf> {
    walk(replica, file, |inode| inode.places.first().cloned())
}

fn walk(replica: &LiveReplica, file: FileId, place_of: impl Fn(&Inode) -> Option<Place>) -> Option<PathBuf> {
    let mut names: Vec<Name> = Vec::new();
    let mut at = file;
    while at != FileId::ROOT {
        if names.len() >= DEPTH_MAX {
            return None;
        }
        let place = replica.inode(at).ok().flatten().and_then(|inode| place_of(&inode))?;
        names.push(place.name);
        at = place.parent;
    }
    Some(names.iter().rev().map(|name| OsStr::from_bytes(name.as_bytes())).collect())
}

/// The path of a file; of one that is removed, and of one in a directory that is, the last that it had.
pub fn last_path_of(replica: &LiveReplica, file: FileId) -> Option<PathBuf> {
    walk(replica, file, |inode| inode.places.first().or(inode.removed_from.as_ref()).cloned())
}

/// The file at a path from the root of the volume, as far as it is known here. Symbolic links are not followed.
///
/// # Errors
/// [`StorageError`] if the tables cannot be read.
pub fn at_path(replica: &LiveReplica, path: &Path) -> Result<Option<FileId>, StorageError> {
    let mut file = FileId::ROOT;
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::RootDir | Component::CurDir => continue,
            Component::ParentDir | Component::Prefix(_) => return Ok(None),
        };
        let Ok(name) = Name::try_from(name) else { return Ok(None) };
        match replica.entry(file, &name)? {
            Some(entry) => file = entry.file,
            None => return Ok(None),
        }
    }
    Ok(Some(file))
}

/// What a record is about: the path of its file if it still has one, else the name that it gave or took.
pub fn path_of_record(replica: &LiveReplica, record: &Record) -> Option<PathBuf> {
    let own = file_of(record).and_then(|file| path_of(replica, file));
    own.or_else(|| names_of(&record.op).last().and_then(|(parent, name)| path_at(replica, *parent, name)))
}

/// Whether a record did something at or below a path: to the file, or to a name.
pub fn is_below(replica: &LiveReplica, record: &Record, path: &Path) -> bool {
    let own = file_of(record).and_then(|file| path_of(replica, file));
    let names = names_of(&record.op);
    let named = names.iter().filter_map(|(parent, name)| path_at(replica, *parent, name));
    own.into_iter().chain(named).any(|at| at.starts_with(path))
}

/// The files in a directory, as far as they are known here; of anything else none.
///
/// # Errors
/// [`StorageError`] if they cannot be read.
pub fn files_in(replica: &LiveReplica, file: FileId, inode: &Inode) -> Result<Vec<FileId>, StorageError> {
    let mut files = Vec::new();
    let mut after = None;
    while inode.is_directory() {
        let page = replica.list(file, after.as_ref(), PAGE)?;
        files.extend(page.iter().map(|(_, entry)| entry.file));
        match page.last() {
            Some((name, _)) if page.len() == PAGE => after = Some(name.clone()),
            _ => break,
        }
    }
    Ok(files)
}

fn path_at(replica: &LiveReplica, parent: FileId, name: &Name) -> Option<PathBuf> {
    Some(path_of(replica, parent)?.join(OsStr::from_bytes(name.as_bytes())))
}

fn file_of(record: &Record) -> Option<FileId> {
    match &record.op {
        Op::Create { .. } | Op::Mkdir { .. } => Some(FileId::made_by(record.id)),
        Op::Link { file, .. }
        | Op::Unlink { file, .. }
        | Op::Rmdir { file, .. }
        | Op::Rename { file, .. }
        | Op::Exchange { file, .. }
        | Op::SetAttr { file, .. }
        | Op::SetXattr { file, .. }
        | Op::Store { file, .. }
        | Op::Lost { file, .. } => Some(*file),
        Op::Resolve { .. } | Op::Touch | Op::Skip { .. } => None,
    }
}

/// The names that an operation gave or took, the given one last.
fn names_of(op: &Op) -> Vec<(FileId, &Name)> {
    match op {
        Op::Create { parent, name, .. }
        | Op::Mkdir { parent, name, .. }
        | Op::Link { parent, name, .. }
        | Op::Unlink { parent, name, .. }
        | Op::Rmdir { parent, name, .. } => vec![(*parent, name)],
        Op::Rename { from_parent, from_name, to_parent, to_name, .. }
        | Op::Exchange { from_parent, from_name, to_parent, to_name, .. } => {
            vec![(*from_parent, from_name), (*to_parent, to_name)]
        }
        Op::SetAttr { .. }
        | Op::SetXattr { .. }
        | Op::Store { .. }
        | Op::Resolve { .. }
        | Op::Touch
        | Op::Skip { .. }
        | Op::Lost { .. } => Vec::new(),
    }
}
