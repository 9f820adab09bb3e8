//! What holds of every tree: no cycle, no orphan, right counts, no two entries of one name.

use std::collections::BTreeMap;
use wayfs_types::{Content, Entry, FileId, Image, Inode, Key, Kind, Name, Place};

/// How a tree is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// There is no living root directory, or it has a place.
    Root,
    /// The image under this key is of another sort.
    WrongImage(Key),
    /// An entry in something that is no living directory.
    EntryOutside(FileId, Name),
    /// An entry of a file that is not living.
    EntryToNothing(FileId, Name),
    /// An entry that its file does not count among its places.
    EntryUnknownToFile(FileId, Name),
    /// A place at which another file or nothing stands.
    PlaceUnknownToDirectory(FileId, Place),
    /// Places that are out of order, double, too many, or more than one for a directory, or a file that lists none of its names.
    BadPlaces(FileId),
    /// A file without a place that is neither marker nor alias, or one with places that is.
    Undecided(FileId),
    /// A count of names that is wrong.
    Links(FileId),
    /// A count of subdirectories that is wrong.
    Subdirectories(FileId),
    /// A directory from which the root cannot be reached.
    Unreachable(FileId),
    /// Content in what holds none, or bits in the mode that are none.
    BadInode(FileId),
}

/// Checks a whole tree, given as all its keys and images, and tells all that is wrong, in no particular order.
pub fn check<'a>(images: impl IntoIterator<Item = (&'a Key, &'a Image)>) -> Vec<Violation> {
    let mut tree = Tree::default();
    for (key, image) in images {
        match (key, image) {
            (Key::Inode(file), Image::Inode(inode)) => {
                tree.inodes.insert(*file, inode);
            }
            (Key::Entry(directory, name), Image::Entry(entry)) => {
                tree.entries.insert((*directory, name), entry);
            }
            (Key::Conflict(_), Image::Conflict(_)) | (Key::Origin(_), Image::Origin(_)) => {}
            _ => tree.violations.push(Violation::WrongImage(key.clone())),
        }
    }
    tree.check_root();
    tree.check_inodes();
    tree.check_entries();
    tree.check_reach();
    tree.violations
}

#[derive(Default)]
struct Tree<'a> {
    inodes: BTreeMap<FileId, &'a Inode>,
    entries: BTreeMap<(FileId, &'a Name), &'a Entry>,
    violations: Vec<Violation>,
}

