use super::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

const LEN: u64 = 16 * 1024;

/// Directories with files of 8 KiB.
#[derive(Default)]
struct Fake {
    places: BTreeMap<FileId, (FileId, Name)>,
    directories: BTreeMap<FileId, BTreeMap<Name, Node>>,
    here: RefCell<BTreeSet<Digest>>,
}

impl Fake {
    fn id(&self) -> FileId {
        FileId::made_by(RecordId::new(wayfs_types::OriginId::new(2).unwrap(), self.places.len() as u64 + 1).unwrap())
    }

    fn add(&mut self, parent: FileId, name: &str, node: impl FnOnce(FileId) -> Node) -> FileId {
        let (file, name) = (self.id(), Name::new(name.as_bytes()).unwrap());
        self.places.insert(file, (parent, name.clone()));
        self.directories.entry(parent).or_default().insert(name, node(file));
        file
    }

    fn directory(&mut self, parent: FileId, name: &str) -> FileId {
        self.add(parent, name, Node::Directory)
    }

    fn file(&mut self, parent: FileId, name: &str) -> FileId {
        self.add(parent, name, |file| {
            let version = RecordId::new(wayfs_types::OriginId::new(2).unwrap(), 1).unwrap();
            Node::File(SmallFile { file, version, digest: digest(file), len: LEN })
        })
    }

    /// Fetches as long as there is room; gives the files.
    fn fetch(&self, ahead: &mut TreeAhead, now: Instant) -> Vec<FileId> {
        let fetched: Vec<FileId> = std::iter::from_fn(|| ahead.next(now, self)).map(|next| next.file).collect();
        self.here.borrow_mut().extend(fetched.iter().map(|file| digest(*file)));
        fetched
    }
}

impl Tree for Fake {
    fn place(&self, file: FileId) -> Option<(FileId, Name)> {
        self.places.get(&file).cloned()
    }

    fn entries(&self, directory: FileId, after: Option<&Name>) -> Vec<(Name, Node)> {
        let entries = self.directories.get(&directory).into_iter().flatten();
        let entries = entries.filter(|(name, _)| after.is_none_or(|after| *name > after));
        entries.take(2).map(|(name, node)| (name.clone(), node.clone())).collect()
    }

    fn has(&self, digest: &Digest) -> bool {
        self.here.borrow().contains(digest)
    }
}

fn digest(file: FileId) -> Digest {
    Digest::of(file.to_string().as_bytes())
}

/// `project/` with 4 files, then `one/` with 20, `two/` with 20.
fn project() -> (Fake, Vec<FileId>) {
    let mut fake = Fake::default();
    let project = fake.directory(FileId::ROOT, "project");
    let mut files: Vec<FileId> = (0..4).map(|n| fake.file(project, &format!("a{n}"))).collect();
    for name in ["one", "two"] {
        let directory = fake.directory(project, name);
        files.extend((0..20).map(|n| fake.file(directory, &format!("f{n:02}"))));
    }
    (fake, files)
}

#[test]
fn one_file_begins_no_walk_and_neither_do_two_of_different_trees() {
    let (mut fake, files) = project();
    let other = fake.directory(FileId::ROOT, "rest");
    let beside = fake.file(other, "g");
    let (mut ahead, now) = (TreeAhead::default(), Instant::now());
    ahead.missed(now, files[0], &fake);
    ahead.missed(now, files[0], &fake);
    ahead.missed(now, beside, &fake);
    assert!(!ahead.is_walking());
    ahead.missed(now + IDLE, files[5], &fake);
    assert!(!ahead.is_walking(), "long ago is no walk");
}

#[test]
fn who_waited_lately_is_expected_to_wait_again_unless_it_was_quick() {
    let (fake, files) = project();
    let (mut ahead, now) = (TreeAhead::default(), Instant::now());
    assert!(!ahead.has_missed(now, files[0]));
    ahead.missed(now, files[0], &fake);
    assert!(!ahead.has_missed(now, files[0]), "that is the one");
    assert!(ahead.has_missed(now, files[1]));
    assert!(!ahead.has_missed(now + IDLE, files[1]));
    ahead.was_quick(files[1]);
    assert!(ahead.has_missed(now, files[1]), "that was another");
    ahead.was_quick(files[0]);
    assert!(!ahead.has_missed(now, files[1]));
}

