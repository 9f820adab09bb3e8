//! A version that comes home after what was built upon it, which came by another way.

use super::put_back_contents::ASKED;
use super::world::{HOME, World, big};
use crate::Role;
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Level};

/// [S-losses] As long as the bytes of the later one are at its writer only, those of the earlier one are what is left if they are lost.
#[test]
fn what_was_overtaken_comes_back_when_what_was_built_upon_it_is_lost() {
    let mut world = World::new();
    let [first, second] = ["s1@s", "s2@s"].map(|label| world.add(Role::Station, label));
    let [a, b] = ["ann@a", "ben@b"].map(|label| world.add(Role::Client, label));
    let [upper, _] = [first, second].map(|station| world.connect(station, HOME));
    world.settle();
    let [_, line] = [a, b].map(|client| world.connect(client, first));
    let file = world.create(a, FileId::ROOT, "film");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.close(upper);
    world.store(a, file, big("seen"));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    assert_eq!(world.lookup(b, FileId::ROOT, "film").unwrap().1.content, big("seen"));
    world.hold_pushes(line, true);
    world.store(b, file, big("upon it"));
    world.close(line);
    let line = world.connect(b, second);
    world.hold_pushes(line, true);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(HOME, FileId::ROOT, "film").unwrap().1.content, big("upon it"));
    world.connect(first, HOME);
    world.pass(Duration::from_secs(3));
    world.lose(b, &big("upon it"));
    world.close(line);
    world.connect(b, second);
    world.pass(ASKED);
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap(), ["film"], "no copies");
    assert_eq!(world.lookup(HOME, FileId::ROOT, "film").unwrap().1.content, big("seen"));
    assert!(world.can_read(b, file, &big("seen")));
}
