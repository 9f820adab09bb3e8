//! Locks after a server was restarted and knows of none ([S-lock-lost], decision 0047).

use super::exclusive::{FIRST_LIFE, Site, whole};
use super::world::{HOME, World};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, Request};
use wayfs_types::{FileId, FsError};

/// Proves [S-lock-lost]. The simulator found it (seed 8021703): a home that was restarted gave a lock to another before its holder was back to claim it, and
/// the holder let go of it in the moment before it heard that.
#[test]
fn a_restarted_home_gives_no_lock_of_one_who_is_on_its_way_back() {
    let (mut site, file) = one_is_away();
    for wait in [false, true] {
        let theirs = site.lock(1, file, wait);
        site.world.settle();
        assert_eq!(site.answer(1, theirs), None, "who had it is not back");
    }
    site.unlock(0, file);
    let station = site.stations[0];
    site.world.connect(station, HOME);
    site.world.settle();
    site.is_held(1, file);
}

/// Its holder keeps it, if it is back in time.
#[test]
fn who_comes_back_to_a_restarted_home_has_its_lock_still() {
    let (mut site, file) = one_is_away();
    let theirs = site.lock(1, file, false);
    site.world.pass(Duration::from_secs(7));
    assert_eq!(site.answer(1, theirs), None);
    let station = site.stations[0];
    site.world.connect(station, HOME);
    site.world.settle();
    assert_eq!(site.answer(1, theirs), Some(Err(FsError::Locked)));
    site.is_held(0, file);
    site.unlock(0, file);
    site.world.settle();
    site.take(1, file);
}

#[test]
fn what_is_in_the_way_is_told_when_it_is_known() {
    let (mut site, file) = one_is_away();
    let test = site.test(1, file);
    site.world.settle();
    assert_eq!(site.answer(1, test), None);
    let station = site.stations[0];
    site.world.connect(station, HOME);
    site.world.settle();
    assert!(matches!(site.answer(1, test), Some(Ok(Answer::Lock(Some(_))))));
}

/// Two leases after the start at the latest nobody thinks any more that he has one.
#[test]
fn a_restarted_home_waits_for_no_station_longer_than_its_clients_may_think_that_they_have_a_lock() {
    let (mut site, file) = one_is_away();
    site.world.pass(Duration::from_secs(19));
    let theirs = site.lock(1, file, false);
    let test = site.test(1, file);
    site.world.settle();
    assert_eq!([theirs, test].map(|id| site.answer(1, id)), [None, None]);
    site.world.pass(Duration::from_secs(2));
    assert_eq!(site.answer(1, theirs), Some(Ok(Answer::Done)));
    assert_eq!(site.answer(1, test), Some(Ok(Answer::Lock(None))));
    let station = site.stations[0];
    site.world.connect(station, HOME);
    site.world.settle();
    assert_eq!(site.release(0, file), Err(FsError::Io));
}

/// Its clients come back to it in that time.
#[test]
fn a_station_that_was_restarted_with_its_home_takes_no_lock_away() {
    let mut site = Site::new();
    site.restart_station(FIRST_LIFE);
    let file = site.created(0, "x");
    site.take(0, file);
    for second in [false, true] {
        site.restart_home();
        site.restart_station(FIRST_LIFE + 1 + u32::from(second));
        let station = site.stations[1];
        site.world.connect(station, HOME);
        site.world.settle();
    }
    let theirs = site.lock(1, file, true);
    site.world.pass(Duration::from_secs(5));
    assert_eq!(site.answer(1, theirs), None, "the station does not know what its client has");
    let (station, client) = (site.stations[0], site.clients[0]);
    site.world.connect(client, station);
    site.world.pass(Duration::from_secs(30));
    assert_eq!(site.answer(1, theirs), None);
    site.unlock(0, file);
    site.world.settle();
    assert_eq!(site.answer(1, theirs), Some(Ok(Answer::Done)));
}

/// Seed 163008067 of the simulator: a station that was restarted asked for a lock for another of its clients, and the home gave it, since
/// the station had it in its former life. That was for a client that thought to have it still.
#[test]
fn a_station_that_was_restarted_takes_no_lock_from_one_of_its_clients_for_another() {
    let mut site = Site::new();
    site.restart_station(FIRST_LIFE);
    let file = site.created(0, "x");
    site.take(0, file);
    site.restart_station(FIRST_LIFE + 1);
    let (station, [client, other]) = (site.stations[0], site.clients);
    site.world.connect(other, station);
    site.world.pass(Duration::from_secs(3));
    let theirs = site.lock(1, file, true);
    site.world.pass(Duration::from_secs(2));
    assert_eq!(site.answer(1, theirs), None, "who had it may be on its way back");
    site.world.connect(client, station);
    site.world.pass(Duration::from_secs(3));
    assert_eq!(site.answer(1, theirs), None);
    site.unlock(0, file);
    site.world.settle();
    assert_eq!(site.answer(1, theirs), Some(Ok(Answer::Done)));
}

