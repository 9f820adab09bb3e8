//! Crashes and lost sessions: nothing acknowledged is lost, nothing happens twice.

use super::world::{HOME, World, big, small};
use crate::state::tables::table;
use crate::{Full, Input, Output, Replica, Role, Room};
use std::time::Duration;
use wayfs_types::request::{Answer, Level, Request};
use wayfs_types::{Batch, FileId, FsError, Key, MetaStore, StorageError};

fn station_world() -> (World, usize, usize) {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let client = world.add(Role::Client, "ann@a");
    world.connect(station, HOME);
    world.settle();
    world.connect(client, station);
    world.settle();
    (world, station, client)
}

/// Runs a client's short life and loses power at one host after so many steps.
fn crash_after(steps: usize, victim: usize, kept: usize) {
    let (mut world, station, client) = station_world();
    world.names(client, FileId::ROOT).unwrap();
    let dir = world.mkdir(client, FileId::ROOT, "d");
    let file = world.create(client, dir, "f");
    world.store(client, file, small("one"));
    world.store(client, file, big("two"));
    let wait =
        world.request_within(client, Request::Wait { record: None, until: Level::Safe }, Duration::from_secs(60));
    for _ in 0..steps {
        world.step();
    }
    let host = [HOME, station, client][victim];
    let safe = world.answer(client, wait) == Some(Ok(Answer::Reached));
    world.crash(host, kept);
    if host != client {
        world.settle();
    }
    if host == HOME || host == station {
        world.connect(station, HOME);
    }
    world.settle();
    if host == station || host == client {
        world.connect(client, station);
    }
    world.pass(Duration::from_secs(25));
    for each in [HOME, station, client] {
        assert!(world.hosts[each].replica.is_settled(), "host {each} after {steps} steps, victim {victim}");
        world.check_tree(each);
    }
    world.assert_agrees(station);
    world.assert_agrees(client);
    if safe || host != client {
        assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, big("two"));
        let version = world.hosts[HOME].replica.inode(file).unwrap().unwrap().version;
        let holder = world.hosts[HOME].replica.holder(file, version).unwrap();
        assert!(matches!(holder, crate::Holder::Child(_, Some(_))), "{holder:?}");
    }
}

#[test]
fn a_crash_at_any_step_of_any_host_loses_nothing_acknowledged() {
    for victim in 0..3 {
        for steps in 0..60 {
            for kept in [0, 1, usize::MAX] {
                crash_after(steps, victim, kept.min(1000));
            }
        }
    }
}

#[test]
fn a_session_lost_at_any_step_is_made_up_for() {
    for steps in 0..60 {
        for parent_side in [false, true] {
            let (mut world, station, client) = station_world();
            world.names(client, FileId::ROOT).unwrap();
            let peer = world.connect(client, station);
            let upper = world.connect(station, HOME);
            world.settle();
            let dir = world.mkdir(client, FileId::ROOT, "d");
            let file = world.create(client, dir, "f");
            world.store(client, file, small("one"));
            for _ in 0..steps {
                world.step();
            }
            world.close(if parent_side { upper } else { peer });
            world.store(client, file, small("two"));
            world.settle();
            if parent_side {
                world.connect(station, HOME)
            } else {
                world.connect(client, station)
            };
            world.pass(Duration::from_secs(3));
            for each in [HOME, station, client] {
                assert!(world.hosts[each].replica.is_settled(), "host {each} after {steps} steps");
                world.check_tree(each);
            }
            world.assert_agrees(station);
            world.assert_agrees(client);
            assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("two"));
            assert!(world.hosts[HOME].replica.conflicts(None, 10).unwrap().is_empty());
        }
    }
}

#[test]
fn a_client_that_crashed_before_its_sync_uses_no_sequence_twice() {
    let (mut world, _, client) = station_world();
    world.names(client, FileId::ROOT).unwrap();
    world.hosts[client].hold_syncs = true;
    world.create(client, FileId::ROOT, "lost");
    world.settle();
    world.crash(client, 0);
    world.hosts[client].hold_syncs = false;
    world.connect(client, 1);
    world.settle();
    let file = world.create(client, FileId::ROOT, "kept");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[HOME].replica.path_of(file).unwrap().as_deref(), Some("/kept"));
    assert_eq!(world.names(client, FileId::ROOT), Ok(vec!["kept".to_owned()]));
}

