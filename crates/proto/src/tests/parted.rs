//! A station that has records of one copy of a client's store while the home has those of another, by the same numbers.

use super::forking::{assert_all_there, named, stay_connected, write};
use super::world::{HOME, World};
use crate::{Output, Role};
use std::time::Duration;

/// [S-clone] The simulator found it (seed 10001730): the copy whose records the home has goes on at the station. Nothing of it went home
/// as long as the session stayed in which the station had seen whose these are.
#[test]
fn what_follows_the_homes_history_is_sent_when_the_station_has_taken_that_over() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let up = stay_connected(&mut world, station, HOME);
    let a = world.add(Role::Client, "ann@a");
    let peer = stay_connected(&mut world, a, station);
    write(&mut world, a, &named("common", 3));
    world.names(a, wayfs_types::FileId::ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    for line in [peer, up] {
        world.close(line);
    }
    world.restore(a, copy.clone(), 77);
    let peer = stay_connected(&mut world, a, station);
    let mine = named("mine", 1);
    write(&mut world, a, &mine);
    world.pass(Duration::from_secs(3));
    world.close(peer);
    // A life that begins at the same number.
    let b = world.clone_of(a, copy, 77 + (1 << 18));
    let line = stay_connected(&mut world, b, HOME);
    let theirs = named("theirs", 1);
    write(&mut world, b, &theirs);
    world.pass(Duration::from_secs(3));
    world.close(line);
    let up = stay_connected(&mut world, station, HOME);
    world.pass(Duration::from_secs(3));
    let is_rescue = |event: &Output| matches!(event, Output::Rescued { .. });
    assert!(world.hosts[station].events.iter().any(is_rescue), "the station parts from what it had");
    stay_connected(&mut world, b, station);
    let more = named("more", 1);
    write(&mut world, b, &more);
    world.pass(Duration::from_secs(5));
    assert!(world.is_open(up), "{:?}", world.hosts[station].events);
    for names in [&mine, &theirs, &more] {
        assert_all_there(&mut world, HOME, names);
    }
}
