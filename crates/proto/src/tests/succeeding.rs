//! A station that takes the place of its home, which is gone for good.

use super::forking::{assert_all_there, named, stay_connected, write};
use super::world::{HOME, World, big, name, small};
use crate::{Config, Input, OpenError, Output, Replica, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level};
use wayfs_types::{Admitted, FileId, Life, NodeId, OriginId};

const ROOT: FileId = FileId::ROOT;

fn unlink_first() -> Change {
    Change::Unlink { parent: ROOT, name: name("bob-0") }
}

/// A home with two stations, each with a client. `near` is the one that takes the home's place.
struct Volume {
    world: World,
    near: usize,
    far: usize,
    ann: usize,
    bob: usize,
}

impl Volume {
    fn new() -> Self {
        let mut world = World::new();
        world.restore(HOME, crate::testing::MemoryStore::new(), 3);
        let (near, far) = (world.add(Role::Station, "near@s"), world.add(Role::Station, "far@s"));
        let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
        for (number, host) in [(21, near), (22, far), (23, ann), (24, bob)] {
            world.configure(host, |config| config.life = Life(number));
        }
        stay_connected(&mut world, near, HOME);
        stay_connected(&mut world, far, HOME);
        stay_connected(&mut world, ann, near);
        stay_connected(&mut world, bob, far);
        write(&mut world, ann, &named("ann", 3));
        write(&mut world, bob, &named("bob", 3));
        world.pass(Duration::from_secs(3));
        Self { world, near, far, ann, bob }
    }

    /// The near station loses the home, which goes on with the far one; then the home is gone.
    fn part(&mut self) {
        let Self { world, near, far, ann, bob } = self;
        let line = world.line_of(*near);
        world.close(line);
        write(world, *bob, &named("after", 4));
        world.change(*bob, unlink_first()).unwrap();
        world.pass(Duration::from_secs(3));
        write(world, *ann, &named("only-near", 4));
        world.pass(Duration::from_secs(3));
        let line = world.line_of(*far);
        world.close(line);
        write(world, *bob, &named("late", 2));
        world.pass(Duration::from_secs(1));
        world.destroy(HOME);
    }

    fn come_back(&mut self) {
        let Self { world, near, far, ann, bob } = self;
        for _ in 0..12 {
            for (host, parent) in [(*far, *near), (*ann, *near), (*bob, *far)] {
                if !world.has_session(host) {
                    world.connect(host, parent);
                }
            }
            world.pass(Duration::from_secs(3));
        }
    }
}

/// [S-promotion] Everything that the station had is the order now; what others know of the former home comes back, and what they
/// know to be removed goes.
#[test]
fn a_station_that_takes_the_place_of_the_home_loses_nothing_that_somebody_has() {
    let mut volume = Volume::new();
    volume.part();
    let near = volume.near;
    let waits = volume.world.hosts[near].replica.prospect();
    assert!(waits.is_whole && waits.tentative > 0, "{waits:?}");
    volume.world.promote(near, 31);
    let all = [named("ann", 3), vec!["bob-1".into(), "bob-2".into()], named("only-near", 4)].concat();
    assert_all_there(&mut volume.world, near, &all);
    volume.come_back();
    let all = [all, named("after", 4), named("late", 2)].concat();
    for host in [near, volume.far, volume.ann, volume.bob] {
        assert_all_there(&mut volume.world, host, &all);
        assert_eq!(
            volume.world.names(host, ROOT).unwrap().len(),
            all.len(),
            "bob-0 was removed, as the far station knows"
        );
    }
    volume.world.check_tree(near);
    for (host, prefix) in [(volume.ann, "on-ann"), (volume.bob, "on-bob")] {
        write(&mut volume.world, host, &named(prefix, 2));
        assert_eq!(volume.world.wait(host, Level::Stable), Ok(Answer::Reached));
        volume.world.pass(Duration::from_secs(3));
        assert_all_there(&mut volume.world, near, &named(prefix, 2));
    }
}

