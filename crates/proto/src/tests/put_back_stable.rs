//! What was stable, and lacks in the copy that a home was put back to.

use super::forking::stay_connected;
use super::put_back::{first_life, let_go, rejoin, rejoin_without_contents};
use super::world::{HOME, World, big};
use crate::Role;
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Level};

const ROOT: FileId = FileId::ROOT;

fn is_stable(world: &World, host: usize, file: FileId) -> bool {
    world.hosts[host].replica.level(file).unwrap().unwrap().facts.stable.holds()
}

/// Claims 31007 and 40001 [S-home-put-back]: the copy has the record of a file and not its contents, which the home had had. Nobody says
/// that they are stable until they are there again, and who has them brings them.
#[test]
fn contents_that_a_home_lost_and_whose_record_it_has_are_not_stable_until_they_are_there_again() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, station);
    world.names(a, ROOT).unwrap();
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Visible), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let root = big("film").root().unwrap();
    assert!(!world.hosts[HOME].chunks.contains(&root), "it is at the station only");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert!([HOME, station, a].iter().all(|host| is_stable(&world, *host, file)));
    world.restore(HOME, copy, 4);
    world.hosts[HOME].chunks.remove(&root);
    let lines = [(station, HOME), (a, station)];
    rejoin_without_contents(&mut world, &lines);
    assert!(!world.hosts[HOME].chunks.contains(&root));
    for host in [HOME, station, a] {
        assert!(!is_stable(&world, host, file), "said at {host}");
    }
    // Who is on record is asked after a while, and the writer offers them at once.
    let_go(&mut world, &lines);
    world.pass(Duration::from_secs(120));
    assert!(world.hosts[HOME].chunks.contains(&root), "they came without being asked for by a user");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    for host in [HOME, station, a] {
        assert!(is_stable(&world, host, file), "not said at {host}");
        let ledger = world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "host {host}: {ledger:?}");
    }
}

/// Claims 32013, 34005: contents that were stable, and lack in the copy of the home, which has their record. The writer had let go
/// of them, and counts them again when it hears of the home, also if it goes on as another member for what it wrote later.
#[test]
fn a_writer_counts_what_was_stable_and_its_home_lost() {
    for (writes_later, restarts) in [(false, false), (true, false), (false, true), (true, true)] {
        let case = format!("forks: {writes_later}, restarts: {restarts}");
        let mut world = first_life();
        let station = world.add(Role::Station, "st@s");
        let a = world.add(Role::Client, "ann@a");
        stay_connected(&mut world, station, HOME);
        let line = stay_connected(&mut world, a, station);
        world.hold_pushes(line, true);
        let file = world.create(a, ROOT, "film");
        world.store(a, file, big("film"));
        world.pass(Duration::from_secs(3));
        let copy = world.snapshot(HOME);
        let root = big("film").root().unwrap();
        assert!(!world.hosts[HOME].chunks.contains(&root), "{case}: it is at its writer only");
        world.hold_pushes(line, false);
        if writes_later {
            world.create(a, ROOT, "later");
        }
        assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
        world.pass(Duration::from_secs(3));
        assert!(world.hosts[a].replica.ledger().unwrap().home_lacks.is_nothing(), "{case}");

        world.restore(HOME, copy, 4);
        world.hosts[HOME].chunks.remove(&root);
        let lines = [(station, HOME), (a, station)];
        rejoin_without_contents(&mut world, &lines);
        if restarts {
            world.crash(a, 0);
            rejoin_without_contents(&mut world, &lines);
        }
        assert!(!world.hosts[HOME].chunks.contains(&root) && !is_stable(&world, a, file), "{case}");
        let lacks = world.hosts[a].replica.ledger().unwrap().home_lacks;
        assert_eq!((lacks.versions, lacks.bytes), (1, big("film").size()), "{case}: {lacks:?}");

        let_go(&mut world, &lines);
        assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached), "{case}");
        assert!(world.hosts[HOME].chunks.contains(&root), "{case}");
        let lacks = world.hosts[a].replica.ledger().unwrap().home_lacks;
        assert!(lacks.is_nothing(), "{case}: {lacks:?}");
    }
}

/// The same where the writer is at the home itself, and nobody else has them.
#[test]
fn contents_that_a_home_lost_come_again_from_a_writer_that_is_there() {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    let line = world.connect(a, HOME);
    world.settle();
    world.hold_pushes(line, true);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("film"));
    world.create(a, ROOT, "later");
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let root = big("film").root().unwrap();
    assert!(!world.hosts[HOME].chunks.contains(&root), "it is at its writer only");
    world.hold_pushes(line, false);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.restore(HOME, copy, 4);
    world.hosts[HOME].chunks.remove(&root);
    rejoin(&mut world, &[(a, HOME)]);
    assert!(world.hosts[HOME].chunks.contains(&root) == is_stable(&world, a, file));
    world.pass(Duration::from_secs(150));
    assert!(world.hosts[HOME].chunks.contains(&root));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert!(is_stable(&world, a, file));
    for host in [HOME, a] {
        let ledger = world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "host {host}: {ledger:?}");
    }
}

/// Claims 32022: a client that took back what it had been told waits for the word of a parent that had told it already.
#[test]
fn who_waits_for_stable_is_told_again_how_far_it_has_come() {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, a, HOME);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    let replica = &mut world.hosts[a].replica;
    replica.forget_stable().unwrap();
    replica.commit().unwrap();
    assert!(!is_stable(&world, a, file));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert!(is_stable(&world, a, file));
}
