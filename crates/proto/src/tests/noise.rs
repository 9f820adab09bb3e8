//! Messages damaged on the way (by a peer that lies; the network itself checks): sessions end, nothing panics, and
//! the home's tree stays a tree.

use super::world::{HOME, World, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::FileId;

#[test]
fn damaged_messages_break_sessions_and_nothing_else() {
    for seed in 1..120u64 {
        let mut world = World::new();
        let station = world.add(Role::Station, "st@s");
        let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
        world.connect(station, HOME);
        world.settle();
        world.connect(a, station);
        world.connect(b, HOME);
        world.settle();
        world.names(a, FileId::ROOT).unwrap();
        world.names(b, FileId::ROOT).unwrap();
        world.damage = seed;
        for round in 0..12 {
            for client in [a, b] {
                if world.hosts[client].replica.inode(FileId::ROOT).unwrap().is_some_and(|root| root.is_directory()) {
                    world.try_create(client, FileId::ROOT, &format!("f{round}"));
                }
                if !world.hosts[client].replica.progress().parent_up {
                    world.connect(client, if client == a { station } else { HOME });
                }
            }
            if !world.hosts[station].replica.progress().parent_up {
                world.connect(station, HOME);
            }
            world.pass(Duration::from_millis(300));
        }
        world.damage = 0;
        world.pass(Duration::from_secs(30));
        world.check_tree(HOME);
        // An honest newcomer is served as ever.
        let c = world.add(Role::Client, "cyd@c");
        world.connect(c, HOME);
        world.settle();
        let file = world.create(c, FileId::ROOT, "honest");
        world.store(c, file, small("word"));
        world.settle();
        assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("word"));
    }
}