/// The station knows of a removal of which another station has not heard: the file does not come back.
#[test]
fn what_the_new_home_saw_removed_stays_removed() {
    let mut volume = Volume::new();
    let Volume { world, near, far, ann, .. } = &mut volume;
    let line = world.line_of(*far);
    world.close(line);
    world.change(*ann, unlink_first()).unwrap();
    let (changed, _) = world.lookup(*ann, ROOT, "bob-1").unwrap();
    world.store(*ann, changed, small("newer"));
    world.pass(Duration::from_secs(3));
    world.destroy(HOME);
    world.promote(*near, 31);
    volume.come_back();
    let Volume { world, near, far, ann, bob } = &mut volume;
    for host in [*near, *far, *ann, *bob] {
        let names = world.names(host, ROOT).unwrap();
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(!names.contains(&"bob-0".to_owned()), "{names:?}");
        assert_eq!(world.lookup(host, ROOT, "bob-1").unwrap().1.content, small("newer"));
    }
}

/// The former home may have admitted machines of which the station did not hear.
#[test]
fn the_new_home_gives_no_origin_that_the_former_may_have_given() {
    let mut volume = Volume::new();
    let Volume { world, near, .. } = &mut volume;
    let line = world.line_of(*near);
    world.close(line);
    let unheard: Vec<OriginId> = (0..5).map(|n| world.admit(Admitted::Client, &format!("new@{n}"))).collect();
    world.destroy(HOME);
    world.promote(*near, 31);
    let (now, wall) = (world.now, world.wall());
    for number in 0..5 {
        let replica = &mut world.hosts[*near].replica;
        let node = NodeId::from_bytes([number; 32]);
        let origin = replica.grant_origin(now, wall, node, Admitted::Client, "fresh@f").unwrap();
        assert!(!unheard.contains(&origin), "{origin}");
    }
    let origins = world.hosts[*near].replica.origins().unwrap();
    let homes: Vec<_> = origins.iter().filter(|(_, image)| image.admitted == Admitted::Home).collect();
    assert_eq!(homes.len(), 1, "one home");
    let former = world.hosts[*near].replica.succession().unwrap();
    assert_eq!(former.origin.raw(), 1);
    let image = origins.iter().find(|(origin, _)| *origin == former.origin).unwrap();
    assert_eq!(image.1.admitted, Admitted::Revoked, "the former home is refused");
}

