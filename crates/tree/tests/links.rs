//! Files with more names than an inode lists.

#![allow(clippy::unwrap_used, reason = "a test that meets nothing where something must be fails")]

mod world;

use std::cell::Cell;
use wayfs_tree::{Author, BuildError, MemoryView, NameCursor, View, ViewMut, apply, build, has_name, inode, names_of};
use wayfs_types::request::Change;
use wayfs_types::{
    ConflictKind, FileId, FsError, Image, Inode, Key, Kind, Name, Place, RecordId, StorageError, UserId, WallTime,
};
use world::{World, name};

/// A file `f` with so many names more in `d`, known to two clients.
fn crowded(links: usize) -> (World, FileId) {
    let mut w = World::new(2);
    w.mkdir(0, "d");
    w.create(0, "f");
    w.write(0, "f", "text");
    for link in 0..links {
        w.link(0, "f", &format!("d/{link:02}"));
    }
    assert_eq!(w.settle(), []);
    let file = w.file(1, "f");
    (w, file)
}

fn shown(w: &World, file: FileId) -> Inode {
    Inode::clone(&inode(&w.home, file).unwrap().unwrap())
}

#[test]
fn an_inode_lists_few_names_and_the_file_has_them_all() {
    let (w, file) = crowded(20);
    let inode = shown(&w, file);
    assert_eq!((inode.links(), inode.places.len()), (21, Inode::LISTED_MAX));
    let names = names_of(&w.home, file, &inode).unwrap();
    assert_eq!(names.len(), 21);
    for place in &names {
        assert!(has_name(&w.home, file, &inode, place).unwrap(), "{place:?}");
    }
    let other = Place { parent: w.file(0, "d"), name: name("20") };
    assert!(!has_name(&w.home, file, &inode, &other).unwrap());
}

/// Whatever the order in which its names go, the file is there until the last of them went.
#[test]
fn a_file_is_removed_with_its_last_name_only() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let (mut w, file) = crowded(20);
        for third in order {
            for link in (0..21).filter(|link| link % 3 == third) {
                let before = shown(&w, file);
                assert!(!before.is_removed() && !before.places.is_empty(), "it always lists one: {before:?}");
                w.unlink(1, &if link == 20 { "f".to_owned() } else { format!("d/{link:02}") });
                assert_eq!(w.settle(), []);
            }
        }
        let gone = shown(&w, file);
        assert!(gone.is_removed() && gone.links() == 0, "{gone:?}");
        assert_eq!(w.listing(), ["d/"]);
    }
}

#[test]
fn names_that_are_not_listed_are_renamed_exchanged_and_replaced_like_others() {
    let (mut w, file) = crowded(20);
    w.rename(1, "d/19", "g");
    w.create(1, "other");
    w.exchange(1, "d/18", "other");
    w.create(1, "new");
    w.write(1, "new", "new");
    w.rename(1, "new", "d/17");
    // Somebody writes meanwhile: the file has other names, so nothing is lost by replacing one.
    w.write(0, "f", "more");
    assert_eq!(w.settle(), []);
    assert_eq!(shown(&w, file).links(), 20);
    assert_eq!((w.file(0, "g"), w.file(0, "other")), (file, file));
    assert!(w.listing().contains(&"d/17=new".to_owned()));
    assert!(w.listing().contains(&"g=more".to_owned()));
}

/// What its writer knows under the name that it gave, others know under the conflict name that it got.
#[test]
fn an_unlisted_name_that_became_a_conflict_name_is_followed() {
    let (mut w, file) = crowded(20);
    w.link(1, "f", "d/x.txt");
    w.rename(1, "d/x.txt", "d/y.txt");
    w.create(0, "d/x.txt");
    w.write(0, "d/x.txt", "first");
    w.send_all(0);
    let met: Vec<_> = w.send_all(1).iter().filter_map(wayfs_tree::Effect::conflict).collect();
    assert_eq!(met, [ConflictKind::CreateCreate]);
    w.refresh_all();
    assert_eq!(w.file(1, "d/y.txt"), file);
    assert_eq!(shown(&w, file).links(), 22);
    assert!(w.listing().contains(&"d/x.txt=first".to_owned()));
}

