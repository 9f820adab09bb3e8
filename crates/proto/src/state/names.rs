//! The names of files with more than an inode lists, and which directories are exclusive: indexes of the view.
//!
//! Both say nothing that the view does not say. They are written with the rows that they are of (`overlay::finish`), and
//! nobody is told of them. Who sees such a *crowded* file:
//!
//! ```text
//!   a listed name stands in a directory ──▶ who looks at the directory hears of the file, as of any other
//!   any other name ──▶ who is told of the file looks at the file itself from then on, at both ends (stream.rs, answers.rs)
//!   a change of the file ──▶ claims the listed directories and the file: all who look at it are called
//! ```

use crate::state::tables::{name_key, names_from, names_until, number_key, parse_name_key, table};
use std::collections::BTreeSet;
use wayfs_tree::{NameCursor, View};
use wayfs_types::{Batch, FileId, Image, Inode, Key, MetaStore, Place, StorageError};
use wayfs_wire::KeyImage;

/// Writes what the indexes say of a key of the view that changes.
pub(crate) fn index(batch: &mut Batch, key: &Key, old: Option<&Image>, new: Option<&Image>) {
    match key {
        Key::Entry(parent, name) => {
            let named = |image: Option<&Image>| match image {
                Some(Image::Entry(entry)) => Some(entry.file),
                _ => None,
            };
            let (old, new) = (named(old), named(new));
            if old != new {
                let place = Place { parent: *parent, name: name.clone() };
                old.into_iter().for_each(|file| batch.delete(name_key(file, &place)));
                new.into_iter().for_each(|file| batch.put(name_key(file, &place), Vec::new()));
            }
        }
        Key::Inode(file) => {
            let is_exclusive =
                |image: Option<&Image>| matches!(image, Some(Image::Inode(inode)) if inode.is_exclusive());
            let row = number_key(table::EXCLUSIVE, file.inode_number());
            match (is_exclusive(old), is_exclusive(new)) {
                (false, true) => batch.put(row, Vec::new()),
                (true, false) => batch.delete(row),
                (true, true) | (false, false) => {}
            }
        }
        Key::Conflict(_) | Key::Origin(_) => {}
    }
}

/// Names that the committed view gives a file.
pub(crate) fn stored_names(
    store: &impl MetaStore,
    file: FileId,
    cursor: &NameCursor,
    limit: usize,
) -> Result<Vec<Place>, StorageError> {
    let rows = store.scan(&names_from(file, cursor), &names_until(file), limit)?;
    rows.iter().map(|(key, _)| parse_name_key(key)).collect()
}

/// Files among these that have names which they do not list.
pub(crate) fn crowded_in(images: &[KeyImage]) -> BTreeSet<FileId> {
    let crowded = images.iter().filter_map(|pair| match (&pair.key, &pair.image) {
        (Key::Inode(file), Some(Image::Inode(inode))) if inode.is_crowded() => Some(*file),
        _ => None,
    });
    crowded.collect()
}

/// What was committed, as the rules see a tree.
pub(crate) struct Committed<'a, S>(pub(crate) &'a S);

impl<S: MetaStore> View for Committed<'_, S> {
    fn image(&self, key: &Key) -> Result<Option<Image>, StorageError> {
        Ok(crate::state::tables::read_view(self.0, key)?.map(|numbered| numbered.image))
    }

    fn first_entry(&self, directory: FileId) -> Result<Option<wayfs_types::Name>, StorageError> {
        let (from, until) = (
            crate::state::tables::entries_from(table::VIEW, directory, None),
            crate::state::tables::entries_until(table::VIEW, directory),
        );
        let first = self.0.scan(&from, &until, 1)?.pop();
        Ok(match first.map(|(key, _)| crate::state::tables::parse_image_key(&key)).transpose()? {
            Some(Key::Entry(_, name)) => Some(name),
            _ => None,
        })
    }

    fn names_after(&self, file: FileId, cursor: &NameCursor, limit: usize) -> Result<Vec<Place>, StorageError> {
        stored_names(self.0, file, cursor, limit)
    }
}

/// Directories through which an inode is seen, as far as it lists its names.
pub(crate) fn directories_of(inode: &Inode) -> impl Iterator<Item = FileId> {
    inode.places.iter().chain(&inode.removed_from).map(|place| place.parent)
}

/// What others look at who see a file: those directories, and the file itself if it has names that it does not list.
pub(crate) fn seen_at(file: FileId, inode: &Inode) -> impl Iterator<Item = FileId> {
    directories_of(inode).chain(Some(file).filter(|_| inode.is_crowded()))
}
