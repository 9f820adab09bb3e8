//! What the rules read and write: images by key.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use wayfs_types::{Chain, Entry, FileId, Image, Inode, Key, Name, OriginId, Place, StorageError};

/// Longest chain of aliases that is followed. An alias is made towards a file
/// that is none itself, so chains only grow when their end is removed and its
/// place taken; a longer one comes from damaged or half-known state.
pub const ALIAS_CHAIN_MAX: usize = 64;

/// From where on the names of a file are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameCursor {
    /// The first directory, by its inode number.
    pub parent: u64,
    /// In that directory only names after this one.
    pub after: Option<Name>,
}

impl NameCursor {
    /// All names.
    pub const START: Self = Self { parent: 0, after: None };

    /// Names in a directory and in those of higher numbers.
    pub const fn at(directory: FileId) -> Self {
        Self { parent: directory.inode_number(), after: None }
    }

    /// Names in directories of higher numbers.
    pub const fn behind(directory: FileId) -> Self {
        Self { parent: directory.inode_number() + 1, after: None }
    }

    /// Names after this one.
    pub fn after(place: &Place) -> Self {
        Self { parent: place.parent.inode_number(), after: Some(place.name.clone()) }
    }

    /// Whether a name is wanted.
    pub fn takes(&self, place: &Place) -> bool {
        let parent = place.parent.inode_number();
        parent > self.parent || parent == self.parent && self.after.as_ref().is_none_or(|after| place.name > *after)
    }
}

/// A tree as one replica sees it.
///
/// A replica that holds only part of a volume answers `None` for what it does
/// not hold; whoever calls the rules fetches what an operation needs before.
pub trait View {
    /// The image of a key.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    fn image(&self, key: &Key) -> Result<Option<Image>, StorageError>;

    /// The first name in a directory; `None` if it is empty (or is no directory).
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    fn first_entry(&self, directory: FileId) -> Result<Option<Name>, StorageError>;

    /// Up to `limit` names that the entries of directories give a file, in order of directory and name, from a cursor on.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
    fn names_after(&self, file: FileId, cursor: &NameCursor, limit: usize) -> Result<Vec<Place>, StorageError>;

    /// Whether the whole volume is in it, so that what is not there does not exist. A client's holds what it looked at.
    fn is_whole(&self) -> bool {
        true
    }
}

/// A tree that can be changed.
pub trait ViewMut: View {
    /// Sets the image of a key; `None` removes it.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be written. What the operation put before stays: the caller
    /// works on an overlay and drops it.
    fn put(&mut self, key: Key, image: Option<Image>) -> Result<(), StorageError>;
}

/// The inode of a file, marker or alias.
///
/// # Errors
/// [`StorageError`] if it cannot be read.
pub fn inode(view: &impl View, file: FileId) -> Result<Option<Arc<Inode>>, StorageError> {
    Ok(match view.image(&Key::Inode(file))? {
        Some(Image::Inode(inode)) => Some(inode),
        _ => None,
    })
}

/// The entry under a name.
///
/// # Errors
/// [`StorageError`] if it cannot be read.
pub fn entry(view: &impl View, directory: FileId, name: &Name) -> Result<Option<Entry>, StorageError> {
    Ok(match view.image(&Key::Entry(directory, name.clone()))? {
        Some(Image::Entry(entry)) => Some(entry),
        _ => None,
    })
}

