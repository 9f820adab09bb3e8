//! A home that was put back to an older copy: what it must not give twice, and who comes back to it by which way.

use super::forking::{assert_all_there, named, stay_connected, write};
use super::world::{HOME, World};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, Level};
use wayfs_types::{FileId, OriginId};

/// A world whose home is in its first life, as a new volume's is.
fn first_life() -> World {
    let mut world = World::new();
    let fresh = crate::testing::MemoryStore::new();
    world.restore(HOME, fresh, 3);
    world.settle();
    world
}

fn admit(world: &mut World, label: &str) -> Vec<OriginId> {
    let mut origins = Vec::new();
    for number in 0..5 {
        let host = world.add(Role::Client, &format!("{label}@{number}"));
        origins.push(world.hosts[host].origin);
    }
    // Whoever was admitted is told so when it is durable.
    world.settle();
    origins
}

/// [S-home-put-back] The copy does not know whom the home admitted after it was made.
#[test]
fn a_home_put_back_gives_no_origin_a_second_time() {
    for life in 4..40 {
        let mut world = first_life();
        let early = world.add(Role::Client, "early@e");
        world.settle();
        let copy = world.snapshot(HOME);
        let later = admit(&mut world, "later");
        assert_eq!(later[0].raw(), world.hosts[early].origin.raw() + 1, "a first life counts");
        world.restore(HOME, copy, life);
        let fresh = admit(&mut world, "fresh");
        assert!(fresh.iter().all(|origin| !later.contains(origin)), "{later:?} {fresh:?}");
        let mut all = fresh.clone();
        all.dedup();
        assert_eq!(all.len(), 5, "nor one of them twice: {fresh:?}");
    }
}

/// A crash is a life more, and nothing of what was given is forgotten: what is given next is new, too.
#[test]
fn a_home_that_crashed_gives_no_origin_a_second_time() {
    let mut world = first_life();
    let mut given = vec![];
    for life in 4..30 {
        for _ in 0..3 {
            let host = world.add(Role::Client, &format!("l{life}@c"));
            given.push(world.hosts[host].origin);
        }
        world.settle();
        let store = world.snapshot(HOME);
        world.restore(HOME, store, life);
    }
    let count = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), count);
}

/// Claims 101: a client that was offline while its home was put back comes back by way of a station.
fn comes_back_by_way_of_a_station(was_connected: bool) {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("early", 3));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    write(&mut world, a, &named("lost", 5));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.names(a, FileId::ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    if !was_connected {
        world.close(line);
        write(&mut world, a, &named("offline", 2));
    }
    world.restore(HOME, copy, 4);
    stay_connected(&mut world, station, HOME);
    world.pass(Duration::from_secs(3));
    for _ in 0..6 {
        if !world.has_session(a) {
            world.connect(a, station);
        }
        world.pass(Duration::from_secs(3));
    }
    write(&mut world, a, &named("later", 2));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached), "it does not catch up for ever");
    let mut all = [named("early", 3), named("lost", 5), named("later", 2)].concat();
    if !was_connected {
        all.extend(named("offline", 2));
    }
    world.pass(Duration::from_secs(3));
    for host in [HOME, station, a] {
        assert_all_there(&mut world, host, &all);
        assert_eq!(world.names(host, FileId::ROOT).unwrap().len(), all.len(), "no copies at {host}");
    }
    world.check_tree(HOME);
    world.assert_agrees(a);
}

/// [S-home-put-back]
#[test]
fn a_client_that_was_offline_comes_back_by_way_of_a_station() {
    comes_back_by_way_of_a_station(false);
}

#[test]
fn a_client_that_was_connected_comes_back_by_way_of_a_station() {
    comes_back_by_way_of_a_station(true);
}
