//! Files with more names than an inode lists, between replicas.

use super::forking::stay_connected;
use super::sharing::site;
use super::world::{HOME, World, name, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Outcome, Request, XattrPresence};
use wayfs_types::{FileId, Inode, XattrName};

const ROOT: FileId = FileId::ROOT;

fn link(world: &mut World, host: usize, file: FileId, (parent, text): (FileId, &str)) {
    world.change(host, Change::Link { file, parent, name: name(text) }).unwrap();
}

fn unlink(world: &mut World, host: usize, parent: FileId, text: &str) {
    world.change(host, Change::Unlink { parent, name: name(text) }).unwrap();
}

/// A file with a name in each of so many directories, and these.
fn crowded(world: &mut World, host: usize, directories: usize) -> (FileId, Vec<FileId>) {
    let made: Vec<FileId> = (0..directories).map(|number| world.mkdir(host, ROOT, &format!("d{number:02}"))).collect();
    let file = world.create(host, made[0], "n");
    for directory in &made[1..] {
        link(world, host, file, (*directory, "n"));
    }
    (file, made)
}

fn look(world: &mut World, host: usize, directory: FileId) -> Inode {
    Inode::clone(&world.lookup(host, directory, "n").unwrap().1)
}

/// Two who each look at one of its names, none of which it lists, see what the other closed before.
#[test]
fn who_looks_at_a_name_that_is_not_listed_sees_what_was_closed() {
    let (mut world, a, b) = site();
    let (file, made) = crowded(&mut world, a, 12);
    let inode = look(&mut world, b, made[11]);
    assert_eq!((inode.links(), inode.places.len()), (12, Inode::LISTED_MAX));
    assert!(inode.places.iter().all(|place| place.parent != made[11] && place.parent != made[10]));
    for turn in 0..5 {
        for (writer, reader, directory) in [(a, b, made[11]), (b, a, made[10])] {
            let content = small(&format!("{turn} of {writer}"));
            world.store(writer, file, content.clone());
            assert_eq!(look(&mut world, reader, directory).content, content);
        }
        // Of all names in one listing, too.
        world.store(a, file, small(&format!("listed {turn}")));
        match world.ask(b, Request::List { directory: made[11], after: None, limit: 9 }).unwrap() {
            Answer::List { entries, .. } => assert_eq!(entries[0].2.content, small(&format!("listed {turn}"))),
            other => panic!("unexpected {other:?}"),
        }
    }
    world.pass(Duration::from_secs(5));
    world.assert_agrees(a);
    world.assert_agrees(b);
    assert!(world.hosts[HOME].replica.conflicts(None, 9).unwrap().is_empty());
}

/// Who has a directory listed hears of a name that a file gets there and does not list, and what it stands for.
#[test]
fn a_name_that_is_not_listed_appears_in_a_listing() {
    let (mut world, a, b) = site();
    let made = world.mkdir(a, ROOT, "d");
    assert_eq!(world.names(b, ROOT).unwrap(), ["d"]);
    let file = world.create(a, made, "n");
    for text in ["1", "2", "3"] {
        link(&mut world, a, file, (made, text));
    }
    link(&mut world, a, file, (ROOT, "unlisted"));
    assert_eq!(world.names(b, ROOT).unwrap(), ["d", "unlisted"]);
    let line = world.line_of(b);
    world.close(line);
    link(&mut world, a, file, (ROOT, "more"));
    world.connect(b, HOME);
    world.settle();
    let line = world.line_of(b);
    world.close(line);
    world.pass(Duration::from_secs(20));
    assert_eq!(world.names(b, ROOT).unwrap(), ["d", "more", "unlisted"], "offline");
}

/// Who works at it alone waits for nobody, and who looked once is not asked again while nobody changes it.
#[test]
fn a_file_with_many_names_that_one_client_uses_alone_waits_for_nobody() {
    let (mut world, a, b) = site();
    let (file, made) = crowded(&mut world, a, 12);
    world.settle();
    let line = world.line_of(a);
    world.stall(line, true);
    for (number, directory) in made.iter().enumerate() {
        let change = Change::Link { file, parent: *directory, name: name(&format!("more{number}")) };
        let id = world.request(a, Request::Change { user: 0, change });
        assert!(matches!(world.answer(a, id), Some(Outcome::Ok(_))), "link {number} waited for the parent");
    }
    world.stall(line, false);
    world.settle();
    look(&mut world, b, made[11]);
    let line = world.line_of(b);
    world.stall(line, true);
    let id = world.request(b, Request::Lookup { parent: made[11], name: name("n") });
    assert!(matches!(world.answer(b, id), Some(Ok(_))), "nobody changes it meanwhile: nothing is asked");
}

