//! Callbacks, leases, watches: what a client may trust, and for how long.

use super::world::{HOME, World, name, small};
use crate::{Input, Output, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Request};
use wayfs_types::{FileId, FsError, Kind};

fn two_clients() -> (World, usize, usize, crate::PeerId) {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(a, HOME);
    let peer = world.connect(b, HOME);
    world.settle();
    (world, a, b, peer)
}

#[test]
fn a_second_look_costs_no_message() {
    let (mut world, a, b, _) = two_clients();
    world.create(a, FileId::ROOT, "x");
    world.settle();
    world.lookup(b, FileId::ROOT, "x").unwrap();
    assert_eq!(world.lookup(b, FileId::ROOT, "no").unwrap_err(), FsError::NotFound);
    let before = world.messages;
    world.lookup(b, FileId::ROOT, "x").unwrap();
    assert_eq!(world.lookup(b, FileId::ROOT, "no").unwrap_err(), FsError::NotFound);
    assert_eq!(world.messages, before);
    world.create(a, FileId::ROOT, "no");
    world.settle();
    let broken = Output::InvalidateEntry { parent: FileId::ROOT, name: name("no") };
    assert!(world.hosts[b].events.contains(&broken));
    world.lookup(b, FileId::ROOT, "no").unwrap();
}

/// Directories and names of which the kernel of a host was told that they changed, since `from`.
fn broken_names(world: &World, host: usize, from: usize) -> Vec<(FileId, String)> {
    let names = world.hosts[host].events[from..].iter().filter_map(|output| match output {
        Output::InvalidateEntry { parent, name } => Some((*parent, name.to_string())),
        _ => None,
    });
    names.collect()
}

#[test]
fn what_a_first_listing_brings_breaks_nothing_that_the_kernel_has() {
    let (mut world, a, b, _) = two_clients();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    for number in 0..120 {
        world.create(a, directory, &format!("f{number:03}"));
    }
    world.settle();
    world.lookup(b, FileId::ROOT, "d").unwrap();
    assert_eq!(world.lookup(b, directory, "z").unwrap_err(), FsError::NotFound);
    let before = world.hosts[b].events.len();
    // Three pages: what stands in the second was not told when the first was taken.
    assert_eq!(world.names(b, directory).unwrap().len(), 120);
    world.lookup(b, directory, "f007").unwrap();
    assert_eq!(broken_names(&world, b, before), []);
    // What it was told since, and before, is broken when it changes.
    world.create(a, directory, "f0005");
    world.create(a, directory, "z");
    world.settle();
    let broken = [(directory, "f0005".to_owned()), (directory, "z".to_owned())];
    assert_eq!(broken_names(&world, b, before), broken);
}

#[test]
fn what_others_make_where_nothing_was_said_to_stand_is_broken() {
    let (mut world, a, b, peer) = two_clients();
    let directory = world.mkdir(a, FileId::ROOT, "d");
    world.settle();
    world.lookup(b, FileId::ROOT, "d").unwrap();
    world.create(b, directory, "own");
    world.settle();
    let own = Change::Unlink { parent: directory, name: name("own") };
    world.change(b, own).unwrap();
    assert_eq!(world.lookup(b, directory, "own").unwrap_err(), FsError::NotFound);
    assert_eq!(world.lookup(b, directory, "no").unwrap_err(), FsError::NotFound);
    // Others make both; the news waits on the line when the listing is asked for.
    world.settle();
    world.stall(peer, true);
    for text in ["no", "own"] {
        world.create(a, directory, text);
    }
    let before = world.hosts[b].events.len();
    world.stall(peer, false);
    assert_eq!(world.names(b, directory).unwrap(), ["no", "own"]);
    let broken = [(directory, "no".to_owned()), (directory, "own".to_owned())];
    assert_eq!(broken_names(&world, b, before), broken);
}

