//! Two records that bear one number: what a client wrote before its store was put back to a copy, and what it wrote after that.

use super::forking::{stay_connected, was_renewed};
use super::put_back::{first_life, rejoin};
use super::world::{HOME, World, name, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level};
use wayfs_types::{FileId, RecordId};

const ROOT: FileId = FileId::ROOT;

/// Two stores bear one number: what a client wrote before its store was put back to a copy, and what it wrote after that, in a life
/// that draws the same place. `second`: into which file. Answers that number, and the client.
fn namesakes(second: &str) -> (World, usize, RecordId) {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "ben@b"));
    stay_connected(&mut world, b, HOME);
    stay_connected(&mut world, a, HOME);
    let first = world.create(b, ROOT, "first");
    world.create(b, ROOT, "second");
    world.pass(Duration::from_secs(2));
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    let copy = world.snapshot(a);
    world.restore(a, copy.clone(), 77);
    let peer = stay_connected(&mut world, a, HOME);
    let version = world.store(a, first, small("before"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.close(peer);
    world.restore(a, copy, 77 + (1 << 18));
    let into = world.lookup(a, ROOT, second).unwrap().0;
    assert_eq!(world.store(a, into, small("after")), version, "one number for both");
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(3));
    assert!(was_renewed(&world, a).is_some(), "it gives way");
    (world, a, version)
}

/// [S-old-copy] What is stored upon the version that a file shows is upon that one, not upon what its namesake was written again as.
#[test]
fn what_is_stored_upon_a_version_is_not_taken_for_one_upon_its_namesake() {
    let (mut world, a, version) = namesakes("second");
    let (file, shown) = world.lookup(a, ROOT, "first").unwrap();
    assert_eq!((shown.version, &shown.content), (version, &small("before")));
    world.store(a, file, small("upon it"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["first", "second"], "no copies");
    for (text, content) in [("first", "upon it"), ("second", "after")] {
        assert_eq!(world.lookup(HOME, ROOT, text).unwrap().1.content, small(content));
    }
}

/// Both are stores into one file, so what a program has open bears the number of what it wrote itself: it has not seen the other.
#[test]
fn what_is_stored_upon_a_namesake_in_the_same_file_goes_on_in_its_copy() {
    let (mut world, a, version) = namesakes("first");
    let file = world.lookup(a, ROOT, "first").unwrap().0;
    let change = Change::Store { file, base: version, content: small("upon it"), mtime: world.wall() };
    world.change(a, change).unwrap();
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(HOME, ROOT, "first").unwrap().1.content, small("before"));
    let names = world.names(HOME, ROOT).unwrap();
    assert_eq!(names.len(), 3, "{names:?}");
}

/// It is so after a restart, and when the copy is gone without a trace: what a program closed before is committed by the next mount.
#[test]
fn what_was_stored_upon_a_namesake_does_not_replace_it_after_a_restart() {
    for (is_removed, restarts) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut world, a, version) = namesakes("first");
        let file = world.lookup(a, ROOT, "first").unwrap().0;
        if is_removed {
            forget_copy(&mut world, a);
        }
        if restarts {
            let store = world.snapshot(a);
            world.restore(a, store, 500);
            stay_connected(&mut world, a, HOME);
        }
        let change = Change::Store { file, base: version, content: small("upon it"), mtime: world.wall() };
        world.change(a, change).unwrap();
        world.pass(Duration::from_secs(3));
        let shown = world.lookup(HOME, ROOT, "first").unwrap().1.content.clone();
        assert_eq!(shown, small("before"), "copy removed: {is_removed}, restarted: {restarts}");
    }
}

/// Removes the copy that a store became, until nobody knows that it ever was.
fn forget_copy(world: &mut World, a: usize) {
    let names = world.names(a, ROOT).unwrap();
    let copy = names.iter().find(|name| !["first", "second"].contains(&name.as_str())).unwrap().clone();
    let file = world.lookup(a, ROOT, &copy).unwrap().0;
    world.configure(HOME, |config| config.tombstones_kept = 1);
    world.change(a, Change::Unlink { parent: ROOT, name: name(&copy) }).unwrap();
    for number in 0..6 {
        world.create(a, ROOT, &format!("later-{number}"));
        world.pass(Duration::from_secs(3));
    }
    assert!(world.hosts[a].replica.inode(file).unwrap().is_none(), "no trace of it is left");
}

