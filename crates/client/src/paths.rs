//! Between paths from the volume's root and files.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wayfs_node::Volume;
use wayfs_types::request::{Answer, Request};
use wayfs_types::{FileId, FsError, Inode, Name};

/// The path of a file from the volume's root, as far as it is known here. The root's is empty.
pub fn path_of(volume: &Volume, file: FileId) -> Option<PathBuf> {
    volume.look(|replica| wayfs_node::paths::path_of(replica, file))?
}

/// The file at a path, asking the parent for what is not known here. Symbolic links are not followed.
///
/// # Errors
/// [`FsError::NotFound`], [`FsError::Unreachable`], [`FsError::Invalid`] for `..` and odd names.
pub fn resolve(volume: &Volume, path: &Path, timeout: Duration) -> Result<(FileId, Inode), FsError> {
    resolve_through(volume, path, timeout, |_| true)
}

/// As [`resolve`], only through directories that `may_walk` allows.
///
/// # Errors
/// [`FsError::AccessDenied`] at one that it does not; else as [`resolve`].
pub(crate) fn resolve_through(
    volume: &Volume,
    path: &Path,
    timeout: Duration,
    may_walk: impl Fn(&Inode) -> bool,
) -> Result<(FileId, Inode), FsError> {
    let mut at = file_at(volume, Request::Attributes { file: FileId::ROOT }, timeout)?;
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => Name::try_from(name).map_err(|_| FsError::NotFound)?,
            Component::RootDir | Component::CurDir => continue,
            Component::ParentDir | Component::Prefix(_) => return Err(FsError::Invalid),
        };
        if !may_walk(&at.1) {
            return Err(FsError::AccessDenied);
        }
        at = file_at(volume, Request::Lookup { parent: at.0, name }, timeout)?;
    }
    Ok(at)
}

fn file_at(volume: &Volume, request: Request, timeout: Duration) -> Result<(FileId, Inode), FsError> {
    match volume.request(request, timeout)? {
        Answer::File(file, inode) => Ok((file, Arc::unwrap_or_clone(inode))),
        answer => {
            tracing::error!(?answer, "the replica answered a lookup with something else");
            Err(FsError::Io)
        }
    }
}

/// All entries of a directory, page by page.
///
/// # Errors
/// As the engine answers.
pub fn entries(volume: &Volume, directory: FileId, timeout: Duration) -> Result<Vec<(Name, FileId, Inode)>, FsError> {
    let mut all: Vec<(Name, FileId, Inode)> = Vec::new();
    loop {
        let after = all.last().map(|(name, _, _)| name.clone());
        match volume.request(Request::List { directory, after, limit: 1024 }, timeout)? {
            Answer::List { entries, end } => {
                let is_last = end || entries.is_empty();
                all.extend(entries.into_iter().map(|(name, file, inode)| (name, file, Arc::unwrap_or_clone(inode))));
                if is_last {
                    return Ok(all);
                }
            }
            answer => {
                tracing::error!(?answer, "the replica answered a listing with something else");
                return Err(FsError::Io);
            }
        }
    }
}
