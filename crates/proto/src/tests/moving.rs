//! A client changes its station.

use super::world::{HOME, World, big, name, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Request, RequestId};
use wayfs_types::{FileId, FsError};

pub(super) fn two_stations() -> (World, [usize; 2], usize, [crate::PeerId; 2]) {
    let mut world = World::new();
    let stations = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
    let client = world.add(Role::Client, "ann@a");
    let peers = stations.map(|station| world.connect(station, HOME));
    world.settle();
    (world, stations, client, peers)
}

/// The same with a second client, which has no parent yet.
pub(super) fn two_stations_and_two_clients() -> (World, [usize; 2], [usize; 2], [crate::PeerId; 2]) {
    let (mut world, stations, client, uppers) = two_stations();
    let other = world.add(Role::Client, "ben@b");
    world.settle();
    world.pass(Duration::from_secs(2));
    (world, stations, [client, other], uppers)
}

#[test]
fn updates_and_the_past_move_along() {
    let (mut world, [s1, s2], client, [upper, _]) = two_stations();
    let peer = world.connect(client, s1);
    world.settle();
    let dir = world.mkdir(client, FileId::ROOT, "d");
    let file = world.create(client, dir, "f");
    world.store(client, file, small("one"));
    // The first station keeps it all to itself.
    world.close(upper);
    world.store(client, file, small("two"));
    world.settle();
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    world.close(peer);
    world.connect(client, s2);
    world.settle();
    assert_eq!(world.lookup(client, dir, "f").unwrap().1.content, small("two"));
    let other = world.create(client, dir, "g");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("two"));
    assert_eq!(world.hosts[HOME].replica.path_of(other).unwrap().as_deref(), Some("/d/g"));
    // The first one comes back with what is long known.
    world.connect(s1, HOME);
    world.pass(Duration::from_secs(3));
    for host in [s1, s2, client] {
        world.assert_agrees(host);
        assert!(world.hosts[host].replica.is_settled(), "host {host}");
    }
    assert!(world.hosts[HOME].replica.conflicts(None, 9).unwrap().is_empty());
}

/// Seed 3209101: a client removes by way of a second station what another wrote at the first, which is cut off meanwhile.
#[test]
fn what_was_removed_by_way_of_another_station_does_not_come_back() {
    for contents in [["seen", "upon it"].map(small), ["seen", "upon it"].map(big)] {
        let (mut world, [s1, s2], [a, b], [upper, _]) = two_stations_and_two_clients();
        let peers = [a, b].map(|client| world.connect(client, s1));
        world.settle();
        let file = world.create(a, FileId::ROOT, "f");
        world.pass(Duration::from_secs(3));
        world.close(upper);
        let [seen, upon] = contents;
        world.store(a, file, seen.clone());
        world.settle();
        assert_eq!(world.lookup(b, FileId::ROOT, "f").unwrap().1.content, seen);
        world.store(b, file, upon);
        world.settle();
        world.close(peers[1]);
        world.connect(b, s2);
        world.settle();
        world.change(b, Change::Unlink { parent: FileId::ROOT, name: name("f") }).unwrap();
        world.pass(Duration::from_secs(3));
        assert!(world.names(HOME, FileId::ROOT).unwrap().is_empty());
        world.connect(s1, HOME);
        world.pass(Duration::from_secs(60));
        assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
        for host in [HOME, s1, s2, a, b] {
            assert!(world.names(host, FileId::ROOT).unwrap().is_empty(), "host {host}");
            assert!(world.hosts[host].replica.is_settled(), "host {host}");
        }
        assert!(world.hosts[HOME].replica.conflicts(None, 9).unwrap().is_empty());
    }
}

#[test]
fn a_new_parent_vouches_for_nothing_that_the_kernel_has_cached() {
    let (mut world, [s1, s2], client, _) = two_stations();
    let peer = world.connect(client, s1);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    world.close(peer);
    let back = world.connect(client, s1);
    world.settle();
    let expires = |world: &World| world.hosts[client].events.contains(&crate::Output::InvalidateAll);
    world.close(back);
    world.hosts[client].events.clear();
    world.connect(client, s1);
    world.settle();
    assert!(!expires(&world), "the same parent tells what changed");
    world.connect(client, s2);
    world.settle();
    assert!(expires(&world));
}

