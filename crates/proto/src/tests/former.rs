//! What a client still answers for of what it wrote under an origin that it had before.

use super::forking::{named, stay_connected, write};
use super::world::{HOME, World, big, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{FileId, Life, RecordId};

/// A copy of a store whose record is at the home before it hears of the other copy, and its contents are not.
struct Forked {
    world: World,
    client: usize,
    version: RecordId,
}

fn forked(with_station: bool, before: impl FnOnce(&mut World, usize, FileId)) -> Forked {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let client = world.add(Role::Client, "ann@a");
    world.configure(client, |config| config.life = Life(5));
    stay_connected(&mut world, station, HOME);
    let parent = if with_station { station } else { HOME };
    let peer = stay_connected(&mut world, client, parent);
    write(&mut world, client, &named("common", 3));
    world.names(client, FileId::ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(client);
    world.hold_pushes(peer, true);
    let file = world.create(client, FileId::ROOT, "film");
    let version = world.store(client, file, big("film"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(HOME, FileId::ROOT, "film").unwrap().1.version, version, "the home has the record");
    world.close(peer);
    before(&mut world, client, file);
    let other = world.clone_of(client, copy, 200_003);
    world.hosts[other].chunks.clear();
    stay_connected(&mut world, other, parent);
    let peer = world.connect(client, parent);
    world.hold_pushes(peer, true);
    world.pass(Duration::from_secs(3));
    assert!(!world.is_open(peer), "it hears that it was copied");
    assert_ne!(world.hosts[client].replica.config().origin, version.origin());
    Forked { world, client, version }
}

/// Proves [S-clone], [S-duty]. The record is not written again, since it was confirmed: nobody else has the bytes.
#[test]
fn what_was_not_pushed_before_a_fork_is_pushed_after_it() {
    for with_station in [false, true] {
        let Forked { mut world, client, version } = forked(with_station, |_, _, _| {});
        stay_connected(&mut world, client, HOME);
        world.pass(Duration::from_secs(2));
        assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()), "with a station: {with_station}");
        assert_eq!(world.lookup(HOME, FileId::ROOT, "film").unwrap().1.version, version, "it is not written again");
        assert_eq!(world.names(HOME, FileId::ROOT).unwrap().len(), 4, "and there is no copy beside it");
        world.pass(Duration::from_secs(30));
        let ledger = world.hosts[client].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "and nothing of it is kept any more: {ledger:?}");
    }
}

/// Proves [S-clone]. What the home has is not written again though it was not safe: what was stored upon it goes on there.
#[test]
fn what_was_stored_upon_a_confirmed_version_goes_on_in_its_file() {
    let Forked { mut world, client, version } = forked(false, |world, client, file| {
        world.store(client, file, small("after"));
    });
    stay_connected(&mut world, client, HOME);
    world.pass(Duration::from_secs(5));
    let (_, inode) = world.lookup(HOME, FileId::ROOT, "film").unwrap();
    assert_eq!(inode.content, small("after"), "not {version}, whose bytes nobody would send any more");
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap().len(), 4, "and there is no copy beside it");
}

/// Proves [S-one-account]. What came of it to a station is told there, although no mark speaks of a former origin.
#[test]
fn what_was_written_before_a_fork_counts_as_at_the_station_that_took_it() {
    let Forked { mut world, client, .. } = forked(true, |_, _, _| {});
    let ledger = world.hosts[client].replica.ledger().unwrap();
    assert_eq!(ledger.not_safe.map(|here| here.versions), Some(1), "it is here only: {ledger:?}");
    let station = 1;
    // The home looks for it, since nobody below the station had it.
    let line = world.line_of(station);
    world.hold_pushes(line, true);
    stay_connected(&mut world, client, station);
    world.pass(Duration::from_secs(2));
    assert!(world.hosts[station].chunks.contains(&big("film").root().unwrap()));
    let ledger = world.hosts[client].replica.ledger().unwrap();
    assert_eq!(ledger.not_safe.map(|here| here.versions), Some(0), "{ledger:?}");
    assert_eq!(ledger.at_station.map(|there| there.versions), Some(1), "{ledger:?}");
}