/// Contents that only the former home had are not called stable; those that lie here are.
#[test]
fn what_only_the_former_home_had_is_not_called_stable() {
    let mut volume = Volume::new();
    let Volume { world, near, bob, ann, .. } = &mut volume;
    let far_film = world.create(*bob, ROOT, "far");
    let version = world.store(*bob, far_film, big("far"));
    let near_film = world.create(*ann, ROOT, "near");
    let kept = world.store(*ann, near_film, big("near"));
    assert_eq!(world.wait(*bob, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.wait(*ann, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    assert!(!world.hosts[*near].chunks.contains(&big("far").root().unwrap()), "it never came here");
    world.destroy(HOME);
    world.promote(*near, 31);
    let facts = |version| world.hosts[*near].replica.facts_of(version, None).unwrap();
    assert!(!facts(version).stable.holds(), "{:?}", facts(version));
    assert!(facts(kept).stable.holds(), "{:?}", facts(kept));
    assert_eq!(world.hosts[*near].replica.prospect().missing, 1);
}

/// A crash before the store was changed, or after: it is begun again, or done. Without being told so nothing is changed.
#[test]
fn a_stations_store_becomes_a_homes_only_when_told_to_and_whatever_crashes() {
    let mut volume = Volume::new();
    volume.part();
    let store = volume.world.snapshot(volume.near);
    let config = volume.world.hosts[volume.near].replica.config().clone();
    let as_home = Config { role: Role::Home, life: Life(31), ..config.clone() };
    let refused = Replica::open(as_home.clone(), store.clone(), volume.world.now);
    assert!(matches!(refused, Err(OpenError::Foreign(_))));
    let succeeds = Config { succeeds: true, ..as_home };
    let names = |replica: &Replica<crate::testing::MemoryStore>| replica.origins().unwrap().len();
    let opened = Replica::open(succeeds.clone(), store, volume.world.now).unwrap();
    let expected = names(&opened);
    let newest = opened.store().newest();
    let store = opened.into_store();
    for kept in 0..=newest.0 {
        let crashed = store.clone().crash(usize::try_from(kept).unwrap());
        let again = Replica::open(succeeds.clone(), crashed, volume.world.now).unwrap();
        assert_eq!(names(&again), expected);
        assert!(again.succession().is_some(), "after {kept} batches");
        assert_eq!(again.prospect().tentative, 0);
        let back = again.into_store();
        let stays = Replica::open(Config { role: Role::Station, ..config.clone() }, back.crash(1000), volume.world.now);
        assert!(matches!(stays, Err(OpenError::Foreign(_))), "it is no station any more");
    }
}

/// [S-home-put-back] A station that had written in its own name what the home lost again: it would follow numbers that
/// the home does not have.
#[test]
fn a_station_that_wrote_itself_goes_on_when_its_home_is_put_back_again() {
    let mut volume = Volume::new();
    let Volume { world, near, ann, .. } = &mut volume;
    let copy = world.snapshot(HOME);
    for (round, life) in [(0, 4), (1, 5)] {
        write(world, *ann, &named(&format!("lost{round}"), 3));
        world.pass(Duration::from_secs(3));
        world.restore(HOME, copy.clone(), life);
        for _ in 0..6 {
            for (host, parent) in [(*near, HOME), (*ann, *near)] {
                if !world.has_session(host) {
                    world.connect(host, parent);
                }
            }
            world.pass(Duration::from_secs(3));
        }
        for host in [HOME, *near, *ann] {
            for before in 0..=round {
                assert_all_there(world, host, &named(&format!("lost{before}"), 3));
            }
        }
    }
    let ended = world.hosts[HOME].events.iter().filter(|event| matches!(event, Output::Disconnect { .. })).count();
    assert!(ended < 12, "{ended} sessions ended: they come back for ever");
}

/// What a station notes of what was written over the new home keeps, but for contents that only the former one had.
#[test]
fn a_new_home_vouches_for_no_contents_that_the_former_one_kept() {
    let mut volume = Volume::new();
    let Volume { world, near, ann, .. } = &mut volume;
    let (near, ann) = (*near, *ann);
    let at_home = world.create(ann, ROOT, "at-home");
    let stored = world.store(ann, at_home, big("at-home"));
    world.pass(Duration::from_secs(3));
    world.input(near, Input::Propagate { file: at_home, version: stored });
    world.pass(Duration::from_secs(3));
    let owed = world.create(ann, ROOT, "owed");
    world.store(ann, owed, big("owed"));
    let inline = world.create(ann, ROOT, "inline");
    world.store(ann, inline, small("inline"));
    world.pass(Duration::from_secs(3));
    let line = world.line_of(ann);
    world.hold_pushes(line, true);
    for (file, text) in [(at_home, "over-1"), (owed, "over-2"), (inline, "over-3")] {
        world.store(ann, file, big(text));
    }
    world.pass(Duration::from_secs(3));
    let up = world.line_of(near);
    world.close(up);
    world.destroy(HOME);
    world.promote(near, 31);
    let all = world.hosts[near].replica.contents_in_use(None, 0).unwrap().contents;
    let kept: Vec<_> = all.into_iter().filter(|kept| kept.owed).map(|kept| (kept.file, kept.content)).collect();
    assert_eq!(kept, [(owed, big("owed")), (inline, small("inline"))]);
}