#[test]
fn a_client_that_moved_hears_at_a_station_that_never_carried_its_records_when_they_are_stable() {
    let (mut world, [s1, _], client, _) = two_stations();
    let direct = world.connect(client, HOME);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    world.stall(direct, true);
    world.create(client, FileId::ROOT, "f");
    world.settle();
    // The home takes it, and its answer is lost.
    world.step_up(direct, 1);
    world.settle();
    world.close(direct);
    world.connect(client, s1);
    world.settle();
    assert_eq!(world.wait(client, Level::Visible), Ok(Answer::Reached));
    assert_eq!(world.wait(client, Level::Stable), Ok(Answer::Reached));
}

#[test]
fn a_client_goes_from_station_to_home_and_back_while_it_writes() {
    let (mut world, [s1, s2], client, _) = two_stations();
    let dir = {
        let peer = world.connect(client, s1);
        world.settle();
        let dir = world.mkdir(client, FileId::ROOT, "d");
        world.close(peer);
        dir
    };
    for round in 0..30 {
        let parent = [s1, s2, HOME][round % 3];
        let peer = world.connect(client, parent);
        for _ in 0..round * 3 % 17 {
            world.step();
        }
        world.create(client, dir, &format!("f{round:02}"));
        for _ in 0..round * 5 % 23 {
            world.step();
        }
        world.close(peer);
    }
    world.connect(client, s2);
    world.pass(Duration::from_secs(10));
    assert_eq!(world.names(HOME, dir).unwrap().len(), 30);
    for host in [s1, s2, client] {
        world.assert_agrees(host);
        assert!(world.hosts[host].replica.is_settled(), "host {host}");
    }
}

/// A client whose update the home has by way of the first station, moved to the second, which has not heard of it. In
/// the directory lies a file that it has not seen.
fn ahead_of_its_station() -> (World, usize, FileId, usize) {
    let (mut world, [s1, s2], [client, other], [_, upper]) = two_stations_and_two_clients();
    world.close(upper);
    let peer = world.connect(client, s1);
    world.connect(other, s1);
    world.settle();
    let dir = world.mkdir(other, FileId::ROOT, "d");
    world.create(other, dir, "f");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(client, FileId::ROOT, "d").unwrap().0, dir);
    world.create(client, FileId::ROOT, "own");
    world.pass(Duration::from_secs(3));
    world.close(peer);
    world.connect(client, s2);
    world.settle();
    (world, client, dir, s2)
}

fn lookup(world: &mut World, client: usize, parent: FileId, text: &str) -> RequestId {
    world.request_within(client, Request::Lookup { parent, name: name(text) }, Duration::from_secs(30))
}

#[test]
fn what_is_asked_during_a_move_is_answered_by_the_new_parent() {
    let (mut world, [s1, s2], [client, other], _) = two_stations_and_two_clients();
    world.connect(other, s1);
    world.settle();
    let dir = world.mkdir(other, FileId::ROOT, "d");
    world.pass(Duration::from_secs(3));
    let peer = world.connect(client, s1);
    world.settle();
    world.stall(peer, true);
    let id = lookup(&mut world, client, FileId::ROOT, "d");
    world.settle();
    assert_eq!(world.answer(client, id), None, "the first station does not answer");
    // The session that is replaced is over in the same step.
    world.connect(client, s2);
    world.settle();
    let answer = world.answer(client, id);
    assert!(matches!(&answer, Some(Ok(Answer::File(file, _))) if *file == dir), "{answer:?}");
}

#[test]
fn who_moved_waits_a_while_for_a_station_that_is_behind() {
    let (mut world, client, dir, station) = ahead_of_its_station();
    let id = lookup(&mut world, client, dir, "f");
    world.pass(Duration::from_secs(4));
    assert_eq!(world.answer(client, id), None, "not cached, and the station is there");
    assert_eq!(world.lookup(client, FileId::ROOT, "d").unwrap().0, dir, "what is cached is served meanwhile");
    world.connect(station, HOME);
    world.pass(Duration::from_secs(2));
    assert!(matches!(world.answer(client, id), Some(Ok(Answer::File(..)))), "{:?}", world.answer(client, id));
}

#[test]
fn who_moved_to_a_station_that_stays_behind_is_told_so() {
    let (mut world, client, dir, _) = ahead_of_its_station();
    let id = lookup(&mut world, client, dir, "f");
    world.pass(Duration::from_secs(15));
    assert_eq!(world.answer(client, id), Some(Err(FsError::Unreachable)));
    let id = lookup(&mut world, client, dir, "f");
    world.settle();
    assert_eq!(world.answer(client, id), Some(Err(FsError::Unreachable)), "at once from then on");
}

