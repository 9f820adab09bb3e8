//! What people are told of changes: the same at clients, stations and homes.

use super::world::{HOME, World, name, small};
use crate::{Happened, Happening, Output, Role};
use wayfs_types::request::Change;
use wayfs_types::{FileId, Place};

fn told(world: &World, host: usize, from: usize) -> Vec<Happening> {
    let events = world.hosts[host].events[from..].iter();
    events.filter_map(|output| if let Output::Happened(what) = output { Some(what.clone()) } else { None }).collect()
}

fn place(parent: FileId, text: &str) -> Option<Place> {
    Some(Place { parent, name: name(text) })
}

/// Proves [S-events].
#[test]
fn all_replicas_tell_the_same_of_a_change() {
    let mut world = World::new();
    let station = world.add(Role::Station, "site");
    let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(station, HOME);
    world.connect(ann, station);
    world.connect(bob, HOME);
    world.settle();
    let directory = world.mkdir(ann, FileId::ROOT, "d");
    world.settle();
    world.lookup(bob, FileId::ROOT, "d").unwrap();
    assert!(world.names(bob, directory).unwrap().is_empty());
    let all = [HOME, station, ann, bob];
    let before = all.map(|host| world.hosts[host].events.len());

    let file = world.create(ann, directory, "f");
    world.settle();
    let stored = world.store(ann, file, small("hello"));
    world.settle();
    world.rename(bob, (directory, "f"), (directory, "g")).unwrap();
    world.settle();
    let unlink = Change::Unlink { parent: directory, name: name("g") };
    let (removed, ..) = world.change(bob, unlink).unwrap();
    world.settle();

    for (host, from) in all.into_iter().zip(before) {
        let told = told(&world, host, from);
        let what: Vec<_> = told.iter().map(|one| (one.what.clone(), one.place.clone(), one.size)).collect();
        let from = place(directory, "f").unwrap();
        let expected = vec![
            (Happened::Created, place(directory, "f"), Some(0)),
            (Happened::Edited, None, Some(5)),
            (Happened::Renamed { from }, place(directory, "g"), Some(5)),
            (Happened::Removed, place(directory, "g"), None),
        ];
        assert_eq!(what, expected, "host {host}");
        assert!(told.iter().all(|one| one.file == file && !one.is_directory), "host {host}: {told:?}");
        assert_eq!([told[0].by, told[1].by, told[3].by], [Some(file.maker()), Some(stored), Some(removed)]);
    }
}

#[test]
fn what_is_found_at_a_first_look_did_not_happen() {
    let mut world = World::new();
    let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(ann, HOME);
    world.connect(bob, HOME);
    world.settle();
    let directory = world.mkdir(ann, FileId::ROOT, "d");
    for number in 0..70 {
        world.create(ann, directory, &format!("f{number}"));
    }
    world.settle();
    let before = world.hosts[bob].events.len();
    world.lookup(bob, FileId::ROOT, "d").unwrap();
    assert_eq!(world.names(bob, directory).unwrap().len(), 70);
    world.lookup(bob, directory, "f7").unwrap();
    assert_eq!(told(&world, bob, before), []);
}

/// Proves [S-events]: where a file went is known though nobody here has looked there, since a moved file is told to who saw it.
#[test]
fn a_file_that_moves_to_where_a_client_never_looked_is_told_as_renamed() {
    let mut world = World::new();
    let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(ann, HOME);
    world.connect(bob, HOME);
    world.settle();
    let (here, there) = (world.mkdir(ann, FileId::ROOT, "here"), world.mkdir(ann, FileId::ROOT, "there"));
    let file = world.create(ann, here, "f");
    let other = world.create(ann, here, "other");
    world.settle();
    world.lookup(bob, FileId::ROOT, "here").unwrap();
    assert_eq!(world.names(bob, here).unwrap().len(), 2);
    let before = world.hosts[bob].events.len();
    world.rename(ann, (here, "f"), (there, "g")).unwrap();
    world.settle();
    // A second name where nobody looks, and the first one goes: it was not renamed, and is not gone either.
    world.change(ann, Change::Link { file: other, parent: there, name: name("second") }).unwrap();
    world.settle();
    world.change(ann, Change::Unlink { parent: here, name: name("other") }).unwrap();
    world.settle();
    let told: Vec<_> = told(&world, bob, before).into_iter().map(|one| (one.what, one.file, one.place)).collect();
    let from = place(here, "f").unwrap();
    let expected =
        [(Happened::Renamed { from }, file, place(there, "g")), (Happened::Removed, other, place(here, "other"))];
    assert!(expected.iter().all(|one| told.contains(one)), "{told:?}");
    assert_eq!(told.iter().filter(|(what, ..)| *what == Happened::Removed).count(), 1, "{told:?}");
}
