//! What was done and undone while nobody was told is not told.

use super::world::{HOME, World, big, name, small};
use crate::Role;
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Change, Level};

#[test]
fn offline_saves_of_an_editor_arrive_as_one() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    let file = world.create(a, FileId::ROOT, "notes");
    world.settle();
    world.close(peer);
    for round in 0..50 {
        world.store(a, file, big(&format!("round {round}")));
        let scratch = world.create(a, FileId::ROOT, "scratch");
        world.store(a, scratch, big(&format!("scratch {round}")));
        world.change(a, Change::Unlink { parent: FileId::ROOT, name: name("scratch") }).unwrap();
    }
    assert_eq!(world.hosts[a].replica.progress().bytes_at_risk, 100_000_000);
    world.connect(a, HOME);
    world.settle();
    assert!(world.hosts[a].replica.is_settled());
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.hosts[HOME].chunks.len(), 1, "only the last content was worth sending");
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, big("round 49"));
    assert_eq!(world.names(a, FileId::ROOT), Ok(vec!["notes".to_owned()]));
    assert_eq!(world.hosts[a].replica.progress().bytes_at_risk, 0);
    world.assert_agrees(a);
    world.check_tree(a);
}

#[test]
fn what_may_have_been_sent_stays() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    world.stall(peer, true);
    let file = world.create(a, FileId::ROOT, "x");
    world.store(a, file, small("sent"));
    world.settle();
    world.close(peer);
    world.store(a, file, small("later"));
    world.store(a, file, small("last"));
    world.connect(a, HOME);
    world.settle();
    assert!(world.hosts[a].replica.is_settled());
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("last"));
    world.assert_agrees(a);
}
