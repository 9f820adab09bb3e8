//! A client that goes on under another number since its home was put back, when that happens once more.

use super::forking::{assert_all_there, named, stay_connected, write};
use super::put_back::{first_life, rejoin};
use super::put_back_contents::{ASKED, is_declared, let_go};
use super::world::{HOME, World, big, small};
use crate::testing::MemoryStore;
use crate::{Input, Output, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Level};
use wayfs_types::{Admitted, FileId};

const ROOT: FileId = FileId::ROOT;

/// A client goes on under another number since its home was put back, and then that is put back once more, to before it gave the
/// number. Answers the client.
fn put_back_twice(first: impl FnOnce(&mut World, usize), second: impl FnOnce(&mut World, usize)) -> (World, usize) {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, a, HOME);
    let oldest = world.snapshot(HOME);
    first(&mut world, a);
    let older = world.snapshot(HOME);
    second(&mut world, a);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    for (copy, life) in [(older, 4), (oldest, 5)] {
        let number = world.hosts[a].replica.config().origin;
        world.restore(HOME, copy, life);
        world.hosts[HOME].chunks.clear();
        let knows = world.hosts[HOME].replica.origins().unwrap().iter().any(|(origin, _)| *origin == number);
        assert!(knows || world.admit_again(HOME, a, number));
        rejoin(&mut world, &[(a, HOME)]);
        assert_ne!(world.hosts[a].replica.config().origin, number, "it goes on as another member");
    }
    (world, a)
}

/// Seed 648 of `home-back`: a client says of a number that it had before, and that its home has forgotten, that contents are gone.
#[test]
fn who_speaks_of_a_number_that_the_home_has_forgotten_is_heard() {
    let write = |name: &'static str| {
        move |world: &mut World, a: usize| {
            let file = world.create(a, ROOT, name);
            world.store(a, file, big(name));
            assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
            let_go(world, a, &big(name));
        }
    };
    let (mut world, a) = put_back_twice(write("one"), write("two"));
    assert!(world.has_session(a), "its session stays");
    world.pass(ASKED);
    assert!(world.has_session(a), "its session stays");
    let ended = |event: &Output| matches!(event, Output::Disconnect { reason, .. } if reason.contains("another's"));
    assert!(!world.hosts[HOME].events.iter().any(ended), "and none ended");
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["one", "two"]);
    assert!(is_declared(&world), "nobody has their bytes");
    for host in [HOME, a] {
        let ledger = world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "nor does anybody wait for them at {host}: {ledger:?}");
    }
}

/// What it wrote under the number before the last one it has cached, and nobody else has it.
#[test]
fn what_was_written_under_an_earlier_number_is_written_again_too() {
    let write = |name: &'static str| {
        move |world: &mut World, a: usize| {
            let file = world.create(a, ROOT, name);
            world.store(a, file, big(name));
            assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
        }
    };
    let (mut world, a) = put_back_twice(write("one"), write("two"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["one", "two"]);
    for content in [big("one"), big("two")] {
        assert!(world.hosts[HOME].chunks.contains(&content.root().unwrap()), "{content:?}");
    }
    world.pass(ASKED);
    let ledger = world.hosts[a].replica.ledger().unwrap();
    assert!(ledger.home_lacks.is_nothing(), "{ledger:?}");
}

fn make_stable(world: &mut World, host: usize, name: &str) {
    let file = world.create(host, ROOT, name);
    world.store(host, file, big(name));
    assert_eq!(world.wait(host, Level::Stable), Ok(Answer::Reached));
}

/// A client wrote a file under each of two numbers.
fn of_two_numbers(world: &mut World, a: usize) {
    stay_connected(world, a, HOME);
    make_stable(world, a, "one");
    let older = world.snapshot(HOME);
    make_stable(world, a, "two");
    world.restore(HOME, older, 4);
    let former = world.hosts[a].replica.config().origin;
    rejoin(world, &[(a, HOME)]);
    assert_ne!(world.hosts[a].replica.config().origin, former, "it goes on as another member");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
}

fn put_back_to_nothing(world: &mut World, oldest: MemoryStore) {
    world.restore(HOME, oldest, 5);
    world.hosts[HOME].chunks.clear();
}

fn assert_both_are_there(world: &mut World) {
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["one", "two"]);
    for content in [big("one"), big("two")] {
        assert!(world.hosts[HOME].chunks.contains(&content.root().unwrap()), "{content:?}");
    }
}

/// It comes by way of a station, which has heard of nothing: what the home has of each number it says when it has caught up.
#[test]
fn what_was_written_under_an_earlier_number_is_written_again_by_way_of_a_station_too() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    world.settle();
    let oldest = world.snapshot(HOME);
    of_two_numbers(&mut world, a);
    put_back_to_nothing(&mut world, oldest);
    let number = world.hosts[a].replica.config().origin;
    assert!(world.admit_again(HOME, a, number));
    rejoin(&mut world, &[(station, HOME), (a, station)]);
    assert_ne!(world.hosts[a].replica.config().origin, number, "it goes on as another member");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_both_are_there(&mut world);
}

