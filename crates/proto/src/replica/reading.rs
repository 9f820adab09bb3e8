//! What drivers and tools ask of a replica. Each question is answered by the part that knows.

use crate::replica::Replica;
use wayfs_types::FileId;
use wayfs_types::Inode;
use wayfs_types::MetaStore;
use wayfs_types::Place;
use wayfs_types::Record;
use wayfs_types::RecordId;
use wayfs_types::StorageError;

impl<S: MetaStore> Replica<S> {
    /// A record that the parent has not confirmed, as the log keeps it.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn logged(&self, record: RecordId) -> Result<Option<Record>, StorageError> {
        self.core.state.logged(record)
    }

    /// The names of a file that are known here, in order.
    ///
    /// Takes as long as the file has names.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn names_of(&self, file: FileId) -> Result<Vec<Place>, StorageError> {
        self.core.state.names_of(file)
    }

    /// Whether a place is one of a file's names.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn has_name(&self, file: FileId, inode: &Inode, place: &Place) -> Result<bool, StorageError> {
        self.core.state.has_name(file, inode, place)
    }

    /// Whether a file has a name in a directory, as far as it is known here.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn stands_in(&self, file: FileId, inode: &Inode, directory: FileId) -> Result<bool, StorageError> {
        self.core.state.stands_in(file, inode, directory)
    }

    /// A row that is kept in memory and is another one in the store, if there is one. Reads all that are kept.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    pub fn kept_row_is_wrong(&self) -> Result<Option<String>, StorageError> {
        self.core.state.kept_row_is_wrong()
    }
}
