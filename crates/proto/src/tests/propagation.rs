//! What the propagation policy of a station is told.

use super::moving::two_stations;
use super::world::{HOME, World, big, small};
use crate::{Output, Recall};
use std::time::Duration;
use wayfs_policy::{Access, Input};
use wayfs_types::{FileId, RecordId};

fn written(file: FileId, version: RecordId) -> Input {
    Input::Written { file, version, age: Duration::ZERO }
}

/// What the outputs so far mean, but for what was applied and pushed: the world carries that out.
fn news(world: &mut World, host: usize) -> Vec<Input> {
    let outputs: Vec<Output> = std::mem::take(&mut world.hosts[host].events);
    let replica = &world.hosts[host].replica;
    outputs.iter().filter_map(|output| replica.propagation_news(output).unwrap()).collect()
}

/// What a policy that begins is told, versions and how long they have waited, one on each page.
fn recalled(world: &World, host: usize) -> Vec<(RecordId, Duration)> {
    let (mut recall, mut all) = (Some(Recall::default()), Vec::new());
    while recall.is_some() {
        all.extend(world.hosts[host].replica.recall_unsent(&mut recall, world.wall(), 1).unwrap());
    }
    let version = |input| {
        let Input::Written { version, age, .. } = input else { panic!("{input:?}") };
        (version, age)
    };
    all.into_iter().map(version).collect()
}

#[test]
fn it_hears_of_contents_that_came_before_their_record_and_when_the_home_has_them() {
    let (mut world, [s1, _], client, [upper, _]) = two_stations();
    let direct = world.connect(client, HOME);
    world.settle();
    world.close(upper);
    world.hold_pushes(direct, true);
    let file = world.create(client, FileId::ROOT, "f");
    let version = world.store(client, file, big("f"));
    world.settle();
    world.close(direct);
    world.connect(client, s1);
    world.settle();
    news(&mut world, s1);
    world.destroy(client);
    world.connect(s1, HOME);
    world.pass(Duration::from_secs(1));
    let heard = news(&mut world, s1);
    assert!(heard.contains(&written(file, version)), "{heard:?}");
    world.input(s1, crate::Input::Propagate { file, version });
    world.pass(Duration::from_secs(3));
    let heard = news(&mut world, s1);
    assert!(heard.contains(&Input::Released { version }), "{heard:?}");
}

/// Seed 723 of the simulator, with open files: the policy waited for a version that nobody shows, and forgot the other with it.
#[test]
fn of_two_versions_with_the_same_bytes_it_hears_of_the_one_that_is_shown() {
    let (mut world, [s1, _], client, [upper, _]) = two_stations();
    let peer = world.connect(client, s1);
    world.settle();
    let file = world.create(client, FileId::ROOT, "f");
    world.pass(Duration::from_secs(3));
    world.close(upper);
    world.hold_pushes(peer, true);
    let first = world.store(client, file, big("f"));
    world.settle();
    let second = world.store(client, file, big("f"));
    world.settle();
    assert_ne!(first, second);
    world.hold_pushes(peer, false);
    world.settle();
    let replica = &world.hosts[s1].replica;
    assert_eq!(replica.level(file).unwrap().unwrap().version, second);
    for version in [second, first] {
        let heard = replica.propagation_news(&Output::Owed { file, version }).unwrap();
        assert!(heard.is_none_or(|heard| heard == written(file, second)), "of {version}");
    }
}

#[test]
fn it_hears_what_took_the_place_of_what_waits() {
    let (mut world, [s1, s2], client, [upper, _]) = two_stations();
    let peer = world.connect(client, s1);
    world.settle();
    let file = world.create(client, FileId::ROOT, "f");
    world.pass(Duration::from_secs(3));
    world.close(upper);
    world.store(client, file, big("f"));
    world.settle();
    news(&mut world, s1);
    world.store(client, file, small("shorter"));
    world.settle();
    let heard = news(&mut world, s1);
    assert!(heard.contains(&Input::Overwritten { file }), "{heard:?}");
    world.connect(s1, HOME);
    world.pass(Duration::from_secs(3));
    world.close(peer);
    world.connect(client, s2);
    world.pass(Duration::from_secs(3));
    news(&mut world, s1);
    world.store(client, file, small("elsewhere"));
    world.pass(Duration::from_secs(3));
    let heard = news(&mut world, s1);
    assert!(heard.contains(&Input::Elsewhere { file, access: Access::Write }), "{heard:?}");
}

#[test]
fn a_policy_that_begins_is_told_what_waits_and_since_when() {
    let (mut world, [s1, _], client, [upper, _]) = two_stations();
    let peer = world.connect(client, s1);
    world.settle();
    world.close(upper);
    let here = world.create(client, FileId::ROOT, "here");
    let here = world.store(client, here, big("here"));
    world.pass(Duration::from_secs(3));
    world.hold_pushes(peer, true);
    let below = world.create(client, FileId::ROOT, "below");
    let below = world.store(client, below, big("below"));
    world.pass(Duration::from_secs(3));
    world.crash(s1, 100);
    let told = recalled(&world, s1);
    assert_eq!(told.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [here, below]);
    let since: Vec<u64> = told.iter().map(|(_, age)| age.as_millis().div_ceil(1000) as u64).collect();
    assert_eq!(since, [6, 3], "{told:?}");
}