/// Seed 5452 of `station-back`: the home was told that the writer below a station has it, before a copy of the writer came there
/// that has it not. The station had forgotten it, and was named for ever.
#[test]
fn what_nobody_below_a_station_has_any_more_it_is_not_named_for() {
    let Forked { mut world, client, version } = forked(true, |_, _, _| {});
    world.destroy(client);
    world.pass(Duration::from_secs(150));
    let file = FileId::made_by(RecordId::new(version.origin(), version.sequence() - 1).unwrap());
    let holders = world.hosts[HOME].replica.holders(file, version).unwrap();
    assert!(holders.is_empty(), "its writer is waited for, and the station has nothing: {holders:?}");
}

/// A client whose store was put back while the home has more of its records. It goes on by itself.
fn put_back_and_alone() -> (World, usize) {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, a, HOME);
    world.names(a, FileId::ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    let copy = world.snapshot(a);
    write(&mut world, a, &named("gone", 100));
    world.settle();
    world.restore(a, copy, 77);
    (world, a)
}

/// The contents of the files that bear a name, or one made of it.
fn contents_named(world: &mut World, text: &str) -> std::collections::BTreeSet<String> {
    let names = world.names(HOME, FileId::ROOT).unwrap();
    let names = names.into_iter().filter(|name| name.starts_with(text));
    names.map(|name| format!("{:?}", world.lookup(HOME, FileId::ROOT, &name).unwrap().1.content)).collect()
}

/// Seed 4890 of `station-back`: a program goes on from a version that another one had written over before both became one record.
#[test]
fn who_goes_on_from_what_was_written_over_does_not_replace_what_took_its_place() {
    let (mut world, a) = put_back_and_alone();
    let file = world.create(a, FileId::ROOT, "mine");
    let first = world.store(a, file, small("first"));
    world.store(a, file, small("second"));
    stay_connected(&mut world, a, HOME);
    let mtime = world.wall();
    world.change(a, Change::Store { file, base: first, content: small("third"), mtime }).unwrap();
    world.settle();
    let both = [small("second"), small("third")].map(|content| format!("{content:?}"));
    assert_eq!(contents_named(&mut world, "mine"), both.into_iter().collect(), "one of them is a copy");
}

/// The same, and the store is opened anew in between.
#[test]
fn what_was_written_over_has_no_name_after_a_restart_either() {
    let (mut world, a) = put_back_and_alone();
    let file = world.create(a, FileId::ROOT, "mine");
    let first = world.store(a, file, small("first"));
    world.store(a, file, small("second"));
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(3));
    let store = world.snapshot(a);
    world.restore(a, store, 40_009);
    stay_connected(&mut world, a, HOME);
    let mtime = world.wall();
    world.change(a, Change::Store { file, base: first, content: small("third"), mtime }).unwrap();
    world.settle();
    let both = [small("second"), small("third")].map(|content| format!("{content:?}"));
    assert_eq!(contents_named(&mut world, "mine"), both.into_iter().collect(), "one of them is a copy");
}

/// Seed 1001335 of `client-back` and `station-back`: the same, in the log that is written again.
#[test]
fn what_went_on_in_a_copy_does_so_when_it_is_written_again() {
    for goes_on_from in 0..2 {
        let (mut world, a) = put_back_and_alone();
        let file = world.create(a, FileId::ROOT, "mine");
        let made = world.hosts[a].replica.inode(file).unwrap().unwrap().version;
        let first = world.store(a, file, small("first"));
        world.store(a, file, small("second"));
        let (base, mtime) = ([made, first][goes_on_from], world.wall());
        world.change(a, Change::Store { file, base, content: small("third"), mtime }).unwrap();
        stay_connected(&mut world, a, HOME);
        world.settle();
        let both = [small("second"), small("third")].map(|content| format!("{content:?}"));
        assert_eq!(contents_named(&mut world, "mine"), both.into_iter().collect(), "one of them is a copy");
        // Numbers of the two copies of the store overlap: the versions that have no other name are names of others there.
        assert!(
            !contents_named(&mut world, "gone").contains(&format!("{:?}", small("third"))),
            "in nobody else's file"
        );
    }
}
