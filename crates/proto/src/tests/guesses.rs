//! What a client makes of its own records that a parent confirms without a word of what they did.

use super::world::{HOME, World, name, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{AttrChange, FileId};

/// A client that is away while a file is removed of which nobody keeps a trace. It has given the file a second name meanwhile,
/// which its disk has. With its directory and itself.
fn away_while_a_file_goes() -> (World, usize, FileId) {
    let mut world = World::new();
    let station = world.add(Role::Station, "s@s");
    let (client, other) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "ben@b"));
    world.connect(station, HOME);
    world.settle();
    let first = world.connect(client, station);
    world.connect(other, HOME);
    world.settle();
    let dir = world.mkdir(client, FileId::ROOT, "d");
    let file = world.create(client, FileId::ROOT, "f");
    for directory in [FileId::ROOT, dir] {
        world.names(client, directory).unwrap();
    }
    world.pass(Duration::from_secs(3));
    world.close(first);
    world.settle();
    world.names(other, FileId::ROOT).unwrap();
    world.change(other, Change::Unlink { parent: FileId::ROOT, name: name("f") }).unwrap();
    world.pass(Duration::from_secs(3));
    for server in [HOME, station] {
        world.hosts[server].replica.keep_traces(0);
    }
    for number in 0..8 {
        world.create(other, FileId::ROOT, &format!("g{number}"));
        world.pass(Duration::from_secs(2));
    }
    assert!(world.hosts[HOME].replica.inode(file).unwrap().is_none(), "no trace is left");
    world.change(client, Change::Link { file, parent: dir, name: name("n") }).unwrap();
    // So that the name is not cancelled with its removal.
    let change = AttrChange { mode: Some(0o600), ..AttrChange::default() };
    world.change(client, Change::SetAttr { file, change }).unwrap();
    world.pass(Duration::from_secs(2));
    (world, client, dir)
}

#[test]
fn a_listing_takes_a_guess_back_that_lies_under_a_record_that_is_on_its_way() {
    let (mut world, client, dir) = away_while_a_file_goes();
    world.configure(client, |config| config.sends_ahead = false);
    world.hosts[client].hold_syncs = true;
    world.change(client, Change::Unlink { parent: dir, name: name("n") }).unwrap();
    world.connect(client, 1);
    world.settle();
    assert!(world.names(client, dir).unwrap().is_empty(), "it was removed here");
    world.hosts[client].hold_syncs = false;
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[client].replica.is_settled());
    assert!(world.names(client, dir).unwrap().is_empty(), "nobody has the name");
    world.assert_agrees(client);
}

#[test]
fn a_name_that_was_removed_elsewhere_and_moved_here_does_not_come_back() {
    let (mut world, client, dir) = away_while_a_file_goes();
    world.configure(client, |config| config.sends_ahead = false);
    world.hosts[client].hold_syncs = true;
    world.rename(client, (FileId::ROOT, "f"), (FileId::ROOT, "e")).unwrap();
    world.connect(client, 1);
    world.settle();
    assert!(world.names(client, FileId::ROOT).unwrap().contains(&"e".to_owned()), "it was moved here");
    world.hosts[client].hold_syncs = false;
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[client].replica.is_settled());
    let names = world.names(client, FileId::ROOT).unwrap();
    assert_eq!(names, world.names(HOME, FileId::ROOT).unwrap());
    assert!(world.names(client, dir).unwrap().is_empty(), "nobody has the name");
    world.assert_agrees(client);
}

/// Seed 831067 of the simulator. The first store brings the file back at the new station, which says so; what it says of the file
/// itself is refused, since another's version was seen at the former station. That it met a removal does not mean that it made
/// nothing of the file.
#[test]
fn what_is_written_upon_a_store_that_brought_a_file_back_is_not_undone_meanwhile() {
    let mut world = World::new();
    let stations = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
    let [ann, ben, carl] = ["ann@a", "ben@b", "carl@c"].map(|label| world.add(Role::Client, label));
    let [upper, _] = stations.map(|station| world.connect(station, HOME));
    world.settle();
    let line = world.connect(ann, stations[0]);
    world.connect(ben, stations[0]);
    world.connect(carl, HOME);
    world.settle();
    let file = world.create(ben, FileId::ROOT, "f");
    world.pass(Duration::from_secs(3));
    world.close(upper);
    world.store(ben, file, small("ben"));
    world.lookup(ann, FileId::ROOT, "f").unwrap();
    world.lookup(carl, FileId::ROOT, "f").unwrap();
    world.change(carl, Change::Unlink { parent: FileId::ROOT, name: name("f") }).unwrap();
    world.pass(Duration::from_secs(2));
    // What was on its way once is not folded into one record.
    world.stall(line, true);
    world.store(ann, file, small("one"));
    world.store(ann, file, small("two"));
    world.settle();
    world.close(line);
    world.configure(ann, |config| config.records_per_message = 1);
    let line = world.connect(ann, stations[1]);
    world.stall(line, true);
    let mut shown = Vec::new();
    for _ in 0..40 {
        if world.waits_up(line) {
            world.step_up(line, 1);
        }
        world.settle();
        world.step_down(line);
        shown.push(world.hosts[ann].replica.inode(file).unwrap().unwrap().content.clone());
    }
    assert!(shown.iter().all(|content| *content == small("two")), "{shown:?}");
    world.stall(line, false);
    world.connect(stations[0], HOME);
    world.pass(Duration::from_secs(6));
    world.assert_agrees(ann);
}
