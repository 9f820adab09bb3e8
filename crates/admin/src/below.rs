//! The files at and below a path.

use crate::errors::{stopped, storage};
use std::path::Path;
use wayfs_control::ControlError;
use wayfs_node::paths::{at_path, files_in};
use wayfs_node::{LiveReplica, Volume};
use wayfs_types::{FileId, Inode, StorageError};

/// Calls `step` for the file at a path and all below it, as far as they are known here. Answers whether there is one.
///
/// The volume is locked for one file at a time, so a large tree keeps nobody waiting; what moves meanwhile may be passed over.
///
/// # Errors
/// If the volume has stopped, or its tables cannot be read.
pub fn each_file(
    volume: &Volume,
    path: &Path,
    mut step: impl FnMut(&LiveReplica, FileId, &Inode) -> Result<(), StorageError>,
) -> Result<bool, ControlError> {
    let found = volume.look(|replica| at_path(replica, path)).ok_or_else(stopped)?;
    let Some(top) = found.map_err(|error| storage(&error))? else { return Ok(false) };
    let mut files = vec![top];
    while let Some(file) = files.pop() {
        let looked = volume.look(|replica| {
            let Some(inode) = replica.inode(file)? else { return Ok(Vec::new()) };
            step(replica, file, &inode)?;
            files_in(replica, file, &inode)
        });
        files.extend(looked.ok_or_else(stopped)?.map_err(|error| storage(&error))?);
    }
    Ok(true)
}

/// Whether what the engine says of a file's path is at or below another, from the volume's root. Nothing without a path is.
pub fn is_at(path: Option<&str>, below: Option<&Path>) -> bool {
    let path = path.map(|path| Path::new(path.trim_start_matches('/')));
    below.is_none_or(|below| path.is_some_and(|path| path.starts_with(below)))
}