/// Proves [S-move].
#[test]
fn the_echo_of_an_old_record_does_not_hide_what_was_seen_since() {
    for to_home in [false, true] {
        let (mut world, [s1, s2], [client, other], [upper, _]) = two_stations_and_two_clients();
        let first = world.connect(client, s1);
        world.connect(other, s1);
        world.settle();
        let file = world.create(client, FileId::ROOT, "f");
        let dir = world.mkdir(client, FileId::ROOT, "d");
        world.pass(Duration::from_secs(3));
        world.close(upper);
        for host in [client, other] {
            world.lookup(host, FileId::ROOT, "f").unwrap();
            world.names(host, dir).unwrap();
        }
        world.store(client, file, small("mine"));
        world.create(client, dir, "g");
        world.create(client, dir, "k");
        world.settle();
        world.store(other, file, small("his"));
        world.lookup(other, dir, "g").unwrap();
        world.rename(other, (dir, "g"), (dir, "h")).unwrap();
        world.lookup(other, dir, "k").unwrap();
        world.change(other, Change::Unlink { parent: dir, name: name("k") }).unwrap();
        world.settle();
        assert_eq!(world.lookup(client, FileId::ROOT, "f").unwrap().1.content, small("his"));
        assert_eq!(world.names(client, dir).unwrap(), ["h"]);
        world.close(first);
        let second = world.connect(client, if to_home { HOME } else { s2 });
        world.pass(Duration::from_secs(3));
        let id = lookup(&mut world, client, FileId::ROOT, "f");
        world.pass(Duration::from_secs(15));
        let answer = world.answer(client, id);
        let is_his = |inode: &wayfs_types::Inode| inode.content == small("his");
        assert!(matches!(&answer, Some(Ok(Answer::File(_, inode))) if is_his(inode)), "{answer:?}");
        assert_eq!(world.names(client, dir).unwrap(), ["h"]);
        world.close(second);
        world.settle();
        assert_eq!(world.lookup(client, FileId::ROOT, "f").unwrap().1.content, small("his"), "offline");
        assert_eq!(world.names(client, dir).unwrap(), ["h"], "offline");
        world.connect(s1, HOME);
        world.connect(client, s2);
        world.pass(Duration::from_secs(6));
        assert_eq!(world.lookup(client, FileId::ROOT, "f").unwrap().1.content, small("his"));
        assert_eq!(world.names(client, dir).unwrap(), ["h"]);
        world.assert_agrees(client);
    }
}

/// Proves [S-move].
#[test]
fn an_answer_about_a_name_does_not_hide_what_was_seen_of_the_file_behind_it() {
    let (mut world, [s1, _], [client, other], [upper, _]) = two_stations_and_two_clients();
    let first = world.connect(client, s1);
    world.connect(other, s1);
    world.settle();
    let file = world.create(other, FileId::ROOT, "before");
    world.pass(Duration::from_secs(3));
    world.close(upper);
    world.store(other, file, small("new"));
    world.rename(other, (FileId::ROOT, "before"), (FileId::ROOT, "after")).unwrap();
    world.settle();
    assert_eq!(world.lookup(client, FileId::ROOT, "after").unwrap().1.content, small("new"));
    world.close(first);
    world.connect(client, HOME);
    world.pass(Duration::from_secs(1));
    // For the home, the file still has its former name, and its former content.
    let id = lookup(&mut world, client, FileId::ROOT, "before");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.answer(client, id), None, "the home is behind");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.answer(client, id), Some(Err(FsError::Unreachable)));
    let id = world.request_within(client, Request::Attributes { file }, Duration::from_secs(30));
    world.pass(Duration::from_secs(15));
    let answer = world.answer(client, id);
    assert!(matches!(&answer, Some(Ok(Answer::File(_, inode))) if inode.content == small("new")), "{answer:?}");
    world.connect(s1, HOME);
    world.pass(Duration::from_secs(6));
    assert_eq!(world.lookup(client, FileId::ROOT, "before"), Err(FsError::NotFound));
    assert_eq!(world.lookup(client, FileId::ROOT, "after").unwrap().1.content, small("new"));
    world.assert_agrees(client);
}