#[test]
fn no_room_refuses_a_change_and_leaves_everything_as_it_was() {
    let (mut world, _, client) = station_world();
    world.names(client, FileId::ROOT).unwrap();
    world.create(client, FileId::ROOT, "a");
    world.settle();
    let before = world.tree(client);
    let room = world.hosts[client].replica.store().len_bytes();
    world.hosts[client].replica.store_mut().set_room(Some(room));
    let change = wayfs_types::request::Change::Mkdir {
        parent: FileId::ROOT,
        name: super::world::name("b"),
        mode: 0o755,
        uid: 0,
        gid: 0,
    };
    assert_eq!(world.change(client, change.clone()).unwrap_err(), FsError::NoSpace);
    assert_eq!(world.tree(client), before);
    world.hosts[client].replica.store_mut().set_room(None);
    world.change(client, change).unwrap();
    world.pass(Duration::from_secs(3));
    world.assert_agrees(client);
    assert!(world.hosts[client].replica.is_settled());
}

/// [S-full-disk]: names that came while there was no room for them are not taken for known afterwards.
#[test]
fn a_listing_for_which_there_was_no_room_is_asked_for_again() {
    let (mut world, station, client) = station_world();
    let other = world.add(Role::Client, "bob@b");
    world.connect(other, station);
    world.settle();
    world.names(other, FileId::ROOT).unwrap();
    let directory = world.mkdir(other, FileId::ROOT, "d");
    world.create(other, directory, "a");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(client, FileId::ROOT), Ok(vec!["d".to_owned()]));
    let room = world.hosts[client].replica.store().len_bytes();
    world.hosts[client].replica.store_mut().set_room(Some(room));
    let refused = world.names(client, directory);
    assert!(refused.is_err(), "there is no room for what comes: {refused:?}");
    world.hosts[client].replica.store_mut().set_room(None);
    world.connect(client, station);
    world.settle();
    assert_eq!(world.names(client, directory), Ok(vec!["a".to_owned()]));
}

/// Seed 163005659 of the simulator: what a full disk refused with a move to another parent is not believed afterwards. The former parent,
/// to which the client goes back, vouches for what it says.
#[test]
fn a_move_for_which_there_was_no_room_did_not_happen() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let [client, ben, cid] = ["ann@a", "ben@b", "cid@c"].map(|label| world.add(Role::Client, label));
    world.connect(station, HOME);
    let peer = world.connect(client, HOME);
    for other in [ben, cid] {
        world.connect(other, HOME);
        world.settle();
        world.names(other, FileId::ROOT).unwrap();
    }
    let file = world.create(ben, FileId::ROOT, "film");
    world.store(ben, file, small("ben's"));
    world.pass(Duration::from_secs(3));
    world.names(client, FileId::ROOT).unwrap();
    assert_eq!(world.lookup(client, FileId::ROOT, "film").unwrap().1.content, small("ben's"));
    world.close(peer);
    let room = world.hosts[client].replica.store().len_bytes();
    world.hosts[client].replica.store_mut().set_room(Some(room));
    let there = world.connect(client, station);
    world.settle();
    assert!(!world.is_open(there), "there is no room for what the station says");
    assert_eq!(world.hosts[client].replica.kept_row_is_wrong(), Ok(None));
    world.hosts[client].replica.store_mut().set_room(None);
    world.lookup(cid, FileId::ROOT, "film").unwrap();
    world.store(cid, file, small("cid's"));
    world.pass(Duration::from_secs(3));
    world.connect(client, HOME);
    world.settle();
    assert_eq!(world.lookup(client, FileId::ROOT, "film").unwrap().1.content, small("cid's"));
}

