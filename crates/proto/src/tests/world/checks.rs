//! What holds of a host, whoever looks.

use super::{HOME, World};
use crate::Role;
use std::collections::BTreeMap;
use wayfs_types::{FileId, Image, Key};

impl World {
    /// The view of a host without what only concerns it alone.
    pub(crate) fn tree(&self, host: usize) -> BTreeMap<Key, Image> {
        self.hosts[host].replica.images(None, usize::MAX / 2).unwrap().into_iter().collect()
    }

    /// Everything that a client shows looks as at the home.
    pub(crate) fn assert_agrees(&self, host: usize) {
        let home = self.tree(HOME);
        for (key, image) in self.tree(host) {
            if !self.hosts[host].replica.is_verified(&key).unwrap() {
                continue;
            }
            assert_eq!(Some(&image), home.get(&key), "{key:?} at host {host}");
        }
        if self.hosts[host].role == Role::Station {
            assert_eq!(self.tree(host).len(), home.len());
        }
    }

    pub(crate) fn check_tree(&self, host: usize) {
        let view = self.tree(host);
        let mut counted: BTreeMap<FileId, u32> = BTreeMap::new();
        let mut named: BTreeMap<FileId, u32> = BTreeMap::new();
        for (key, image) in &view {
            match (key, image) {
                (Key::Entry(parent, name), Image::Entry(entry)) => {
                    let Some(Image::Inode(inode)) = view.get(&Key::Inode(entry.file)) else {
                        panic!("{key:?} stands for a file that is not there");
                    };
                    assert!(
                        inode.is_crowded()
                            || inode.places.iter().any(|place| place.parent == *parent && place.name == *name),
                        "{key:?} is not among the places of its file"
                    );
                    *named.entry(entry.file).or_default() += 1;
                    if inode.is_directory() {
                        *counted.entry(*parent).or_default() += 1;
                    }
                }
                (Key::Inode(_), Image::Inode(inode)) => {
                    for place in &inode.places {
                        let entry = view.get(&Key::Entry(place.parent, place.name.clone()));
                        assert!(entry.is_some(), "{key:?} has a place {place:?} without an entry");
                    }
                }
                _ => {}
            }
        }
        for (key, image) in &view {
            if let (Key::Inode(file), Image::Inode(inode)) = (key, image)
                && self.hosts[host].role != Role::Client
                && !inode.is_directory()
            {
                assert_eq!(inode.links(), named.get(file).copied().unwrap_or(0), "{key:?}");
                assert!(!inode.is_crowded() || !inode.places.is_empty(), "{key:?}");
            }
            if let (Key::Inode(file), Image::Inode(inode)) = (key, image)
                && inode.is_directory()
                && !inode.is_removed()
            {
                assert_eq!(inode.subdirectories, counted.get(file).copied().unwrap_or(0), "{key:?}");
            }
        }
    }
}