/// Who had none for a lease or more is not waited for, nor are those who change names and contents.
#[test]
fn a_restarted_home_gives_at_once_what_nobody_had() {
    let mut site = Site::new();
    let file = site.created(0, "x");
    site.take(0, file);
    site.unlock(0, file);
    site.take(1, file);
    site.world.pass(Duration::from_secs(25));
    site.restart_home();
    let station = site.stations[1];
    site.world.connect(station, HOME);
    site.world.settle();
    let (theirs, free) = (site.lock(1, file, false), site.lock(0, file, false));
    site.world.settle();
    assert_eq!(site.answer(1, theirs), Some(Ok(Answer::Done)), "it has it still");
    assert_eq!(site.answer(0, free), Some(Err(FsError::Unreachable)));
    let other = site.created(1, "y");
    site.take(1, other);
}

#[test]
fn changes_do_not_wait_for_those_who_may_have_locks() {
    let (mut site, _) = one_is_away();
    site.created(1, "y");
}

#[test]
fn who_waits_for_a_restarted_home_and_gives_up_is_given_nothing() {
    let (mut site, file) = one_is_away();
    let given_up = site.lock(1, file, true);
    site.world.settle();
    let client = site.clients[1];
    site.world.input(client, crate::Input::Cancel { id: given_up });
    site.world.settle();
    assert_eq!(site.answer(1, given_up), Some(Err(FsError::Interrupted)));
    // One whose session ends waits no more either.
    site.lock(1, file, true);
    site.world.settle();
    site.world.destroy(site.stations[1]);
    let station = site.stations[0];
    site.world.connect(station, HOME);
    site.world.settle();
    site.unlock(0, file);
    site.world.settle();
    site.take(0, file);
}

/// A home that took the place of another knows of no lock, and not who had some.
#[test]
fn a_station_that_takes_the_place_of_the_home_gives_no_lock_before_all_must_know_that_theirs_are_lost() {
    let mut site = Site::new();
    let file = site.created(0, "x");
    site.take(0, file);
    let [away, next] = site.stations;
    site.world.destroy(HOME);
    site.world.promote(next, 40);
    let client = site.clients[1];
    site.world.connect(client, next);
    site.world.pass(Duration::from_secs(3));
    let theirs = site.lock(1, file, true);
    site.world.settle();
    assert_eq!(site.answer(1, theirs), None);
    for _ in 0..8 {
        for (host, parent) in [(away, next), (site.clients[0], away), (client, next)] {
            if !site.world.has_session(host) {
                site.world.connect(host, parent);
            }
        }
        site.world.pass(Duration::from_secs(3));
    }
    // Its holder goes on under another origin, for which nobody keeps it.
    assert_eq!(site.answer(1, theirs), Some(Ok(Answer::Done)));
    assert_eq!(site.release(0, file), Err(FsError::Io));
}

/// Two clients of one server, in a directory that is not exclusive: the first has a lock, and the server is restarted.
#[test]
fn a_restarted_server_gives_no_lock_of_its_client_that_is_on_its_way_back() {
    for is_back in [false, true] {
        let mut world = World::new();
        let clients = ["ann@a", "bob@b"].map(|label| world.add(Role::Client, label));
        for client in clients {
            world.connect(client, HOME);
        }
        world.settle();
        let file = world.create(clients[0], FileId::ROOT, "x");
        world.pass(Duration::from_secs(3));
        assert_eq!(world.ask(clients[0], Request::Lock(whole(file, false))), Ok(Answer::Done));
        let store = world.snapshot(HOME);
        world.restore(HOME, store, 40);
        world.connect(clients[1], HOME);
        world.settle();
        let theirs = world.request_within(clients[1], Request::Lock(whole(file, true)), Duration::from_secs(60));
        world.pass(Duration::from_secs(8));
        assert_eq!(world.answer(clients[1], theirs), None);
        if is_back {
            world.connect(clients[0], HOME);
            world.pass(Duration::from_secs(20));
            assert_eq!(world.answer(clients[1], theirs), None);
        } else {
            world.pass(Duration::from_secs(3));
            assert_eq!(world.answer(clients[1], theirs), Some(Ok(Answer::Done)));
        }
    }
}

/// Nobody is told that he has a lock of which a restarted server would not know that somebody has some.
#[test]
fn a_server_without_room_on_its_disk_gives_no_first_lock() {
    let mut world = World::new();
    let client = world.add(Role::Client, "ann@a");
    world.connect(client, HOME);
    world.settle();
    let file = world.create(client, FileId::ROOT, "x");
    world.pass(Duration::from_secs(3));
    world.hosts[HOME].replica.store_mut().set_room(Some(0));
    assert_eq!(world.ask(client, Request::Lock(whole(file, false))), Err(FsError::NoLocks));
    world.hosts[HOME].replica.store_mut().set_room(None);
    assert_eq!(world.ask(client, Request::Lock(whole(file, false))), Ok(Answer::Done));
}

/// A home was restarted while the first client had a lock. Its station is not back yet, the other one is.
fn one_is_away() -> (Site, FileId) {
    let mut site = Site::new();
    let file = site.created(0, "x");
    site.take(0, file);
    site.restart_home();
    let station = site.stations[1];
    site.world.connect(station, HOME);
    site.world.settle();
    (site, file)
}
