//! The names of a file, as the committed view says.

use crate::state::State;
use crate::state::names::{Committed, stored_names};
use crate::state::tables::{parse_number_key, table};
use wayfs_tree::NameCursor;
use wayfs_types::{FileId, Inode, MetaStore, Place, StorageError};

impl<S: MetaStore> State<S> {
    /// The names of a file that are known here, in order.
    pub(crate) fn names_of(&self, file: FileId) -> Result<Vec<Place>, StorageError> {
        match self.inode(file)? {
            Some(inode) => wayfs_tree::names_of(&Committed(&self.store), file, &inode),
            None => Ok(Vec::new()),
        }
    }

    /// Whether a place is one of a file's names.
    pub(crate) fn has_name(&self, file: FileId, inode: &Inode, place: &Place) -> Result<bool, StorageError> {
        wayfs_tree::has_name(&Committed(&self.store), file, inode, place)
    }

    /// Whether a file has a name in a directory, as far as it is known here.
    pub(crate) fn stands_in(&self, file: FileId, inode: &Inode, directory: FileId) -> Result<bool, StorageError> {
        if inode.places.iter().any(|place| place.parent == directory) || !inode.is_crowded() {
            return Ok(inode.places.iter().any(|place| place.parent == directory));
        }
        let first = stored_names(&self.store, file, &NameCursor::at(directory), 1)?;
        Ok(first.first().is_some_and(|place| place.parent == directory))
    }

    /// The exclusive directories in which a crowded file stands under names that it does not list. There are few of such
    /// directories, and may be many of such names.
    pub(crate) fn unlisted_exclusive(&self, file: FileId, inode: &Inode) -> Result<Vec<FileId>, StorageError> {
        let mut found = Vec::new();
        if !inode.is_crowded() {
            return Ok(found);
        }
        self.each(&[table::EXCLUSIVE], &[table::EXCLUSIVE + 1], |key, _| {
            let directory = FileId::from_inode_number(parse_number_key(key)?);
            let directory = directory.map_err(|error| StorageError::Corrupt(error.to_string()))?;
            if self.stands_in(file, inode, directory)? {
                found.push(directory);
            }
            Ok(())
        })?;
        Ok(found)
    }
}