/// A view that counts what is read from it and written to it: images, and names.
struct Counted {
    view: MemoryView,
    images: Cell<usize>,
    names: Cell<usize>,
    puts: usize,
    /// Names listed in the largest inode that was written.
    listed: usize,
}

impl View for Counted {
    fn image(&self, key: &Key) -> Result<Option<Image>, StorageError> {
        self.images.set(self.images.get() + 1);
        self.view.image(key)
    }

    fn first_entry(&self, directory: FileId) -> Result<Option<Name>, StorageError> {
        self.names.set(self.names.get() + 1);
        self.view.first_entry(directory)
    }

    fn names_after(&self, file: FileId, cursor: &NameCursor, limit: usize) -> Result<Vec<Place>, StorageError> {
        self.names.set(self.names.get() + limit);
        self.view.names_after(file, cursor, limit)
    }
}

impl ViewMut for Counted {
    fn put(&mut self, key: Key, image: Option<Image>) -> Result<(), StorageError> {
        self.puts += 1;
        if let Some(Image::Inode(inode)) = &image {
            self.listed = self.listed.max(inode.places.len());
        }
        self.view.put(key, image)
    }
}

impl Counted {
    /// Makes a change. Answers how many images and names it read, and how many images it wrote.
    fn change(&mut self, sequence: u64, change: &Change) -> Result<[usize; 3], BuildError> {
        (self.puts, self.images, self.names) = (0, Cell::new(0), Cell::new(0));
        let id = RecordId::new(world::origin(0), sequence).unwrap();
        let author = Author { id, user: UserId(0), time: WallTime::from_nanos(sequence as i64) };
        let record = build(self, change, author)?;
        apply(self, &record)?;
        Ok([self.images.get(), self.names.get(), self.puts])
    }
}

/// Proves [S-many-names].
#[test]
fn a_file_gets_65_000_names_at_the_same_cost_each_and_no_more() {
    let view = world::volume(1);
    let mut counted = Counted { view, images: Cell::new(0), names: Cell::new(0), puts: 0, listed: 0 };
    let create =
        Change::Create { parent: FileId::ROOT, name: name("0"), kind: Kind::File, mode: 0o644, uid: 0, gid: 0 };
    counted.change(1, &create).unwrap();
    let file = FileId::made_by(RecordId::new(world::origin(0), 1).unwrap());
    let link = |number: usize| Change::Link { file, parent: FileId::ROOT, name: name(&number.to_string()) };
    let unlink = |number: usize| Change::Unlink { parent: FileId::ROOT, name: name(&number.to_string()) };
    let all = Inode::LINKS_MAX;
    assert!(all >= 65_000, "{all}");
    let costs: Vec<_> = (1..all).map(|number| counted.change(1 + number as u64, &link(number)).unwrap()).collect();
    let inode = inode(&counted.view, file).unwrap().unwrap();
    assert_eq!((inode.links() as usize, counted.listed), (all, Inode::LISTED_MAX));
    // As soon as one more is not listed, each costs what the one before it did.
    let early = costs[Inode::LISTED_MAX];
    assert!(costs[Inode::LISTED_MAX..].iter().all(|cost| *cost == early), "{early:?}, {:?} at the end", costs.last());
    let refused = counted.change(1 + all as u64, &link(all));
    assert!(matches!(refused, Err(BuildError::Refused(FsError::TooManyLinks))), "{refused:?}");
    // Taking them away costs no more at the begin than near the end, listed or not.
    let costs: Vec<_> =
        (1..all).map(|number| counted.change(1 + (all + number) as u64, &unlink(number)).unwrap()).collect();
    let most = |costs: &[[usize; 3]]| [0, 1, 2].map(|at| costs.iter().map(|cost| cost[at]).max().unwrap());
    let (begin, end) = costs.split_at(all / 2);
    assert_eq!(most(begin), most(end));
    assert_eq!(wayfs_tree::inode(&counted.view, file).unwrap().unwrap().links(), 1);
}