/// [S-full-disk]: who is told that there is no room for records keeps them, and its session.
#[test]
fn a_parent_that_says_it_is_full_is_sent_no_records_and_keeps_its_sessions() {
    let (mut world, station, client) = station_world();
    world.names(client, FileId::ROOT).unwrap();
    let say = |world: &mut super::world::World, full| {
        world.input(station, Input::Room { room: Room { full, left: 0, size: 1 << 30 } });
        world.settle();
    };
    say(&mut world, Full::Metadata);
    let line = world.line_of(client);
    let room = world.hosts[station].replica.store().len_bytes();
    world.hosts[station].replica.store_mut().set_room(Some(room));
    let file = world.create(client, FileId::ROOT, "a");
    world.pass(Duration::from_secs(20));
    assert!(world.is_open(line), "what would not be taken was not sent");
    let id = super::world::name("a");
    assert!(world.hosts[station].replica.entry(FileId::ROOT, &id).unwrap().is_none());
    world.hosts[station].replica.store_mut().set_room(None);
    say(&mut world, Full::Contents);
    world.pass(Duration::from_secs(3));
    assert!(world.is_open(line));
    assert_eq!(world.hosts[station].replica.entry(FileId::ROOT, &id).unwrap().map(|entry| entry.file), Some(file));
}

/// Whoever is told that a disk on the way is full is told, once, that it is not any more, be it in another session; and nobody hears that
/// there is room *again* who did not hear that there was none.
#[test]
fn room_again_is_news_to_who_heard_that_there_was_none() {
    let (mut world, station, client) = station_world();
    let said = |world: &mut super::world::World| -> Vec<bool> {
        let events = std::mem::take(&mut world.hosts[client].events);
        let rooms = events.into_iter().filter_map(|event| match event {
            Output::RoomsAbove { rooms } => Some(rooms.iter().any(|server| server.room.full != Full::No)),
            _ => None,
        });
        rooms.collect()
    };
    let say = |world: &mut super::world::World, full, left| {
        world.input(station, Input::Room { room: Room { full, left, size: 1 << 30 } });
        world.settle();
    };
    say(&mut world, Full::No, 1 << 20);
    assert_eq!(said(&mut world), [], "there was room before");
    say(&mut world, Full::Contents, 0);
    assert_eq!(said(&mut world), [true]);
    let line = world.line_of(client);
    world.close(line);
    say(&mut world, Full::No, 1 << 20);
    world.connect(client, station);
    world.settle();
    assert_eq!(said(&mut world), [false]);
    say(&mut world, Full::No, 1 << 19);
    assert_eq!(said(&mut world), []);
}

/// [S-full-disk]: with no room for metadata nothing is made, and what is there can be removed.
#[test]
fn a_replica_without_room_for_metadata_makes_nothing_and_removes() {
    let (mut world, _, client) = station_world();
    world.names(client, FileId::ROOT).unwrap();
    world.create(client, FileId::ROOT, "a");
    world.settle();
    world.input(client, Input::Room { room: Room { full: Full::Metadata, left: 0, size: 1 << 30 } });
    let make = wayfs_types::request::Change::Mkdir {
        parent: FileId::ROOT,
        name: super::world::name("b"),
        mode: 0o755,
        uid: 0,
        gid: 0,
    };
    assert_eq!(world.change(client, make).unwrap_err(), FsError::NoSpace);
    let remove = wayfs_types::request::Change::Unlink { parent: FileId::ROOT, name: super::world::name("a") };
    world.ask(client, Request::Change { user: 0, change: remove }).unwrap();
    assert_eq!(world.names(client, FileId::ROOT), Ok(vec![]));
}

