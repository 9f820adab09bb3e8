//! Costs that must not grow with what was done before.

use super::world::{HOME, World, name, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Change, Request};
use wayfs_types::{FileId, Kind};

/// Work done by a store, counted in bytes read and written, is not visible here; so the count of batches and
/// messages stands for it, and the test's own patience for the rest.
#[test]
fn five_thousand_offline_records_replay_in_proportion() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let client = world.add(Role::Client, "ann@a");
    world.connect(station, HOME);
    world.settle();
    let peer = world.connect(client, station);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    world.close(peer);
    for number in 0..5000 {
        let change = Change::Create {
            parent: FileId::ROOT,
            name: name(&format!("f{number:05}")),
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
        };
        let id = world.request(client, Request::Change { user: 0, change });
        assert!(world.answer(client, id).is_some());
    }
    assert_eq!(world.hosts[client].replica.progress().records_waiting, 5000);
    world.messages = 0;
    world.connect(client, station);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.hosts[client].replica.progress().records_waiting, 0);
    assert!(world.messages < 2500, "{} messages for 5000 records in frames of 64", world.messages);
    assert_eq!(world.hosts[client].replica.replays(), 0, "an echo needs no replay");
    assert_eq!(world.hosts[station].replica.replays(), 0, "an echo needs no replay");
    world.assert_agrees(client);
    world.assert_agrees(station);
}

#[test]
fn neighbours_in_one_directory_do_not_cost_each_other_replays() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    world.names(b, FileId::ROOT).unwrap();
    for number in 0..500 {
        let (x, y) =
            (world.create(a, FileId::ROOT, &format!("a{number}")), world.mkdir(b, FileId::ROOT, &format!("b{number}")));
        world.step();
        let version = world.hosts[a].replica.inode(x).unwrap().unwrap().version;
        let mtime = world.wall();
        world.change(a, Change::Store { file: x, base: version, content: small("x"), mtime }).unwrap();
        world.create(b, y, "in");
        world.step();
    }
    world.settle();
    assert_eq!(world.hosts[a].replica.replays(), 0);
    assert_eq!(world.hosts[b].replica.replays(), 0);
    world.assert_agrees(a);
    world.assert_agrees(b);
    world.check_tree(a);
}