/// A client's store is put back to a copy, and what it writes then (`second`) bears the number of what it had written before (`first`)
/// and the home has. It gives way, and does `more`; then the home is put back to before that, and both meet again.
fn home_goes_back(
    first: fn(&mut World, usize) -> RecordId,
    second: fn(&mut World, usize) -> RecordId,
    more: fn(&mut World, usize),
) -> World {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, a, HOME);
    for text in ["one", "two"] {
        world.create(a, ROOT, text);
    }
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    let store = world.snapshot(a);
    world.restore(a, store.clone(), 77);
    let peer = stay_connected(&mut world, a, HOME);
    let version = first(&mut world, a);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.close(peer);
    world.restore(a, store, 77 + (1 << 18));
    assert_eq!(second(&mut world, a), version, "one number for both");
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(3));
    assert!(was_renewed(&world, a).is_some(), "it gives way");
    world.names(a, ROOT).unwrap();
    world.lookup(a, ROOT, "one").unwrap();
    let copy = world.snapshot(HOME);
    more(&mut world, a);
    world.restore(HOME, copy, 4);
    rejoin(&mut world, &[(a, HOME)]);
    world.check_tree(HOME);
    world
}

fn store_into(world: &mut World, host: usize, text: &str, content: &str) -> RecordId {
    let file = world.lookup(host, ROOT, text).unwrap().0;
    world.store(host, file, small(content))
}

fn before_into_one(world: &mut World, a: usize) -> RecordId {
    store_into(world, a, "one", "before")
}

fn after_into_two(world: &mut World, a: usize) -> RecordId {
    store_into(world, a, "two", "after")
}

fn make_stable(world: &mut World, host: usize, text: &str) {
    world.create(host, ROOT, text);
    assert_eq!(world.wait(host, Level::Stable), Ok(Answer::Reached));
}

/// [S-home-put-back] What is written again is upon the version that the file shows, not upon what its namesake is called now.
#[test]
fn a_version_is_not_taken_for_its_namesake_when_what_was_stored_upon_it_is_written_again() {
    let mut world = home_goes_back(before_into_one, after_into_two, |world, a| {
        make_stable(world, a, "three");
        let line = world.line_of(a);
        world.close(line);
        store_into(world, a, "one", "upon it");
    });
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["one", "three", "two"], "no copies");
    for (text, content) in [("one", "upon it"), ("two", "after")] {
        assert_eq!(world.lookup(HOME, ROOT, text).unwrap().1.content, small(content));
    }
}

/// [S-home-put-back] A file is removed again by whoever had seen what it shows.
#[test]
fn a_version_is_not_taken_for_its_namesake_when_its_file_is_removed_again() {
    let mut world = home_goes_back(before_into_one, after_into_two, |world, a| {
        world.change(a, Change::Unlink { parent: ROOT, name: name("one") }).unwrap();
        assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    });
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["two"]);
}

/// [S-home-put-back] What was made in a directory is made in it again.
#[test]
fn a_directory_is_not_taken_for_its_namesake_when_what_a_home_lost_is_made_again() {
    let mut world = home_goes_back(
        |world, a| world.mkdir(a, ROOT, "directory").maker(),
        |world, a| world.mkdir(a, ROOT, "another").maker(),
        |world, a| {
            let directory = world.lookup(a, ROOT, "directory").unwrap().0;
            world.names(a, directory).unwrap();
            world.create(a, directory, "within");
            assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
        },
    );
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["another", "directory", "one", "two"]);
    for (text, within) in [("directory", &["within"][..]), ("another", &[])] {
        let directory = world.lookup(HOME, ROOT, text).unwrap().0;
        assert_eq!(world.names(HOME, directory).unwrap(), within, "{text}");
    }
}
