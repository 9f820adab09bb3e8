//! What people are told of a batch: files that were made, edited, moved and removed, read off the images that it changed.
//!
//! Images say all of it, whether records or news from above changed them: what a name stands for and which record put it there, which
//! record gave a file its content or its attributes, which one removed it. So clients, stations and homes tell the same in the same
//! words. A name that came and went within one batch is not told.

use crate::state::overlay::Changed;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{FileId, Image, Inode, Key, Name, Place, RecordId};

/// Something that happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// What.
    pub what: What,
    /// The file.
    pub file: FileId,
    /// The name that came, or that went; `None`: the file is told of by whatever names it has.
    pub place: Option<Place>,
    /// The record that did it, if that is known here.
    pub by: Option<RecordId>,
    /// Bytes of the file, if it is known here and is there.
    pub size: Option<u64>,
    /// Whether it is a directory; false if that is not known here.
    pub is_directory: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It got a name.
    Created,
    /// It got other bytes.
    Edited,
    /// It lost one name and got another.
    Renamed {
        /// The one that it lost.
        from: Place,
    },
    /// It lost a name, which stands for nothing now.
    Removed,
    /// It got another mode, owner or time, or an extended attribute.
    Attributes,
}

/// What a batch changed, names first. Names that are `learned` were there before, unknown here.
pub(crate) fn happenings(changed: &[Changed], learned: &BTreeSet<(FileId, Name)>) -> Vec<Happening> {
    let mut names = Names::default();
    for change in changed {
        if let Key::Entry(parent, name) = &change.key {
            let is_learned = change.old.is_none() && learned.contains(&(*parent, name.clone()));
            if !is_learned {
                names.note(Place { parent: *parent, name: name.clone() }, change);
            }
        }
    }
    let inodes = changed.iter().filter_map(|change| match &change.key {
        Key::Inode(file) => Some((*file, (inode(&change.old), inode(&change.new)))),
        Key::Entry(..) | Key::Conflict(_) | Key::Origin(_) => None,
    });
    let inodes: BTreeMap<FileId, (Option<&Inode>, Option<&Inode>)> = inodes.collect();
    let named: BTreeSet<FileId> = names.came.keys().chain(names.gone.keys()).copied().collect();
    let mut told = names.told(&inodes);
    told.extend(inodes.iter().filter_map(|(file, images)| changed_itself(*file, *images, &named)));
    told
}

/// Names that came and went, by the files that they stand for.
#[derive(Default)]
struct Names {
    came: BTreeMap<FileId, Vec<(Place, RecordId)>>,
    gone: BTreeMap<FileId, Vec<Gone>>,
}

struct Gone {
    place: Place,
    /// It stands for something else.
    is_taken: bool,
}

impl Names {
    fn note(&mut self, place: Place, change: &Changed) {
        let entry = |image: &Option<Image>| match image {
            Some(Image::Entry(entry)) => Some(*entry),
            Some(Image::Inode(_) | Image::Conflict(_) | Image::Origin(_)) | None => None,
        };
        let (old, new) = (entry(&change.old), entry(&change.new));
        if old.map(|old| old.file) == new.map(|new| new.file) {
            return;
        }
        if let Some(old) = old {
            let gone = Gone { place: place.clone(), is_taken: new.is_some() };
            self.gone.entry(old.file).or_default().push(gone);
        }
        if let Some(new) = new {
            self.came.entry(new.file).or_default().push((place, new.version));
        }
    }

    fn told(mut self, inodes: &BTreeMap<FileId, (Option<&Inode>, Option<&Inode>)>) -> Vec<Happening> {
        let mut told = Vec::new();
        let about = |what, file, place, by| {
            let (old, new) = inodes.get(&file).copied().unwrap_or_default();
            let size = new.filter(|inode| !inode.is_removed()).map(|inode| inode.content.size());
            let is_directory = new.or(old).is_some_and(Inode::is_directory);
            Happening { what, file, place: Some(place), by, size, is_directory }
        };
        for (file, places) in self.came {
            let mut gone = self.gone.remove(&file).unwrap_or_default().into_iter();
            for (place, by) in places {
                let what = gone.next().map_or(What::Created, |gone| What::Renamed { from: gone.place });
                told.push(about(what, file, place, Some(by)));
            }
            let left: Vec<Gone> = gone.collect();
            if !left.is_empty() {
                self.gone.insert(file, left);
            }
        }
        // What a removed directory held goes before it: it was made later.
        for (file, places) in self.gone.into_iter().rev() {
            let (old, new) = inodes.get(&file).copied().unwrap_or_default();
            let remover = new.filter(|inode| inode.is_removed());
            let mut elsewhere = places_got(old, new).into_iter();
            for gone in places.into_iter().filter(|gone| !gone.is_taken) {
                if let Some(place) = elsewhere.next() {
                    told.push(about(What::Renamed { from: gone.place }, file, place, None));
                    continue;
                }
                told.push(about(What::Removed, file, gone.place, remover.map(|marker| marker.attr_version.0)));
            }
        }
        told
    }
}

/// Names that a file got where nobody here looks: no entry tells of them, only the file itself, which is told to who saw it before.
fn places_got(old: Option<&Inode>, new: Option<&Inode>) -> Vec<Place> {
    let (Some(old), Some(new)) = (old, new) else { return Vec::new() };
    new.places.iter().filter(|place| !old.places.contains(place)).cloned().collect()
}

/// Other bytes, or other attributes. `named`: files that a name came to or went from, of which only other bytes are told.
fn changed_itself(
    file: FileId,
    (old, new): (Option<&Inode>, Option<&Inode>),
    named: &BTreeSet<FileId>,
) -> Option<Happening> {
    let (old, new) = (old?, new.filter(|inode| !inode.is_removed())?);
    let (what, by) = if old.version != new.version && !new.is_directory() {
        (What::Edited, new.version)
    } else if old.attr_version != new.attr_version && !named.contains(&file) {
        (What::Attributes, new.attr_version.0)
    } else {
        return None;
    };
    let (size, is_directory) = (Some(new.content.size()), new.is_directory());
    Some(Happening { what, file, place: None, by: Some(by), size, is_directory })
}

fn inode(image: &Option<Image>) -> Option<&Inode> {
    match image {
        Some(Image::Inode(inode)) => Some(inode),
        Some(Image::Entry(_) | Image::Conflict(_) | Image::Origin(_)) | None => None,
    }
}
