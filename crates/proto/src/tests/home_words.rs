//! The home's own word, and what a station can make of it.

use super::world::{HOME, World};
use crate::sealer::Sealer;
use crate::testing::ToyKey;
use crate::{HomeWord, Input, Role};
use std::time::Duration;
use wayfs_types::{CommitNumber, FileId, WallTime};
use wayfs_wire::{Down, Message, encode};

/// Longer than the pause between two pings.
const PINGED: Duration = Duration::from_secs(20);

/// [S-home-word]
#[test]
fn the_homes_word_comes_by_way_of_a_station_and_nobody_else_makes_one() {
    let mut world = World::new();
    let (station, ann) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    let up = world.connect(station, HOME);
    let line = world.connect(ann, station);
    world.settle();
    world.create(ann, FileId::ROOT, "file");
    world.pass(PINGED);
    let word = |world: &World| world.hosts[ann].replica.home_word();
    let before = word(&world).expect("it came");
    assert!(before.position > CommitNumber(0) && before.at <= world.wall());
    // What a station makes itself, under whatever time, is not taken.
    let at = WallTime::from_nanos(world.wall().as_nanos() + 3_600_000_000_000);
    let seal = ToyKey(world.hosts[station].replica.config().node).seal(b"wayfs home word 1");
    let forged = Down::HomeWord { position: CommitNumber(u64::MAX), at, seal };
    world.input(ann, Input::Message { peer: line, bytes: encode(&Message::Down(forged)) });
    world.settle();
    assert_eq!(word(&world), Some(before));
    assert!(world.is_open(line));
    // Without the home it becomes old, whatever the station says.
    world.close(up);
    world.pass(PINGED);
    let held = word(&world).expect("it stays");
    world.pass(PINGED);
    assert_eq!(word(&world), Some(held));
    let age = |word: HomeWord, world: &World| word.age(world.now, world.wall());
    assert!(age(held, &world) >= PINGED);
    world.connect(station, HOME);
    world.pass(PINGED);
    assert!(word(&world).is_some_and(|word| word.at > held.at && age(word, &world) < PINGED * 2));
}
