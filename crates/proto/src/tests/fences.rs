//! Members that were removed with a fence: what the home had not ordered then does nothing.

use super::forking::{named, stay_connected, write};
use super::put_back::{first_life, rejoin};
use super::world::{HOME, World, name, small};
use crate::{Held, Output, Role};
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{Admitted, FileId, Life};

/// A home, a station that cannot reach it and has what ann wrote, and bob at the home.
struct Stage {
    world: World,
    station: usize,
    ann: usize,
    bob: usize,
    early: FileId,
}

fn stage() -> Stage {
    let mut world = World::new();
    let (station, ann) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    let bob = world.add(Role::Client, "bob@b");
    let line = world.connect(station, HOME);
    let below = world.connect(ann, station);
    world.connect(bob, HOME);
    world.settle();
    let early = world.create(ann, FileId::ROOT, "early");
    world.settle();
    world.close(line);
    world.create(ann, FileId::ROOT, "late");
    world.store(ann, early, small("late contents"));
    world.change(ann, Change::Link { file: early, parent: FileId::ROOT, name: name("second") }).unwrap();
    world.settle();
    world.close(below);
    Stage { world, station, ann, bob, early }
}

impl Stage {
    fn revoke(&mut self, held: Held) {
        let (now, wall) = (self.world.now, self.world.wall());
        let node = self.world.hosts[self.ann].replica.config().node;
        assert_eq!(self.world.hosts[HOME].replica.revoke(now, wall, node, held), Ok(1));
        self.world.settle();
    }

    fn names(&mut self, host: usize) -> Vec<String> {
        self.world.names(host, FileId::ROOT).unwrap()
    }

    fn early_at(&self, host: usize) -> wayfs_types::Content {
        self.world.hosts[host].replica.inode(self.early).unwrap().unwrap().content.clone()
    }
}

/// [S-fence]
#[test]
fn what_a_fenced_member_wrote_and_a_station_has_does_nothing_and_holds_nothing_up() {
    let mut stage = stage();
    assert_eq!(stage.early_at(stage.station), small("late contents"));
    stage.revoke(Held::Fenced);
    let line = stage.world.connect(stage.station, HOME);
    stage.world.settle();
    assert!(stage.world.is_open(line), "the station's session goes on");
    for host in [stage.station, HOME] {
        assert_eq!(stage.world.hosts[host].replica.entry(FileId::ROOT, &name("late")), Ok(None));
        assert_eq!(stage.world.hosts[host].replica.entry(FileId::ROOT, &name("second")), Ok(None));
        assert_eq!(stage.early_at(host), wayfs_types::Content::EMPTY);
    }
    assert_eq!(stage.names(stage.bob), ["early"]);
    assert!(stage.world.hosts[stage.station].replica.is_settled(), "nothing waits at the station");
    stage.world.assert_agrees(stage.station);
    // It is taken in again: what it writes from then on counts, and what was dropped stays so.
    let (now, wall) = (stage.world.now, stage.world.wall());
    let (node, origin) = (stage.world.hosts[stage.ann].replica.config().node, stage.world.hosts[stage.ann].origin);
    let home = &mut stage.world.hosts[HOME].replica;
    assert_eq!(home.reinstate(now, wall, (node, origin), Admitted::Client), Ok(true));
    stage.world.settle();
    let ann = stage.ann;
    stage.world.connect(ann, HOME);
    stage.world.settle();
    stage.world.create(ann, FileId::ROOT, "again");
    stage.world.settle();
    assert_eq!(stage.names(stage.bob), ["again", "early"]);
    stage.world.assert_agrees(ann);
}

/// [S-fence]: without one.
#[test]
fn what_a_station_took_of_a_member_before_it_was_removed_comes_in() {
    let mut stage = stage();
    stage.revoke(Held::Taken);
    stage.world.connect(stage.station, HOME);
    stage.world.settle();
    assert_eq!(stage.names(stage.bob), ["early", "late", "second"]);
    assert_eq!(stage.early_at(HOME), small("late contents"));
}

/// [S-fence]: it may be drawn after the member was removed.
#[test]
fn a_fence_may_be_drawn_later() {
    let mut stage = stage();
    stage.revoke(Held::Taken);
    stage.revoke(Held::Fenced);
    stage.world.connect(stage.station, HOME);
    stage.world.settle();
    assert_eq!(stage.names(stage.bob), ["early"]);
    stage.revoke(Held::Taken);
    stage.world.assert_agrees(stage.station);
}

/// Seed 9800605: a station passed on the wish for a new origin of one who was removed meanwhile, and lost its session for it.
#[test]
fn a_station_that_passes_on_the_wish_of_one_who_was_removed_keeps_its_session() {
    let mut world = first_life();
    let (station, ann) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    let up = stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, ann, station);
    write(&mut world, ann, &named("early", 1));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(ann);
    write(&mut world, ann, &named("later", 100));
    world.pass(Duration::from_secs(3));
    world.restore(ann, copy, 77);
    world.stall(up, true);
    world.connect(ann, station);
    world.settle();
    assert!(world.hosts[ann].events.iter().any(|event| matches!(event, Output::Forked { .. })));
    let (now, wall, node) = (world.now, world.wall(), world.hosts[ann].replica.config().node);
    assert_eq!(world.hosts[HOME].replica.revoke(now, wall, node, Held::Fenced), Ok(1));
    world.stall(up, false);
    world.pass(Duration::from_secs(1));
    assert!(world.is_open(up), "it did nothing wrong");
}

/// [S-fence] [S-clone]: a copy of a member's store has the member's key, and is turned away with it, whatever it is called since.
#[test]
fn a_copy_of_a_fenced_member_is_turned_away_with_it() {
    let mut world = first_life();
    let (station, ann) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    let line = stay_connected(&mut world, station, HOME);
    world.configure(ann, |config| config.life = Life(5));
    stay_connected(&mut world, ann, HOME);
    write(&mut world, ann, &named("early", 2));
    world.settle();
    let store = world.snapshot(ann);
    let twin = world.clone_of(ann, store, 9);
    for round in 0..3 {
        rejoin(&mut world, &[(ann, HOME), (twin, station)]);
        write(&mut world, ann, &named(&format!("first-{round}"), 1));
        write(&mut world, twin, &named(&format!("twin-{round}"), 1));
    }
    let origin = |world: &World, host: usize| world.hosts[host].replica.config().origin;
    assert_ne!(origin(&world, twin), origin(&world, ann), "one of them is another member by now");
    let (now, wall) = (world.now, world.wall());
    let node = world.hosts[ann].replica.config().node;
    assert_eq!(world.hosts[HOME].replica.revoke(now, wall, node, Held::Fenced), Ok(2), "both of its origins");
    world.pass(Duration::from_secs(1));
    assert!(world.is_open(line), "the station's session goes on");
    for parent in [HOME, station] {
        for host in [ann, twin] {
            assert!(!world.has_session(host), "host {host} is put out");
            world.connect(host, parent);
            world.settle();
            assert!(!world.has_session(host), "host {host} is turned away at {parent}");
        }
    }
}