#[test]
fn a_writer_waits_for_the_callbacks_of_others_but_no_longer_than_a_lease() {
    let (mut world, a, b, peer) = two_clients();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    world.lookup(b, FileId::ROOT, "x").unwrap();
    world.stall(peer, true);
    world.store(a, file, small("new"));
    let wait = world.request_within(a, Request::Wait { record: None, until: Level::Safe }, Duration::from_secs(60));
    world.pass(Duration::from_secs(5));
    assert_eq!(world.answer(a, wait), None, "the other client may still trust what it has");
    world.pass(Duration::from_secs(20));
    assert_eq!(world.answer(a, wait), Some(Ok(Answer::Reached)));
    // By then the silent client knows that it must not trust its cache.
    assert!(!world.hosts[b].replica.progress().connected);
}

/// A client that was lost may trust its cache until its lease ends; one that left, to another parent for one, does not.
#[test]
fn a_writer_waits_for_a_client_that_was_lost_and_not_for_one_that_left() {
    for has_left in [false, true] {
        let (mut world, a, b, peer) = two_clients();
        let file = world.create(a, FileId::ROOT, "x");
        world.settle();
        world.lookup(b, FileId::ROOT, "x").unwrap();
        if has_left {
            world.leave(peer)
        } else {
            world.close(peer)
        }
        assert!(!world.hosts[b].replica.is_trusted());
        world.store(a, file, small("new"));
        let wait = world.request_within(a, Request::Wait { record: None, until: Level::Safe }, Duration::from_secs(60));
        world.settle();
        assert_eq!(world.answer(a, wait).is_some(), has_left);
        world.connect(b, HOME);
        world.settle();
        assert_eq!(world.lookup(b, FileId::ROOT, "x").unwrap().1.content, small("new"));
    }
}

/// News of a conflict goes to all. A client whose session ended before it had caught up trusts nothing, and is not waited for.
#[test]
fn a_writer_does_not_wait_for_a_client_that_never_caught_up() {
    let (mut world, a, b, peer) = two_clients();
    let file = world.create(b, FileId::ROOT, "x");
    world.settle();
    world.lookup(a, FileId::ROOT, "x").unwrap();
    world.close(peer);
    world.pass(Duration::from_secs(11));
    let peer = world.connect(b, HOME);
    world.step_up(peer, 1);
    world.close(peer);
    world.store(a, file, small("new"));
    let wait = world.request_within(a, Request::Wait { record: None, until: Level::Safe }, Duration::from_secs(60));
    world.settle();
    assert_eq!(world.answer(a, wait), Some(Ok(Answer::Reached)));
}

/// Over a thin line a minute's contents are ahead of each message.
#[test]
fn a_parent_whose_contents_come_is_not_given_up_for_its_silence() {
    let (mut world, _, b, peer) = two_clients();
    world.stall(peer, true);
    for _ in 0..20 {
        world.pass(Duration::from_secs(2));
        world.input(b, Input::Moved { peer });
        // What it asks arrives; the answers wait in the line.
        while world.waits_up(peer) {
            world.step_up(peer, 1);
        }
        assert!(world.has_session(b), "contents come all the time");
    }
    assert!(!world.hosts[b].replica.is_trusted(), "bytes vouch for no names");
    world.pass(Duration::from_secs(11));
    assert!(!world.has_session(b), "now nothing comes at all");
}

#[test]
fn after_an_acknowledged_close_an_open_elsewhere_sees_it() {
    let (mut world, a, b, _) = two_clients();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    world.lookup(b, FileId::ROOT, "x").unwrap();
    for round in 0..50 {
        let content = small(&format!("round {round}"));
        world.store(a, file, content.clone());
        let wait = world.request(a, Request::Wait { record: None, until: Level::Safe });
        while world.answer(a, wait).is_none() {
            assert!(world.step(), "nothing moves and the writer still waits");
        }
        let id = world.request(b, Request::Attributes { file });
        match world.answer(b, id) {
            Some(Ok(Answer::File(_, inode))) => assert_eq!(inode.content, content),
            other => panic!("not served from the cache: {other:?}"),
        }
    }
}