/// Where an update met a conflict, the file is not what that update made of it.
#[test]
fn what_met_a_conflict_at_the_new_parent_is_seen_in_its_copy_only() {
    let (mut world, [s1, s2], [client, other], _) = two_stations_and_two_clients();
    let first = world.connect(client, s1);
    world.connect(other, s2);
    world.settle();
    let file = world.create(other, FileId::ROOT, "f");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(client, FileId::ROOT).unwrap(), ["f"]);
    // What was sent is not folded into what comes later, though it never arrived.
    world.stall(first, true);
    world.store(client, file, small("mine"));
    world.store(other, file, small("his"));
    world.pass(Duration::from_millis(100));
    world.close(first);
    // More than may be under way, so that the last is not confirmed when the first is.
    world.configure(client, |config| config.records_in_flight_max = 64);
    for number in 0..70 {
        world.create(client, FileId::ROOT, &format!("g{number}"));
    }
    world.store(client, file, small("mine too"));
    let second = world.connect(client, s2);
    world.settle();
    world.close(second);
    let listed = world.names(client, FileId::ROOT).unwrap();
    let copy = listed.iter().find(|name| name.starts_with("f.conflict")).unwrap().clone();
    assert_eq!(world.lookup(client, FileId::ROOT, &copy).unwrap().1.content, small("mine too"));
    assert_eq!(world.lookup(client, FileId::ROOT, "f").unwrap().1.content, small(""));
    world.connect(client, s2);
    world.pass(Duration::from_secs(6));
    assert_eq!(world.lookup(client, FileId::ROOT, "f").unwrap().1.content, small("his"));
    world.assert_agrees(client);
}

/// Seed 179033538: it led to the copy by both names, and what was moved by the first was moved from the second.
#[test]
fn a_name_that_met_another_at_the_new_parent_leads_to_its_copy_no_more() {
    let (mut world, [s1, s2], [client, other], _) = two_stations_and_two_clients();
    let first = world.connect(client, s1);
    world.connect(other, s2);
    world.settle();
    assert!(world.names(client, FileId::ROOT).unwrap().is_empty());
    world.stall(first, true);
    let made = world.create(client, FileId::ROOT, "f");
    world.mkdir(other, FileId::ROOT, "f");
    world.pass(Duration::from_millis(100));
    world.close(first);
    let second = world.connect(client, s2);
    world.settle();
    world.close(second);
    let shown = |world: &World| world.hosts[client].replica.entry(FileId::ROOT, &name("f")).unwrap();
    assert_ne!(shown(&world).map(|entry| entry.file), Some(made));
    let inode = world.hosts[client].replica.inode(made).unwrap().unwrap();
    assert!(inode.places[0].name.to_string().starts_with("f.conflict"), "{:?}", inode.places);
    world.connect(client, s2);
    world.pass(Duration::from_secs(6));
    assert!(world.lookup(client, FileId::ROOT, "f").unwrap().1.is_directory());
    world.assert_agrees(client);
}

/// [S-move] Seeds 127 and 164 of the simulator, with stations that are gone: a directory in which a machine had seen what
/// died with its writer and its station could not be listed for ever.
#[test]
fn what_was_seen_and_is_gone_with_all_who_had_it_is_given_up_in_time() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let (writer, reader) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let line = world.connect(station, HOME);
    world.connect(writer, station);
    let seen_at = world.connect(reader, station);
    world.pass(Duration::from_secs(1));
    world.create(writer, FileId::ROOT, "kept");
    world.names(reader, FileId::ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    world.close(line);
    let dir = world.mkdir(writer, FileId::ROOT, "gone");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.names(reader, FileId::ROOT).unwrap(), ["gone", "kept"]);
    world.close(seen_at);
    world.destroy(writer);
    world.destroy(station);
    world.configure(reader, |config| config.seen_kept = Duration::from_secs(60));
    world.connect(reader, HOME);
    world.pass(Duration::from_secs(20));
    assert!(world.names(reader, dir).is_err(), "what was seen is not undone at once, and cannot be read");
    world.pass(Duration::from_secs(60));
    assert_eq!(world.names(reader, FileId::ROOT).unwrap(), ["kept"], "nobody will ever bring it");
    assert_eq!(world.lookup(reader, FileId::ROOT, "gone").map(|_| ()), Err(FsError::NotFound));
}

/// The new station takes what was written upon what it knows, one record at a time. What it says of the file is refused,
/// since another's version was seen at the former station: what was written stands as it is, without a conflict.
#[test]
fn what_is_confirmed_one_by_one_at_a_new_station_is_not_undone_meanwhile() {
    let (mut world, [s1, s2], [ann, ben], _) = two_stations_and_two_clients();
    world.connect(ben, s1);
    let line = world.connect(ann, s1);
    world.settle();
    let file = world.create(ben, FileId::ROOT, "f");
    world.store(ben, file, small("ben"));
    world.pass(Duration::from_secs(3));
    world.lookup(ann, FileId::ROOT, "f").unwrap();
    // What was on its way once is not folded into one record.
    world.stall(line, true);
    world.store(ann, file, small("one"));
    world.store(ann, file, small("two"));
    world.settle();
    world.close(line);
    world.configure(ann, |config| config.records_per_message = 1);
    let line = world.connect(ann, s2);
    world.stall(line, true);
    let mut shown = Vec::new();
    for _ in 0..40 {
        if world.waits_up(line) {
            world.step_up(line, 1);
        }
        world.settle();
        world.step_down(line);
        let inode = world.hosts[ann].replica.inode(file).unwrap().unwrap();
        shown.push(inode.content.clone());
        assert!(world.hosts[ann].replica.conflicts(None, 9).unwrap().is_empty());
    }
    assert!(shown.iter().all(|content| *content == small("two")), "{shown:?}");
    world.stall(line, false);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("two"));
    world.assert_agrees(ann);
}