/// A station and a client that come later have all of the names, and names that go leave others in their place.
#[test]
fn replicas_that_come_later_know_all_names() {
    let (mut world, a, _) = site();
    let (file, made) = crowded(&mut world, a, 12);
    world.pass(Duration::from_secs(3));
    let station = world.add(Role::Station, "st@s");
    world.connect(station, HOME);
    world.settle();
    let late = world.add(Role::Client, "late@l");
    world.connect(late, station);
    world.settle();
    assert_eq!(world.hosts[station].replica.names_of(file).unwrap().len(), 12);
    world.assert_agrees(station);
    // The listed ones first, by somebody who knows no other.
    for directory in &made[..8] {
        unlink(&mut world, late, *directory, "n");
    }
    world.pass(Duration::from_secs(5));
    for host in [HOME, station] {
        world.check_tree(host);
        let inode = world.hosts[host].replica.inode(file).unwrap().unwrap();
        assert_eq!((inode.links(), inode.places.is_empty()), (4, false), "host {host}");
        assert_eq!(world.hosts[host].replica.names_of(file).unwrap().len(), 4);
    }
    world.assert_agrees(station);
    world.assert_agrees(late);
    assert_eq!(look(&mut world, late, made[9]).links(), 4);
}

/// [S-home-put-back] Which names a file had is known from the directories, when its inode does not list them.
#[test]
fn names_that_a_home_lost_come_back() {
    let mut world = World::new();
    world.restore(HOME, crate::testing::MemoryStore::new(), 3);
    world.settle();
    let (station, ann) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, ann, station);
    let (file, made) = crowded(&mut world, ann, 12);
    world.store(ann, file, small("old"));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    unlink(&mut world, ann, made[11], "n");
    unlink(&mut world, ann, made[0], "n");
    link(&mut world, ann, file, (made[5], "more"));
    link(&mut world, ann, file, (made[6], "more"));
    world.rename(ann, (made[9], "n"), (made[9], "moved")).unwrap();
    let (whole, places) = crowded_beside(&mut world, ann, &made);
    world.pass(Duration::from_secs(3));
    let names = world.hosts[HOME].replica.names_of(file).unwrap();
    assert_eq!(names.len(), 12);
    world.restore(HOME, copy, 4);
    for _ in 0..8 {
        for (child, parent) in [(station, HOME), (ann, station)] {
            if !world.has_session(child) {
                world.connect(child, parent);
            }
        }
        world.pass(Duration::from_secs(3));
    }
    for host in [HOME, station] {
        world.check_tree(host);
        assert_eq!(world.hosts[host].replica.names_of(file).unwrap(), names, "host {host}");
        let (again, inode) = world.lookup(host, made[0], "whole").unwrap();
        assert_ne!(again, whole, "it is made again");
        assert_eq!(inode.links(), 8, "host {host}");
        let all = world.hosts[host].replica.names_of(again).unwrap();
        assert_eq!(all.iter().map(|place| place.parent).collect::<Vec<_>>(), places, "host {host}");
    }
    world.assert_agrees(station);
    assert_eq!(world.hosts[HOME].replica.conflicts(None, 10).unwrap(), [], "nothing met anything");
}

/// Another such file under the name `whole`; answers where it stands.
fn crowded_beside(world: &mut World, host: usize, made: &[FileId]) -> (FileId, Vec<FileId>) {
    let file = world.create(host, made[0], "whole");
    for directory in &made[1..8] {
        link(world, host, file, (*directory, "whole"));
    }
    (file, made[..8].to_vec())
}

/// The home decides of a file as soon as one of its names, listed or not, is in an exclusive directory.
#[test]
fn a_name_that_is_not_listed_in_an_exclusive_directory_counts() {
    let (mut world, a, b) = site();
    let (file, made) = crowded(&mut world, a, 12);
    assert!(!world.hosts[a].replica.is_the_homes(file).unwrap());
    let change = Change::SetXattr {
        file: made[11],
        name: XattrName::new(Inode::EXCLUSIVE).unwrap(),
        value: Some("1".into()),
        presence: XattrPresence::Any,
    };
    world.change(a, change).unwrap();
    assert!(world.hosts[a].replica.is_the_homes(file).unwrap());
    look(&mut world, b, made[11]);
    assert!(world.hosts[b].replica.is_the_homes(file).unwrap());
    unlink(&mut world, a, made[11], "n");
    assert!(!world.hosts[a].replica.is_the_homes(file).unwrap());
}