#[test]
fn a_returning_client_catches_up_with_what_changed_and_nothing_else() {
    let (mut world, a, b, peer) = two_clients();
    let dir = world.mkdir(a, FileId::ROOT, "d");
    for number in 0..300 {
        world.create(a, dir, &format!("f{number:03}"));
    }
    world.settle();
    assert_eq!(world.names(b, dir).unwrap().len(), 300);
    world.close(peer);
    world.create(a, dir, "new");
    world.settle();
    let before = world.bytes;
    world.connect(b, HOME);
    world.settle();
    assert!(world.bytes - before < 4000, "{} bytes for one new file", world.bytes - before);
    assert_eq!(world.names(b, dir).unwrap().len(), 301);
    world.assert_agrees(b);
}

#[test]
fn too_far_behind_it_verifies_its_cache_instead() {
    let (mut world, a, b, peer) = two_clients();
    world.configure(HOME, |config| config.catch_up_max = 10);
    let dir = world.mkdir(a, FileId::ROOT, "d");
    world.create(a, dir, "old");
    world.settle();
    world.names(b, dir).unwrap();
    world.close(peer);
    let own = world.create(b, dir, "mine");
    for number in 0..50 {
        world.create(a, dir, &format!("f{number}"));
    }
    let unlink = wayfs_types::request::Change::Unlink { parent: dir, name: name("old") };
    world.change(a, unlink).unwrap();
    world.settle();
    world.connect(b, HOME);
    world.settle();
    assert_eq!(world.lookup(b, dir, "old").unwrap_err(), FsError::NotFound);
    assert_eq!(world.lookup(b, dir, "mine").unwrap().0, own);
    assert_eq!(world.names(b, dir).unwrap().len(), 51);
    world.assert_agrees(b);
    assert!(world.hosts[b].replica.is_settled());
}

#[test]
fn a_file_that_moves_out_of_sight_is_asked_for_again() {
    let (mut world, a, b, _) = two_clients();
    let (seen, hidden) = (world.mkdir(a, FileId::ROOT, "seen"), world.mkdir(a, FileId::ROOT, "hidden"));
    let file = world.create(a, seen, "x");
    world.settle();
    world.lookup(b, seen, "x").unwrap();
    world.rename(a, (seen, "x"), (hidden, "y")).unwrap();
    world.store(a, file, small("moved"));
    world.settle();
    match world.ask(b, Request::Attributes { file }).unwrap() {
        Answer::File(_, inode) => assert_eq!(inode.content, small("moved")),
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn a_writer_hears_that_it_broke_the_copies_of_others() {
    let mut world = World::new();
    let stations = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
    let a = world.add(Role::Client, "ann@a");
    let peers = stations.map(|station| world.connect(station, HOME));
    world.settle();
    world.connect(a, stations[0]);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    world.store(a, file, super::world::big("one"));
    world.pass(Duration::from_secs(2));
    world.input(HOME, crate::Input::Fetched { peer: peers[1], file });
    let version = world.store(a, file, super::world::big("two"));
    world.pass(Duration::from_secs(2));
    assert!(world.hosts[stations[0]].events.contains(&Output::Shared { file, version }));
    // The copy is broken now; the next version breaks nothing.
    let version = world.store(a, file, super::world::big("three"));
    world.pass(Duration::from_secs(2));
    assert!(!world.hosts[stations[0]].events.contains(&Output::Shared { file, version }));
}

#[test]
fn a_huge_directory_is_paged_and_asked_by_name() {
    let (mut world, a, b, _) = two_clients();
    let dir = world.mkdir(a, FileId::ROOT, "d");
    for number in 0..2000 {
        world.create(a, dir, &format!("f{number:05}"));
    }
    world.settle();
    let before = world.bytes;
    world.lookup(b, dir, "f01234").unwrap();
    assert_eq!(world.lookup(b, dir, "missing").unwrap_err(), FsError::NotFound);
    assert!(world.bytes - before < 2000);
    let names = world.names(b, dir).unwrap();
    assert_eq!(names.len(), 2000);
    assert!(names.is_sorted());
    let before = world.messages;
    assert_eq!(world.names(b, dir).unwrap().len(), 2000);
    assert_eq!(world.messages, before, "a complete directory is listed from the cache");
}

#[test]
fn of_two_merged_directories_either_id_shows_what_is_in_the_one() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let (at_a, at_b) = (world.connect(a, HOME), world.connect(b, HOME));
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    world.names(b, FileId::ROOT).unwrap();
    world.close(at_a);
    world.close(at_b);
    let (first, second) = (world.mkdir(a, FileId::ROOT, "d"), world.mkdir(b, FileId::ROOT, "d"));
    world.create(a, first, "from-a");
    world.create(b, second, "from-b");
    world.connect(a, HOME);
    world.settle();
    world.connect(b, HOME);
    world.pass(Duration::from_secs(1));
    // A program of Bob's still stands in the directory that he made.
    assert_eq!(world.names(b, second).unwrap(), ["from-a", "from-b"]);
    assert!(world.lookup(b, second, "from-a").is_ok());
    let again = Change::Create { parent: second, name: name("from-a"), kind: Kind::File, mode: 0o644, uid: 1, gid: 1 };
    assert_eq!(world.change(b, again), Err(FsError::Exists));
    world.create(b, second, "more");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.names(a, first).unwrap(), ["from-a", "from-b", "more"]);
    assert!(world.hosts[HOME].replica.conflicts(None, 9).unwrap().is_empty());
}