/// [S-full-disk]. Seed 167010454 with open files and full disks: each answer that its full disk did not take had a station look for everything
/// anew, without an end.
#[test]
fn a_station_without_room_looks_after_a_pause_for_what_it_could_not_take_down() {
    let (mut world, station, _) = station_world();
    let writer = world.add(Role::Client, "cid@c");
    let line = world.connect(writer, HOME);
    world.settle();
    world.hold_pushes(line, true);
    world.hosts[station].holds_seeks = true;
    let names = ["a", "b", "c"];
    let versions = names.map(|name| {
        world.hosts[station].chunks.insert(big(name).root().unwrap());
        let file = world.create(writer, FileId::ROOT, name);
        world.store(writer, file, big(name))
    });
    world.pass(Duration::from_secs(3));
    let looks = |world: &mut World| {
        let events = std::mem::take(&mut world.hosts[station].events);
        let looks = events.into_iter().filter_map(|event| match event {
            Output::LookHere { version, .. } => Some(version),
            _ => None,
        });
        looks.collect::<Vec<_>>()
    };
    assert_eq!(looks(&mut world), versions);
    let may_be_here = |world: &World| world.hosts[station].replica.ledger().unwrap().at_station.unwrap().versions;
    world.hosts[station].replica.store_mut().set_room(Some(0));
    world.input(station, Input::LookedHere { here: vec![versions[0]], not_here: Vec::new() });
    world.settle();
    assert_eq!(looks(&mut world), [], "it has no room, and looks are under way");
    for pause in [1, 2, 4] {
        assert_eq!(may_be_here(&world), 3, "what is not taken down counts all the same");
        world.pass(Duration::from_millis(pause * 1000 - 100));
        assert_eq!(looks(&mut world), [], "{pause} s");
        world.pass(Duration::from_millis(200));
        assert_eq!(looks(&mut world), versions[..1], "{pause} s");
        world.input(station, Input::LookedHere { here: vec![versions[0]], not_here: Vec::new() });
    }
    world.hosts[station].replica.store_mut().set_room(None);
    world.hosts[station].holds_seeks = false;
    world.input(station, Input::LookedHere { here: versions[1..].to_vec(), not_here: Vec::new() });
    world.pass(Duration::from_secs(10));
    let in_use = world.hosts[station].replica.contents_in_use(None, 9).unwrap().contents;
    let in_use: Vec<_> = in_use.iter().filter_map(|kept| kept.version).collect();
    assert_eq!(in_use, [versions, versions].concat(), "they are shown, and on record as what the home lacks");
}

#[test]
fn a_parent_without_room_takes_the_records_later() {
    let (mut world, station, client) = station_world();
    world.names(client, FileId::ROOT).unwrap();
    let room = world.hosts[station].replica.store().len_bytes();
    world.hosts[station].replica.store_mut().set_room(Some(room));
    world.create(client, FileId::ROOT, "a");
    world.settle();
    assert!(world.hosts[station].replica.entry(FileId::ROOT, &super::world::name("a")).unwrap().is_none());
    world.hosts[station].replica.store_mut().set_room(None);
    world.connect(station, HOME);
    world.settle();
    world.connect(client, station);
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[HOME].replica.entry(FileId::ROOT, &super::world::name("a")).unwrap().is_some());
}

#[test]
fn traces_of_removed_files_go_when_all_have_passed_them() {
    let (mut world, station, client) = station_world();
    let late = world.create(client, FileId::ROOT, "late");
    world.pass(Duration::from_secs(3));
    for host in [HOME, station] {
        world.hosts[host].replica.keep_traces(50);
    }
    for number in 0..300 {
        let text = format!("f{number}");
        world.create(client, FileId::ROOT, &text);
        let change = wayfs_types::request::Change::Unlink { parent: FileId::ROOT, name: super::world::name(&text) };
        world.change(client, change).unwrap();
        if number % 10 == 0 {
            world.pass(Duration::from_millis(1500));
        }
    }
    world.pass(Duration::from_secs(5));
    for _ in 0..200 {
        world.input(HOME, crate::Input::Tick);
        world.input(station, crate::Input::Tick);
        world.settle();
    }
    for host in [HOME, station] {
        let store = world.hosts[host].replica.store();
        for of in [b'g', b'd'] {
            assert!(store.count(of) < 150, "{} rows in table {} of host {host}", store.count(of), of as char);
        }
    }
    assert!(world.tree(HOME).len() < 120, "{} images", world.tree(HOME).len());
    assert!(world.hosts[HOME].replica.inode(late).unwrap().is_some());
    world.assert_agrees(station);
    world.assert_agrees(client);
    // A station that was away for longer than the traces are kept waits for nobody: it gets the whole state.
    world.crash(station, 0);
    world.connect(station, HOME);
    world.settle();
    world.connect(client, station);
    world.pass(Duration::from_secs(5));
    world.assert_agrees(station);
    world.assert_agrees(client);
}

