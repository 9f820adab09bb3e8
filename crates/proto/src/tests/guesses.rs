//! What a client makes of its own records that a parent confirms without a word of what they did.

use super::world::{HOME, World, name};
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