#[test]
fn a_file_merged_into_another_is_looked_at_anew_there() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let (at_a, at_b) = (world.connect(a, HOME), world.connect(b, HOME));
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    world.names(b, FileId::ROOT).unwrap();
    world.close(at_a);
    world.close(at_b);
    let (first, second) = (world.create(a, FileId::ROOT, "f"), world.create(b, FileId::ROOT, "f"));
    world.connect(a, HOME);
    world.settle();
    world.connect(b, HOME);
    world.pass(Duration::from_secs(1));
    // Ann takes it out of all that Bob watches, and writes.
    let dir = world.mkdir(a, FileId::ROOT, "d");
    world.rename(a, (FileId::ROOT, "f"), (dir, "f")).unwrap();
    world.store(a, first, small("new"));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    match world.ask(b, Request::Attributes { file: second }).unwrap() {
        Answer::File(file, inode) => assert_eq!((file, inode.content.clone()), (first, small("new"))),
        other => panic!("unexpected {other:?}"),
    }
}

/// Seed 175025527: a client removed a name while it was away, and its server had put another file there. Until the removal was confirmed,
/// which took nothing away, the client answered by it, and its kernel kept that.
#[test]
fn an_absence_by_our_own_removal_is_vouched_for_only_if_the_parent_had_shown_us_what_stood_there() {
    let (mut world, a, b, peer) = two_clients();
    let station = world.add(Role::Station, "s@s");
    world.connect(station, HOME);
    world.create(a, FileId::ROOT, "x");
    world.settle();
    world.lookup(b, FileId::ROOT, "x").unwrap();
    world.close(peer);
    let unlink = |text: &str| Change::Unlink { parent: FileId::ROOT, name: name(text) };
    world.change(a, unlink("x")).unwrap();
    let other = world.create(a, FileId::ROOT, "x");
    world.settle();
    // The record stays on its machine.
    world.configure(b, |config| config.sends_ahead = false);
    world.hosts[b].hold_syncs = true;
    world.change(b, unlink("x")).unwrap();
    world.pass(Duration::from_secs(2));
    world.connect(b, station);
    world.settle();
    assert_eq!(world.lookup(b, FileId::ROOT, "watched"), Err(FsError::NotFound));
    let vouched = |world: &World| world.hosts[b].replica.unvouched();
    let before = vouched(&world);
    assert_eq!(world.lookup(b, FileId::ROOT, "x"), Err(FsError::NotFound));
    assert!(vouched(&world) > before, "the kernel keeps nothing of it");
    world.hosts[b].hold_syncs = false;
    while world.syncs_asked(b) > 0 {
        world.sync_once(b);
    }
    world.settle();
    assert_eq!(world.lookup(b, FileId::ROOT, "x").unwrap().0, other);
    let before = vouched(&world);
    world.hosts[b].hold_syncs = true;
    world.change(b, unlink("x")).unwrap();
    assert_eq!(world.lookup(b, FileId::ROOT, "x"), Err(FsError::NotFound));
    assert_eq!(vouched(&world), before, "whoever puts something there afterwards is told of");
}