/// Its home does not know it at all, and it comes with a new ticket.
#[test]
fn who_is_taken_in_anew_writes_again_what_it_wrote_under_all_its_numbers() {
    let mut world = first_life();
    let oldest = world.snapshot(HOME);
    let a = world.add(Role::Client, "ann@a");
    of_two_numbers(&mut world, a);
    put_back_to_nothing(&mut world, oldest);
    let (now, wall, node) = (world.now, world.wall(), world.hosts[a].replica.config().node);
    let home = &mut world.hosts[HOME].replica;
    let granted = home.grant_origin(now, wall, node, Admitted::Client, "ann@a").unwrap();
    world.hosts[a].replica.adopt_origin(now, wall, granted).unwrap();
    for host in [HOME, a] {
        world.input(host, Input::Tick);
    }
    rejoin(&mut world, &[(a, HOME)]);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_both_are_there(&mut world);
}

/// Seed 9833204 of `home-back`, `station-back` and `station-gone`: a client hears of its station that this was put back, and gets its new
/// number from the home, which was put back to before all that the client wrote.
#[test]
fn who_noticed_a_loss_at_its_station_writes_again_what_its_home_lost_too() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "ben@b"));
    for (child, parent) in [(station, HOME), (a, station), (b, HOME)] {
        stay_connected(&mut world, child, parent);
        world.names(child, ROOT).unwrap();
    }
    let store = world.snapshot(station);
    world.restore(station, store, 7);
    rejoin(&mut world, &[(station, HOME), (a, station)]);
    let home = world.snapshot(HOME);
    let (early, late) = (named("early", 2), named("late", 2));
    write(&mut world, a, &early);
    write(&mut world, b, &named("other", 1));
    world.pass(Duration::from_secs(3));
    let older = world.snapshot(station);
    write(&mut world, a, &late);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    for child in [station, a, b] {
        let line = world.line_of(child);
        world.close(line);
    }
    world.restore(HOME, home, 4);
    rejoin(&mut world, &[(b, HOME)]);
    world.restore(station, older, 8);
    world.connect(a, station);
    world.settle();
    world.destroy(station);
    rejoin(&mut world, &[(a, HOME)]);
    for names in [&early, &late] {
        assert_all_there(&mut world, HOME, names);
    }
    world.check_tree(HOME);
}

/// Seed 14002347 of `home-back` and `station-back`: what a client stored into another's file became a copy at a home that did not have that
/// file. When the home was put back once more, the client wrote the copy again, and over it what had been stored into the file.
#[test]
fn what_became_a_copy_is_not_written_again_over_what_that_came_to_hold() {
    let mut world = first_life();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let lines = [a, b].map(|client| stay_connected(&mut world, client, HOME));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let file = world.create(b, ROOT, "shared");
    world.store(b, file, small("of bob"));
    world.pass(Duration::from_secs(3));
    world.lookup(a, ROOT, "shared").unwrap();
    write(&mut world, a, &named("own", 1));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    for line in lines {
        world.close(line);
    }
    world.store(a, file, small("of ann"));
    world.restore(HOME, copy.clone(), 4);
    // The name of the file is another's.
    let c = world.add(Role::Client, "carl@c");
    stay_connected(&mut world, c, HOME);
    write(&mut world, c, &["shared".to_owned()]);
    rejoin(&mut world, &[(a, HOME)]);
    let names = world.names(a, ROOT).unwrap();
    let name = names.iter().find(|name| name.contains(".conflict-")).expect("bob's file is not there: it is a copy");
    let (kept, _) = world.lookup(a, ROOT, name).unwrap();
    world.store(a, kept, small("later"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.restore(HOME, copy, 5);
    let number = world.hosts[a].replica.config().origin;
    assert!(world.admit_again(HOME, a, number));
    rejoin(&mut world, &[(a, HOME)]);
    let names = world.names(HOME, ROOT).unwrap();
    let held: Vec<_> = names.iter().map(|name| world.lookup(HOME, ROOT, name).unwrap().1.content.clone()).collect();
    assert!(held.contains(&small("later")), "{names:?} {held:?}");
    assert!(!held.contains(&small("of ann")), "what was written over does not come back: {names:?} {held:?}");
    world.check_tree(HOME);
    world.assert_agrees(a);
}

/// Seed 60000451 of `home-back` with `station-back`: a home that was put back tells a station of a name that had gone, and the station
/// renames again what it stands for. Before it has sent that, the home is put back to after the name had gone.
#[test]
fn a_name_that_only_the_home_before_this_one_had_is_gone() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    let upper = stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, a, HOME);
    world.names(a, ROOT).unwrap();
    world.create(a, ROOT, "old");
    world.pass(Duration::from_secs(3));
    let older = world.snapshot(HOME);
    // The home keeps no trace of what is gone: it tells what it has.
    world.hosts[HOME].replica.keep_traces(0);
    world.rename(a, (ROOT, "old"), (ROOT, "new")).unwrap();
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(station, ROOT).unwrap(), ["new"]);
    let newer = world.snapshot(HOME);
    world.close(line);
    world.close(upper);

    world.configure(station, |config| config.reconcile_gather = Duration::from_secs(600));
    world.restore(HOME, older, 9);
    rejoin(&mut world, &[(station, HOME)]);
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["old"]);
    assert_eq!(world.names(station, ROOT).unwrap(), ["new"], "it was renamed again");
    let line = world.line_of(station);
    world.close(line);
    world.restore(HOME, newer, 10);
    world.configure(station, |config| config.reconcile_gather = Duration::from_secs(1));
    rejoin(&mut world, &[(station, HOME), (a, HOME)]);
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["new"]);
    assert_eq!(world.names(station, ROOT).unwrap(), ["new"]);
    world.assert_agrees(station);
}
