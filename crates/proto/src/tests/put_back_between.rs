//! A home that was put back to before two versions of a file, of which the later one is nowhere: the earlier one is what the file's
//! users have left, and a home that was put back does not know of it.

use super::forking::stay_connected;
use super::put_back::{first_life, rejoin};
use super::put_back_contents::{ASKED, is_declared};
use super::world::{HOME, World, big, small};
use crate::state::tables::table::PREVIOUS;
use crate::{Input, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Level};
use wayfs_types::{Content, FileId, MetaStore};

const ROOT: FileId = FileId::ROOT;

/// Who comes back to the home that was put back, and in which order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The station by which the earlier version came, and nobody else.
    Alone,
    /// Another one first, which knows the later version only.
    OtherFirst,
}

struct Site {
    world: World,
    station: usize,
    other: usize,
}

/// A file of "first" contents, into which a client stores `between`, and another one, upon that, what it takes along when it dies. Then
/// the home is put back to before both.
fn put_back(between: &Content, is_made_since: bool, order: Order) -> Site {
    let mut world = first_life();
    let (station, other) = (world.add(Role::Station, "st@s"), world.add(Role::Station, "su@t"));
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let up = stay_connected(&mut world, station, HOME);
    let beside = stay_connected(&mut world, other, HOME);
    stay_connected(&mut world, a, station);
    stay_connected(&mut world, b, station);
    world.pass(Duration::from_secs(3));
    let before = world.snapshot(HOME);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, small("first"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    let copy = if is_made_since { before } else { world.snapshot(HOME) };
    world.store(a, file, between.clone());
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached), "the station has it");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(b, ROOT, "film").unwrap().1.content, *between);
    let line = world.line_of(b);
    world.hold_pushes(line, true);
    world.store(b, file, big("last"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("last"));
    world.destroy(b);
    world.destroy(a);
    world.close(up);
    world.close(beside);
    world.restore(HOME, copy, 4);
    if order == Order::OtherFirst {
        rejoin(&mut world, &[(other, HOME)]);
    }
    rejoin(&mut world, &[(station, HOME), (other, HOME)]);
    world.pass(ASKED);
    Site { world, station, other }
}

/// Seed 30060732 of `home-back` with `station-back`.
fn assert_left(mut site: Site, between: &Content) {
    let world = &mut site.world;
    assert!(is_declared(world), "the last version is nowhere");
    for host in [HOME, site.station, site.other] {
        let (file, inode) = world.lookup(host, ROOT, "film").unwrap();
        assert_eq!(inode.content, *between, "what was safe is what is left");
        assert!(between.root().is_none() || world.can_read(host, file, between));
        let names = world.names(host, ROOT).unwrap();
        assert_eq!(names, ["film"], "and nothing stands beside it");
    }
    let owed = world.hosts[site.station].replica.contents_in_use(None, 100).unwrap().contents;
    for (file, version) in owed.iter().filter_map(|kept| Some((kept.file, kept.version?))) {
        world.input(site.station, Input::Propagate { file, version });
    }
    world.pass(Duration::from_secs(3));
    for host in [HOME, site.station] {
        let ledger = world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "nobody waits for anything: {ledger:?}");
    }
    world.check_tree(HOME);
    world.assert_agrees(site.station);
}

#[test]
fn what_a_station_had_made_safe_before_a_lost_version_is_left() {
    assert_left(put_back(&big("between"), false, Order::Alone), &big("between"));
}

#[test]
fn what_a_station_had_made_safe_in_a_file_that_the_copy_lacks_is_left() {
    assert_left(put_back(&big("between"), true, Order::Alone), &big("between"));
}

#[test]
fn what_a_station_had_made_safe_is_left_though_another_wrote_the_last_version_again() {
    assert_left(put_back(&big("between"), false, Order::OtherFirst), &big("between"));
    assert_left(put_back(&big("between"), true, Order::OtherFirst), &big("between"));
}

#[test]
fn small_contents_that_a_station_had_seen_before_a_lost_version_are_left() {
    assert_left(put_back(&small("between"), false, Order::Alone), &small("between"));
    assert_left(put_back(&small("between"), true, Order::Alone), &small("between"));
}

#[test]
fn small_contents_that_a_station_had_seen_are_left_though_another_wrote_the_last_version_again() {
    assert_left(put_back(&small("between"), false, Order::OtherFirst), &small("between"));
    assert_left(put_back(&small("between"), true, Order::OtherFirst), &small("between"));
}

/// What a station notes of what was written over goes with what it was noted for.
#[test]
fn a_station_notes_nothing_of_what_has_come() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, a, station);
    world.pass(Duration::from_secs(3));
    let file = world.create(a, ROOT, "film");
    world.store(a, file, small("first"));
    world.pass(Duration::from_secs(3));
    world.hold_pushes(line, true);
    world.store(a, file, big("last"));
    world.pass(Duration::from_secs(3));
    let noted =
        |world: &World| world.hosts[station].replica.store().scan(&[PREVIOUS], &[PREVIOUS + 1], 10).unwrap().len();
    assert_eq!(noted(&world), 1);
    world.hold_pushes(line, false);
    world.pass(Duration::from_secs(3));
    assert_eq!(noted(&world), 0);
}
