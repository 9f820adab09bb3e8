//! What programs still name by the numbers that records had before they were written again.

use super::forking::{named, stay_connected, was_renewed, write};
use super::world::{HOME, World, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Change, Level, Request};
use wayfs_types::{FileId, Life, RecordId};

const ROOT: FileId = FileId::ROOT;

/// A copy of a client's store that stored into a file and is not connected. The original stored into it, too, and the home has that
/// by the number of both.
struct Copied {
    world: World,
    copy: usize,
    file: FileId,
    /// What the copy stored.
    version: RecordId,
}

impl Copied {
    /// `stored`: what the copy stored, one upon the other.
    fn new(stored: &[&str]) -> Self {
        let mut world = World::new();
        let a = world.add(Role::Client, "ann@a");
        world.configure(a, |config| config.life = Life(5));
        stay_connected(&mut world, a, HOME);
        world.names(a, ROOT).unwrap();
        let file = world.create(a, ROOT, "file");
        world.store(a, file, small("common"));
        world.wait(a, Level::Stable).unwrap();
        world.pass(Duration::from_secs(3));
        let store = world.snapshot(a);
        // The copy takes a few numbers for what a crash took from it.
        write(&mut world, a, &named("more", 50));
        world.store(a, file, small("original"));
        world.wait(a, Level::Stable).unwrap();
        let copy = world.clone_of(a, store, 200_003);
        let versions: Vec<RecordId> = stored.iter().map(|text| world.store(copy, file, small(text))).collect();
        Self { world, copy, file, version: versions[0] }
    }

    /// A program that has the first of what the copy stored open goes on from that.
    fn goes_on(&self) -> Request {
        let (file, base, mtime) = (self.file, self.version, self.world.wall());
        let change = Change::Store { file, base, content: small("upon it"), mtime };
        Request::Change { user: 0, change }
    }

    /// What the original stored is in the file yet, and what the copy did beside it.
    fn assert_all_there(&mut self, contents: &[&str]) {
        self.world.pass(Duration::from_secs(3));
        assert!(was_renewed(&self.world, self.copy).is_some(), "the copy gives way");
        let names = self.world.names(HOME, ROOT).unwrap().into_iter().filter(|text| text.starts_with("file"));
        let there: Vec<_> = names.map(|text| self.world.lookup(HOME, ROOT, &text).unwrap().1.content.clone()).collect();
        assert_eq!(self.world.lookup(HOME, ROOT, "file").unwrap().1.content, small("original"), "{there:?}");
        for text in contents {
            assert!(there.contains(&small(text)), "{text} is lost: {there:?}");
        }
        assert_eq!(there.len(), 1 + contents.len(), "{there:?}");
    }
}

/// [S-clone] The simulator found it (seed 9813272): a request that waited while the history forked named what it was about by the former
/// number, and so what the home had of the original was taken for what it was made upon.
#[test]
fn what_waits_while_a_history_forks_is_upon_what_was_written_again() {
    let mut copied = Copied::new(&["mine"]);
    let request = copied.goes_on();
    let world = &mut copied.world;
    world.hosts[copied.copy].chunks.extend(small("upon it").root());
    world.connect(copied.copy, HOME);
    let id = world.request(copied.copy, request);
    assert_eq!(world.answer(copied.copy, id), None, "it waits for the session");
    world.settle();
    stay_connected(world, copied.copy, HOME);
    let answer = world.answer(copied.copy, id);
    assert!(matches!(answer, Some(Ok(_))), "{answer:?}");
    copied.assert_all_there(&["upon it"]);
}

/// [S-clone] What the copy stored over is not written again, so nothing bears a name of it: what goes on from it has seen nothing of
/// what the home has.
#[test]
fn what_goes_on_from_what_was_stored_over_before_a_fork_is_upon_nothing_that_the_home_has() {
    let mut copied = Copied::new(&["mine", "over"]);
    let request = copied.goes_on();
    stay_connected(&mut copied.world, copied.copy, HOME);
    copied.world.hosts[copied.copy].chunks.extend(small("upon it").root());
    let answer = copied.world.ask(copied.copy, request);
    assert!(answer.is_ok(), "{answer:?}");
    copied.assert_all_there(&["over", "upon it"]);
}