/// Seed 26005101: what a client stored met another's store at its new station, and had come to the home first by way of the former
/// one. So what the station made of that (a copy, a report) never was so, and the client hears what is.
#[test]
fn what_met_another_at_the_new_station_and_came_first_by_the_former_one_is_told() {
    for by_the_former in [1, 2] {
        let (mut world, [former, present], [ann, ben], uppers) = two_stations_and_two_clients();
        let first = world.connect(ann, former);
        world.connect(ben, present);
        world.settle();
        let file = world.create(ben, FileId::ROOT, "f");
        world.store(ben, file, small("seen"));
        world.pass(Duration::from_secs(3));
        for client in [ann, ben] {
            assert_eq!(world.lookup(client, FileId::ROOT, "f").unwrap().1.content, small("seen"));
        }
        world.close(uppers[1]);
        world.store(ben, file, small("his"));
        world.settle();

        world.stall(first, true);
        let mut last = wayfs_types::RecordId::GENESIS;
        for (number, text) in ["one", "two"].into_iter().enumerate() {
            if number == by_the_former {
                world.close(first);
            }
            last = world.store(ann, file, small(text));
            world.settle();
            while number < by_the_former && world.waits_up(first) {
                world.step_up(first, 1);
                world.settle();
            }
        }
        world.close(first);
        let brought = ["one", "two"][by_the_former - 1];
        world.pass(Duration::from_secs(2));
        assert_eq!(
            world.hosts[HOME].replica.inode(file).unwrap().unwrap().content,
            small(brought),
            "it came by the former one"
        );

        world.configure(ann, |config| config.records_per_message = 1);
        let second = world.connect(ann, present);
        world.settle();
        assert!(!world.hosts[ann].replica.conflicts(None, 9).unwrap().is_empty(), "they met there");
        world.connect(present, HOME);
        world.settle();
        world.close(second);
        let reports = |host: usize| world.hosts[host].replica.conflicts(None, 9).unwrap();
        assert_eq!(reports(ann), reports(HOME), "{by_the_former}: hers went, and his came");
        let (_, shown) = world.lookup(ann, FileId::ROOT, "f").unwrap();
        assert_eq!(
            (shown.version, &shown.content),
            (last, &small("two")),
            "{by_the_former}: what she wrote last, without any server"
        );
        world.connect(ann, present);
        world.pass(Duration::from_secs(3));
        assert_eq!(world.lookup(ann, FileId::ROOT, "f").unwrap().1.content, small("two"));
        world.assert_agrees(ann);
    }
}

/// World 70020: what a client saw at a station whose disk is gone never comes. It stays for a while, and hides nothing that others made
/// meanwhile, in the directory of which it was seen.
#[test]
fn what_was_seen_at_a_station_that_is_gone_hides_nothing_new() {
    let (mut world, [s1, s2], [client, other], [upper, _]) = two_stations_and_two_clients();
    let third = world.add(Role::Client, "cy@c");
    let line = world.connect(client, s1);
    world.connect(other, s1);
    world.connect(third, HOME);
    world.settle();
    let directory = world.mkdir(other, FileId::ROOT, "d");
    world.create(other, directory, "common");
    world.pass(Duration::from_secs(5));
    assert_eq!(world.names(client, directory).unwrap(), ["common"]);
    world.close(upper);
    world.create(other, directory, "seen");
    world.pass(Duration::from_secs(2));
    assert_eq!(world.names(client, directory).unwrap(), ["common", "seen"]);
    world.close(line);
    world.destroy(s1);
    world.destroy(other);
    world.create(third, directory, "new");
    world.pass(Duration::from_secs(5));
    world.connect(client, s2);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.names(client, directory).unwrap(), ["common", "new", "seen"]);
    let unlink = Change::Unlink { parent: directory, name: name("common") };
    world.change(third, unlink).unwrap();
    world.pass(Duration::from_secs(5));
    assert!(world.names(client, directory).unwrap().iter().any(|there| there == "seen"), "it is not undone");
}