impl Tree<'_> {
    fn living(&self, file: FileId) -> Option<&Inode> {
        self.inodes.get(&file).copied().filter(|inode| !inode.is_removed())
    }

    fn check_root(&mut self) {
        let root = self.living(FileId::ROOT);
        if root.is_none_or(|root| !root.is_directory() || !root.places.is_empty()) {
            self.violations.push(Violation::Root);
        }
    }

    fn check_inodes(&mut self) {
        let mut found = Vec::new();
        let mut subdirectories = BTreeMap::<FileId, u32>::new();
        let mut names = BTreeMap::<FileId, u32>::new();
        self.entries.values().for_each(|entry| *names.entry(entry.file).or_default() += 1);
        for (file, inode) in &self.inodes {
            let links_max = if inode.is_directory() { 1 } else { Inode::LISTED_MAX };
            let is_ordered = inode.places.windows(2).all(|pair| pair[0] < pair[1]);
            let lists_none = inode.is_crowded() && inode.places.is_empty();
            if !is_ordered || inode.places.len() > links_max || lists_none {
                found.push(Violation::BadPlaces(*file));
            }
            let named = names.get(file).copied().unwrap_or(0) as usize;
            if named != inode.places.len() + inode.unlisted as usize {
                found.push(Violation::Links(*file));
            }
            if *file != FileId::ROOT && inode.is_removed() != (inode.places.is_empty() && !inode.is_crowded()) {
                found.push(Violation::Undecided(*file));
            }
            if (inode.kind != Kind::File && inode.content != Content::EMPTY) || inode.mode > 0o7777 {
                found.push(Violation::BadInode(*file));
            }
            for place in &inode.places {
                let entry = self.entries.get(&(place.parent, &place.name));
                if entry.is_none_or(|entry| entry.file != *file) {
                    found.push(Violation::PlaceUnknownToDirectory(*file, place.clone()));
                }
                if inode.is_directory() {
                    *subdirectories.entry(place.parent).or_default() += 1;
                }
            }
        }
        for (file, inode) in &self.inodes {
            if inode.subdirectories != subdirectories.get(file).copied().unwrap_or(0) {
                found.push(Violation::Subdirectories(*file));
            }
        }
        self.violations.append(&mut found);
    }

    fn check_entries(&mut self) {
        let mut found = Vec::new();
        for ((directory, name), entry) in &self.entries {
            let (directory, name) = (*directory, (*name).clone());
            if self.living(directory).is_none_or(|inode| !inode.is_directory()) {
                found.push(Violation::EntryOutside(directory, name.clone()));
            }
            match self.living(entry.file) {
                None => found.push(Violation::EntryToNothing(directory, name)),
                Some(inode) => {
                    if !inode.is_crowded() && !inode.places.contains(&Place { parent: directory, name: name.clone() }) {
                        found.push(Violation::EntryUnknownToFile(directory, name));
                    }
                }
            }
        }
        self.violations.append(&mut found);
    }

    fn check_reach(&mut self) {
        let mut reached = BTreeMap::from([(FileId::ROOT, true)]);
        let mut found = Vec::new();
        for (file, inode) in &self.inodes {
            if inode.is_directory() && !inode.is_removed() && !self.reaches_root(*file, &mut reached) {
                found.push(Violation::Unreachable(*file));
            }
        }
        self.violations.append(&mut found);
    }

    /// Walks up until something known is met, and remembers it for all on the way.
    fn reaches_root(&self, file: FileId, reached: &mut BTreeMap<FileId, bool>) -> bool {
        let mut path = Vec::new();
        let mut at = file;
        let outcome = loop {
            if let Some(known) = reached.get(&at) {
                break *known;
            }
            // Until the way's end is known, meeting this directory again means a cycle.
            reached.insert(at, false);
            path.push(at);
            match self.living(at).and_then(|inode| inode.places.first()) {
                Some(place) => at = place.parent,
                None => break false,
            }
        };
        for directory in path {
            reached.insert(directory, outcome);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryView, ViewMut, root_inode};
    use std::sync::Arc;
    use wayfs_types::RecordId;

    fn file(number: u64) -> FileId {
        FileId::made_by(RecordId::try_from(number).unwrap())
    }

    #[test]
    fn a_fresh_volume_is_a_tree() {
        assert_eq!(check(MemoryView::with_root().iter()), []);
        assert_eq!(check(MemoryView::new().iter()), [Violation::Root]);
    }

    #[test]
    fn two_directories_in_each_other_are_found() {
        let mut view = MemoryView::with_root();
        let name = Name::try_from("d").unwrap();
        for (own, parent) in [(8, 9), (9, 8)] {
            let place = Place { parent: file(parent), name: name.clone() };
            let inode = Inode { places: vec![place], subdirectories: 1, ..root_inode() };
            view.put(Key::Inode(file(own)), Some(Image::Inode(Arc::new(inode)))).unwrap();
            let entry = Entry { file: file(own), version: file(own).maker() };
            view.put(Key::Entry(file(parent), name.clone()), Some(Image::Entry(entry))).unwrap();
        }
        assert_eq!(check(view.iter()), [Violation::Unreachable(file(8)), Violation::Unreachable(file(9))]);
    }

    #[test]
    fn an_entry_without_a_file_and_a_wrong_count_are_found() {
        let mut view = MemoryView::with_root();
        let name = Name::try_from("x").unwrap();
        let entry = Entry { file: file(8), version: file(8).maker() };
        view.put(Key::Entry(FileId::ROOT, name.clone()), Some(Image::Entry(entry))).unwrap();
        let root = Inode { subdirectories: 3, ..root_inode() };
        view.put(Key::Inode(FileId::ROOT), Some(Image::Inode(Arc::new(root)))).unwrap();
        let found = check(view.iter());
        assert_eq!(found, [Violation::Subdirectories(FileId::ROOT), Violation::EntryToNothing(FileId::ROOT, name)]);
    }
}
