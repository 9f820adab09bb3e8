//! The names of a file.
//!
//! An inode lists the first few of them, which is all that most files have. The others are known by the entries of directories
//! alone, and each view can tell which entries name a file: so a link costs the same whether it is the second name or the
//! sixty-thousandth.

use crate::view::{NameCursor, View, entry};
use wayfs_types::{FileId, Inode, Place, StorageError};

/// Names that are read at once.
const PAGE: usize = 256;

/// Whether a place is one of a file's names.
///
/// # Errors
/// [`StorageError`] if the view cannot be read.
pub fn has_name(view: &impl View, file: FileId, inode: &Inode, place: &Place) -> Result<bool, StorageError> {
    if inode.places.binary_search(place).is_ok() || !inode.is_crowded() {
        return Ok(inode.places.contains(place));
    }
    Ok(entry(view, place.parent, &place.name)?.is_some_and(|entry| entry.file == file))
}

/// All names of a file that the view knows, in order: those that it lists, and those that entries give it.
///
/// Takes as long as the file has names.
///
/// # Errors
/// [`StorageError`] if the view cannot be read.
pub fn names_of(view: &impl View, file: FileId, inode: &Inode) -> Result<Vec<Place>, StorageError> {
    let mut names = inode.places.clone();
    if inode.is_crowded() {
        let mut cursor = NameCursor::START;
        loop {
            let page = view.names_after(file, &cursor, PAGE)?;
            let Some(last) = page.last() else { break };
            cursor = NameCursor::after(last);
            names.extend(page);
        }
        names.sort_unstable();
        names.dedup();
    }
    Ok(names)
}

/// Goes through the names that entries of one directory give a file, as long as `look` answers `true`.
pub(crate) fn each_name_in(
    view: &impl View,
    file: FileId,
    directory: FileId,
    mut look: impl FnMut(Place) -> bool,
) -> Result<(), StorageError> {
    let mut cursor = NameCursor::at(directory);
    loop {
        let page = view.names_after(file, &cursor, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        cursor = NameCursor::after(last);
        for place in page {
            if place.parent != directory || !look(place) {
                return Ok(());
            }
        }
    }
}