/// A name that stands for nothing again, and a file that keeps another one: what is removed wholly leaves no record.
fn make_and_move_away(world: &mut World, client: usize, text: &str) {
    let file = world.create(client, FileId::ROOT, text);
    let link = Change::Link { file, parent: FileId::ROOT, name: name(&format!("{text}-2")) };
    world.change(client, link).unwrap();
    world.change(client, Change::Unlink { parent: FileId::ROOT, name: name(text) }).unwrap();
}

/// The same of a name that was made and removed again while the client was away.
#[test]
fn an_absence_by_the_removal_of_what_we_made_while_away_is_not_vouched_for() {
    let (mut world, a, b, peer) = two_clients();
    let station = world.add(Role::Station, "s@s");
    world.connect(station, HOME);
    assert!(world.names(b, FileId::ROOT).unwrap().is_empty());
    world.close(peer);
    let theirs = world.create(a, FileId::ROOT, "x");
    world.store(a, theirs, small("theirs"));
    world.settle();
    world.configure(b, |config| config.sends_ahead = false);
    world.hosts[b].hold_syncs = true;
    make_and_move_away(&mut world, b, "x");
    world.pass(Duration::from_secs(2));
    world.connect(b, station);
    world.settle();
    assert_eq!(world.lookup(b, FileId::ROOT, "watched"), Err(FsError::NotFound));
    let before = world.hosts[b].replica.unvouched();
    assert_eq!(world.lookup(b, FileId::ROOT, "x"), Err(FsError::NotFound));
    assert!(world.hosts[b].replica.unvouched() > before, "the kernel keeps nothing of it");
    world.hosts[b].hold_syncs = false;
    world.settle();
    assert_eq!(world.lookup(b, FileId::ROOT, "x").unwrap().0, theirs);
    // What is made and removed while somebody tells of the directory is known to be gone.
    world.hosts[b].hold_syncs = true;
    make_and_move_away(&mut world, b, "y");
    let before = world.hosts[b].replica.unvouched();
    assert_eq!(world.lookup(b, FileId::ROOT, "y"), Err(FsError::NotFound));
    assert_eq!(world.hosts[b].replica.unvouched(), before);
}

/// Proves [S-remote-change].
#[test]
fn an_answer_without_the_parents_word_counts_as_one() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    world.create(a, FileId::ROOT, "x");
    world.settle();
    let names = world.names(a, FileId::ROOT).unwrap();
    assert_eq!(names, ["x"]);
    let doubts = |world: &World| world.hosts[a].replica.unvouched();
    let before = doubts(&world);
    world.lookup(a, FileId::ROOT, "x").unwrap();
    world.lookup(a, FileId::ROOT, "y").unwrap_err();
    world.names(a, FileId::ROOT).unwrap();
    assert_eq!(doubts(&world), before, "all of it is vouched for");
    world.close(peer);
    world.lookup(a, FileId::ROOT, "x").unwrap();
    let looked_up = doubts(&world);
    assert!(looked_up > before);
    assert_eq!(world.lookup(a, FileId::ROOT, "y"), Err(FsError::NotFound));
    let absent = doubts(&world);
    assert!(absent > looked_up);
    world.names(a, FileId::ROOT).unwrap();
    let listed = doubts(&world);
    assert!(listed > absent);
    world.create(a, FileId::ROOT, "z");
    assert!(doubts(&world) > listed, "nor will it be told what becomes of what it made");
    world.connect(a, HOME);
    world.settle();
    let online = doubts(&world);
    world.lookup(a, FileId::ROOT, "z").unwrap();
    world.names(a, FileId::ROOT).unwrap();
    assert_eq!(doubts(&world), online);
}