#[test]
fn files_of_directories_near_each_other_begin_a_walk() {
    let (fake, files) = project();
    let (mut ahead, now) = (TreeAhead::default(), Instant::now());
    ahead.missed(now, files[1], &fake);
    ahead.missed(now, files[4], &fake);
    let fetched = fake.fetch(&mut ahead, now);
    assert_eq!(fetched, files[5..13], "it goes on where the reader is");
    fetched.iter().for_each(|file| assert!(ahead.read(now, &digest(*file))));
    fake.here.borrow_mut().extend(files[13..24].iter().map(|file| digest(*file)));
    assert_eq!(fake.fetch(&mut ahead, now), files[24..], "and into the directory beside it");
}

#[test]
fn a_walk_fetches_what_comes_next_and_opens_its_window_as_it_is_read() {
    let (fake, files) = project();
    let (mut ahead, now) = (TreeAhead::default(), Instant::now());
    ahead.missed(now, files[0], &fake);
    ahead.missed(now, files[1], &fake);
    let first = fake.fetch(&mut ahead, now);
    assert_eq!(first, files[2..10], "128 KiB, also from the directory below");
    assert!(ahead.next(now, &fake).is_none());
    assert!(ahead.read(now, &digest(first[0])));
    assert!(!ahead.read(now, &digest(first[0])), "counted once");
    assert_eq!(fake.fetch(&mut ahead, now), files[10..13], "twice what was read comes on top");
    for file in &files[3..13] {
        ahead.read(now, &digest(*file));
    }
    assert_eq!(fake.fetch(&mut ahead, now), files[13..43], "128 KiB and twice 176 KiB");
}

#[test]
fn what_is_here_is_passed_by() {
    let (fake, files) = project();
    let (mut ahead, now) = (TreeAhead::default(), Instant::now());
    fake.here.borrow_mut().extend(files[2..42].iter().map(|file| digest(*file)));
    ahead.missed(now, files[0], &fake);
    ahead.missed(now, files[1], &fake);
    assert_eq!(fake.fetch(&mut ahead, now), files[42..]);
}

#[test]
fn a_walk_leaves_the_directory_that_it_began_in_when_it_was_of_use() {
    let (fake, files) = project();
    let (mut ahead, now) = (TreeAhead::default(), Instant::now());
    ahead.missed(now, files[4], &fake);
    ahead.missed(now, files[5], &fake);
    let mut fetched = Vec::new();
    // Two rounds are one directory.
    for _ in 0..8 {
        let more = fake.fetch(&mut ahead, now);
        more.iter().for_each(|file| assert!(ahead.read(now, &digest(*file))));
        fetched.extend(more);
    }
    assert_eq!(fetched, files[6..], "the rest of one/, then two/ beside it");
}

#[test]
fn a_walk_that_nobody_follows_ends() {
    let (fake, files) = project();
    let (mut ahead, now) = (TreeAhead::default(), Instant::now());
    ahead.missed(now, files[0], &fake);
    ahead.missed(now, files[1], &fake);
    assert!(ahead.next(now, &fake).is_some());
    assert!(ahead.next(now + IDLE, &fake).is_none());
    assert!(!ahead.is_walking());
}

#[test]
fn a_miss_below_the_walk_keeps_it_and_one_elsewhere_may_begin_another() {
    let (mut fake, files) = project();
    let other = fake.directory(FileId::ROOT, "rest");
    let beside: Vec<FileId> = (0..3).map(|n| fake.file(other, &format!("g{n}"))).collect();
    let (mut ahead, now) = (TreeAhead::default(), Instant::now());
    ahead.missed(now, files[0], &fake);
    ahead.missed(now, files[1], &fake);
    ahead.missed(now, files[30], &fake);
    ahead.missed(now, files[31], &fake);
    assert_eq!(ahead.next(now, &fake).unwrap().file, files[2], "it is on its way");
    ahead.missed(now, beside[0], &fake);
    ahead.missed(now, beside[1], &fake);
    assert_eq!(fake.fetch(&mut ahead, now), beside[2..]);
}