#[test]
fn a_station_that_lost_its_disk_takes_the_whole_state_and_forgets_the_rest() {
    let (mut world, station, client) = station_world();
    let dir = world.mkdir(client, FileId::ROOT, "d");
    for number in 0..200 {
        world.create(client, dir, &format!("f{number:03}"));
    }
    world.pass(Duration::from_secs(3));
    let upper = world.connect(station, HOME);
    world.settle();
    world.close(upper);
    let other = world.add(Role::Client, "bob@b");
    world.connect(other, HOME);
    world.settle();
    for number in 0..50 {
        let change =
            wayfs_types::request::Change::Unlink { parent: dir, name: super::world::name(&format!("f{number:03}")) };
        world.change(other, change).unwrap();
    }
    world.settle();
    // As if the home had purged the traces: the cursor is void.
    world.hosts[HOME].replica.forget_traces();
    world.connect(station, HOME);
    world.pass(Duration::from_secs(3));
    let home: Vec<Key> = world.tree(HOME).into_keys().collect();
    let there: Vec<Key> = world.tree(station).into_keys().collect();
    assert_eq!(home, there);
    world.assert_agrees(station);
}

#[test]
fn what_was_overwritten_is_not_called_safe_before_the_bytes_of_either_came() {
    for is_one_batch in [false, true] {
        let mut world = World::new();
        let client = world.add(Role::Client, "ann@a");
        let session = world.connect(client, HOME);
        world.settle();
        world.names(client, FileId::ROOT).unwrap();
        let file = world.create(client, FileId::ROOT, "f");
        world.settle();
        world.hold_pushes(session, true);
        world.stall(session, is_one_batch);
        let first = world.store(client, file, big("one"));
        let wait = world.request_within(
            client,
            Request::Wait { record: Some(first), until: Level::Safe },
            Duration::from_secs(60),
        );
        world.settle();
        world.store(client, file, big("two"));
        world.settle();
        world.stall(session, false);
        world.settle();
        assert_eq!(world.answer(client, wait), None, "its bytes are at the client only, in one batch: {is_one_batch}");
        world.hold_pushes(session, false);
        world.settle();
        assert_eq!(world.answer(client, wait), Some(Ok(Answer::Reached)));
    }
}

/// What a parent answers and a full disk does not take is not known: neither at once, nor when there is room.
#[test]
fn an_answer_that_found_no_room_is_asked_for_again() {
    let (mut world, station, writer) = station_world();
    world.names(writer, FileId::ROOT).unwrap();
    for text in ["a", "b", "c"] {
        world.create(writer, FileId::ROOT, text);
    }
    world.settle();
    let reader = world.add(Role::Client, "ben@b");
    world.connect(reader, station);
    world.lookup(reader, FileId::ROOT, "a").unwrap();
    world.settle();
    let room = world.hosts[reader].replica.store().len_bytes();
    world.hosts[reader].replica.store_mut().set_room(Some(room));
    let found = world.names(reader, FileId::ROOT);
    assert!(found.is_err(), "a list without what it holds: {found:?}");
    world.hosts[reader].replica.store_mut().set_room(None);
    world.connect(reader, station);
    world.settle();
    assert_eq!(world.names(reader, FileId::ROOT).unwrap(), ["a", "b", "c"]);
}

/// Found by the fuzzer (`table_rows`).
#[test]
fn a_log_whose_records_are_in_disorder_is_said_to_be_corrupt() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let line = world.connect(a, HOME);
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    world.close(line);
    for text in ["one", "two"] {
        world.create(a, FileId::ROOT, text);
    }
    world.pass(Duration::from_secs(3));
    let mut store = world.snapshot(a);
    let rows = store.scan(&[table::LOG], &[table::LOG + 1], 100).unwrap();
    let [.., (first, one), (last, two)] = rows.as_slice() else { panic!("two records: {rows:?}") };
    let mut batch = Batch::default();
    batch.put(first.clone(), two.clone());
    batch.put(last.clone(), one.clone());
    store.commit(batch).unwrap();
    let config = world.hosts[a].replica.config().clone();
    assert!(matches!(
        Replica::open(config, store, world.now),
        Err(crate::OpenError::Storage(StorageError::Corrupt(_)))
    ));
}