#[test]
fn what_goes_between_welcome_and_start_is_told() {
    let mut world = World::new();
    let (ann, ben) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "ben@b"));
    world.connect(ann, HOME);
    let line = world.connect(ben, HOME);
    world.settle();
    world.hosts[HOME].replica.keep_traces(4);
    world.create(ann, FileId::ROOT, "gone");
    assert_eq!(world.names(ben, FileId::ROOT).unwrap(), ["gone"]);
    world.close(line);
    // Ben is told that he may go on from where he was, and is slow to say that he does.
    let line = world.connect(ben, HOME);
    world.stall(line, true);
    world.step_up(line, 1);
    world.settle();
    world.step_down(line);
    let unlink = Change::Unlink { parent: FileId::ROOT, name: name("gone") };
    world.change(ann, unlink).unwrap();
    for number in 0..8 {
        world.create(ann, FileId::ROOT, &format!("f{number}"));
    }
    world.pass(Duration::from_secs(1));
    world.stall(line, false);
    world.pass(Duration::from_secs(2));
    let names = world.names(ben, FileId::ROOT).unwrap();
    assert_eq!(names.len(), 8, "{names:?}");
    world.assert_agrees(ben);
}

/// A member that looks, goes on talking, and never confirms. It held up each change of the others for one to two leases, again and again, since
/// every session gave it a new lease.
#[test]
fn who_keeps_others_waiting_again_gets_no_session_for_a_growing_while() {
    let (mut world, a, b, mut peer) = two_clients();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    let mut waits = Vec::new();
    for round in 0..12 {
        if world.is_open(peer) {
            world.lookup(b, FileId::ROOT, "x").unwrap();
            world.stall(peer, true);
        }
        world.store(a, file, small(&format!("round {round}")));
        let began = world.now;
        let wait = world.request_within(a, Request::Wait { record: None, until: Level::Safe }, Duration::from_secs(60));
        while world.answer(a, wait).is_none() {
            world.pass(Duration::from_millis(500));
            if world.is_open(peer) {
                let ping = wayfs_wire::encode(&wayfs_wire::Message::Up(wayfs_wire::Up::Ping { number: round }));
                world.input(HOME, Input::Message { peer, bytes: ping });
            }
        }
        waits.push(world.now.since(began).as_secs());
        world.pass(Duration::from_secs(1));
        if !world.is_open(peer) {
            peer = world.connect(b, HOME);
            world.settle();
        }
    }
    assert!(waits[0] >= 9, "nobody knows it yet: {waits:?}");
    assert!(waits.iter().filter(|seconds| **seconds > 1).count() <= 2, "{waits:?}");
    // It is let in again by itself, and is one like the others then.
    world.pass(Duration::from_secs(300));
    peer = world.connect(b, HOME);
    world.settle();
    assert!(world.is_open(peer));
    world.assert_agrees(b);
}

/// Seed 3008762 of the simulator: what is sent to a member is lost for a while, and it tries again and again to come back. Each of the
/// attempts was noted as one more time that it did not confirm, so it was away for five minutes.
#[test]
fn who_tries_to_come_back_is_not_paused_for_that() {
    let (mut world, a, b, peer) = two_clients();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    world.lookup(b, FileId::ROOT, "x").unwrap();
    world.stall(peer, true);
    world.store(a, file, small("changed"));
    for number in 0..24 {
        world.pass(Duration::from_millis(500));
        if world.is_open(peer) {
            let ping = wayfs_wire::encode(&wayfs_wire::Message::Up(wayfs_wire::Up::Ping { number }));
            world.input(HOME, Input::Message { peer, bytes: ping });
        }
    }
    assert!(!world.is_open(peer), "it was heard, and took nothing");
    for _ in 0..5 {
        let again = world.connect(b, HOME);
        world.settle();
        assert!(!world.is_open(again), "it was to wait for a lease after its last one");
        world.pass(Duration::from_secs(1));
    }
    world.pass(Duration::from_secs(15));
    let again = world.connect(b, HOME);
    world.settle();
    assert!(world.is_open(again));
    world.assert_agrees(b);
}

/// A laptop that is shut while others work where it looked.
#[test]
fn who_was_away_longer_than_a_lease_is_let_in_at_once() {
    let (mut world, a, b, mut peer) = two_clients();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    for round in 0..3 {
        world.lookup(b, FileId::ROOT, "x").unwrap();
        world.close(peer);
        world.store(a, file, small(&format!("round {round}")));
        world.pass(Duration::from_secs(12));
        peer = world.connect(b, HOME);
        world.settle();
        assert!(world.is_open(peer), "round {round}");
        world.assert_agrees(b);
    }
}