/// The file that an id means: itself, or the one that it was merged into.
///
/// # Errors
/// [`StorageError`] if it cannot be read.
pub fn resolve(view: &impl View, file: FileId) -> Result<FileId, StorageError> {
    let mut at = file;
    for _ in 0..ALIAS_CHAIN_MAX {
        match inode(view, at)?.and_then(|inode| inode.merged_into) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(at)
}

/// Sequence of an origin's last record that took effect: 0 if none did or the origin is not known.
///
/// # Errors
/// [`StorageError`] if it cannot be read.
pub fn applied(view: &impl View, origin: OriginId) -> Result<u64, StorageError> {
    Ok(applied_chain(view, origin)?.0)
}

/// As [`applied`], with the running hash over the origin's records up to that one.
///
/// # Errors
/// [`StorageError`] if it cannot be read.
pub fn applied_chain(view: &impl View, origin: OriginId) -> Result<(u64, Chain), StorageError> {
    Ok(match view.image(&Key::Origin(origin))? {
        Some(Image::Origin(origin)) => (origin.applied, origin.chain),
        _ => (0, Chain::START),
    })
}

/// Whether a marker or an alias is all that is left of a file, so that its image may be
/// forgotten once no replica can still send a record that names it.
pub fn purgeable(inode: &Inode) -> bool {
    inode.is_removed()
}

/// A whole tree in memory: for tests, the simulator and the reference model.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct MemoryView {
    images: BTreeMap<Key, Image>,
    /// The entries by what they name.
    names: BTreeSet<(FileId, Place)>,
}

impl MemoryView {
    /// Nothing, not even a root.
    pub const fn new() -> Self {
        Self { images: BTreeMap::new(), names: BTreeSet::new() }
    }

    /// An empty volume: a root directory (mode 0755, owner 0) and nothing else.
    pub fn with_root() -> Self {
        let root = Image::Inode(Arc::new(crate::edit::root_inode()));
        Self { images: BTreeMap::from([(Key::Inode(FileId::ROOT), root)]), names: BTreeSet::new() }
    }

    /// All keys and images in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Image)> {
        self.images.iter()
    }
}

impl View for MemoryView {
    fn image(&self, key: &Key) -> Result<Option<Image>, StorageError> {
        Ok(self.images.get(key).cloned())
    }

    fn first_entry(&self, directory: FileId) -> Result<Option<Name>, StorageError> {
        // Entries sort by directory, then name; the shortest names come first among equals, so
        // the least name is one byte of value 1.
        let least = Name::new([1]).expect("one byte that is neither zero nor a separator");
        let from = Bound::Included(Key::Entry(directory, least));
        Ok(match self.images.range((from, Bound::Unbounded)).next() {
            Some((Key::Entry(at, name), _)) if *at == directory => Some(name.clone()),
            _ => None,
        })
    }

    fn names_after(&self, file: FileId, cursor: &NameCursor, limit: usize) -> Result<Vec<Place>, StorageError> {
        let least = Name::new([1]).expect("one byte that is neither zero nor a separator");
        let names = self.names.range((file, Place { parent: FileId::ROOT, name: least })..);
        let names = names.take_while(|(of, _)| *of == file).map(|(_, place)| place);
        Ok(names.filter(|place| cursor.takes(place)).take(limit).cloned().collect())
    }
}

impl ViewMut for MemoryView {
    fn put(&mut self, key: Key, image: Option<Image>) -> Result<(), StorageError> {
        if let Key::Entry(parent, name) = &key {
            let place = Place { parent: *parent, name: name.clone() };
            if let Some(Image::Entry(old)) = self.images.get(&key) {
                self.names.remove(&(old.file, place.clone()));
            }
            if let Some(Image::Entry(new)) = &image {
                self.names.insert((new.file, place));
            }
        }
        match image {
            Some(image) => self.images.insert(key, image),
            None => self.images.remove(&key),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::RecordId;

    #[test]
    fn the_first_entry_is_of_the_directory_asked_for() {
        let mut view = MemoryView::with_root();
        let other = FileId::made_by(RecordId::try_from(9).unwrap());
        let entry = Entry { file: other, version: other.maker() };
        let name = Name::new("x").unwrap();
        view.put(Key::Entry(other, name.clone()), Some(Image::Entry(entry))).unwrap();
        assert_eq!(view.first_entry(FileId::ROOT), Ok(None));
        assert_eq!(view.first_entry(other), Ok(Some(name)));
    }
}
