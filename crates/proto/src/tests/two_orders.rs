//! Two stations got the records of two writers in two orders, so that one store is an edit to the one and a copy beside the file to
//! the other; then the home is put back, and takes it as the first of them to come has it.

use super::forking::stay_connected;
use super::world::{HOME, World, small};
use crate::Role;
use crate::testing::MemoryStore;
use std::time::Duration;
use wayfs_types::{Content, FileId};

const ROOT: FileId = FileId::ROOT;

struct Volume {
    world: World,
    ann: usize,
    bob: usize,
    /// Has what both stored into the file: of Bob's a copy beside it.
    both: usize,
    /// Has what Bob stored, as the file's.
    bobs: usize,
    file: FileId,
    /// The home's store as it was before either stored.
    copy: MemoryStore,
}

impl Volume {
    /// Neither has been to the home with it.
    fn new() -> Self {
        let mut world = World::new();
        world.restore(HOME, MemoryStore::new(), 3);
        world.settle();
        let (both, bobs) = (world.add(Role::Station, "one@s"), world.add(Role::Station, "two@s"));
        let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
        for (child, parent) in [(both, HOME), (bobs, HOME), (ann, both), (bob, both)] {
            stay_connected(&mut world, child, parent);
        }
        let file = world.create(ann, ROOT, "file");
        world.store(ann, file, small("first"));
        world.pass(Duration::from_secs(3));
        world.lookup(bob, ROOT, "file").unwrap();
        let copy = world.snapshot(HOME);
        for child in [both, bobs, bob] {
            let line = world.line_of(child);
            world.close(line);
        }
        world.store(bob, file, small("bobs"));
        world.store(ann, file, small("anns"));
        let line = stay_connected(&mut world, bob, both);
        world.pass(Duration::from_secs(3));
        world.close(line);
        stay_connected(&mut world, bob, bobs);
        world.pass(Duration::from_secs(3));
        Self { world, ann, bob, both, bobs, file, copy }
    }

    /// The home hears what a station has, and the station that it is stable.
    fn bring_home(&mut self, station: usize) {
        let line = stay_connected(&mut self.world, station, HOME);
        self.world.pass(Duration::from_secs(3));
        self.world.close(line);
    }

    /// One station comes, then the other. What both clients wrote is there. They do not come: they would write it again.
    fn come_back_to_the_copy(&mut self, first: usize, second: usize) {
        for client in [self.ann, self.bob] {
            self.world.destroy(client);
        }
        self.world.restore(HOME, self.copy.clone(), 4);
        for station in [first, second] {
            for _ in 0..4 {
                if !self.world.has_session(station) {
                    self.world.connect(station, HOME);
                }
                self.world.pass(Duration::from_secs(3));
            }
        }
    }

    fn assert_both_are_there(&mut self) {
        let names = self.assert_there(&["anns", "bobs"]);
        assert_eq!(names.len(), 2, "the file, and one copy beside it: {names:?}");
    }

    /// Answers which names there are.
    fn assert_there(&mut self, contents: &[&str]) -> Vec<String> {
        let names = self.world.names(HOME, ROOT).unwrap();
        let mut there: Vec<Content> = Vec::new();
        for text in &names {
            there.push(self.world.lookup(HOME, ROOT, text).unwrap().1.content.clone());
        }
        for text in contents {
            assert!(there.contains(&small(text)), "{text} is lost: {names:?} with {there:?}");
        }
        self.world.check_tree(HOME);
        names
    }
}

/// Seed 9607024: a station that had an edit took the copy that the home made of it for something that had been removed.
#[test]
fn a_copy_is_not_taken_for_what_was_removed() {
    let mut volume = Volume::new();
    let (both, bobs) = (volume.both, volume.bobs);
    volume.bring_home(bobs);
    assert_eq!(volume.world.lookup(HOME, ROOT, "file").unwrap().0, volume.file);
    volume.come_back_to_the_copy(both, bobs);
    volume.assert_both_are_there();
}

/// The other way round: a station that had a copy beside the file took the edit that the home made of it for what its own file had
/// been before, and put that in its place.
#[test]
fn an_edit_is_not_taken_for_what_came_before_the_file_beside_which_it_was_a_copy() {
    let mut volume = Volume::new();
    let (both, bobs) = (volume.both, volume.bobs);
    volume.bring_home(both);
    assert_eq!(volume.world.names(HOME, ROOT).unwrap().len(), 2);
    volume.come_back_to_the_copy(bobs, both);
    volume.assert_both_are_there();
}

/// As before, and somebody had written to the copy: the home has the record that made it, and nothing of the copy.
#[test]
fn what_was_stored_into_a_copy_is_not_lost_with_it() {
    let mut volume = Volume::new();
    let (both, bobs, ann, file) = (volume.both, volume.bobs, volume.ann, volume.file);
    volume.bring_home(both);
    let names = volume.world.names(ann, ROOT).unwrap();
    let mut files = names.iter().map(|text| volume.world.lookup(ann, ROOT, text).unwrap().0);
    let copy = files.find(|found| *found != file).expect("a copy beside it");
    volume.world.store(ann, copy, small("more"));
    volume.world.pass(Duration::from_secs(3));
    volume.bring_home(both);
    volume.assert_there(&["anns", "more"]);
    volume.come_back_to_the_copy(bobs, both);
    volume.assert_there(&["anns", "more"]);
}
