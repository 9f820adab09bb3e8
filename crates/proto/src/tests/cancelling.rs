//! What was done and undone while nobody was told is not told.

use super::world::{HOME, World, big, name, small};
use crate::{Output, Role};
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Change, Level, Request};

#[test]
fn offline_saves_of_an_editor_arrive_as_one() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    let file = world.create(a, FileId::ROOT, "notes");
    world.settle();
    world.close(peer);
    for round in 0..50 {
        world.store(a, file, big(&format!("round {round}")));
        let scratch = world.create(a, FileId::ROOT, "scratch");
        world.store(a, scratch, big(&format!("scratch {round}")));
        world.change(a, Change::Unlink { parent: FileId::ROOT, name: name("scratch") }).unwrap();
    }
    assert_eq!(world.hosts[a].replica.progress().bytes_at_risk, 100_000_000);
    world.connect(a, HOME);
    world.settle();
    assert!(world.hosts[a].replica.is_settled());
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.hosts[HOME].chunks.len(), 1, "only the last content was worth sending");
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, big("round 49"));
    assert_eq!(world.names(a, FileId::ROOT), Ok(vec!["notes".to_owned()]));
    assert_eq!(world.hosts[a].replica.progress().bytes_at_risk, 0);
    world.assert_agrees(a);
    world.check_tree(a);
}

#[test]
fn what_may_have_been_sent_stays() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    world.stall(peer, true);
    let file = world.create(a, FileId::ROOT, "x");
    world.store(a, file, small("sent"));
    world.settle();
    world.close(peer);
    world.store(a, file, small("later"));
    world.store(a, file, small("last"));
    world.connect(a, HOME);
    world.settle();
    assert!(world.hosts[a].replica.is_settled());
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("last"));
    world.assert_agrees(a);
}

/// Seed 1844 of the simulator: the records in place of cancelled ones left before they were durable; after a crash the
/// cancelled ones were back, and their writer took itself for a copy.
#[test]
fn what_stands_for_cancelled_records_leaves_when_it_is_durable() {
    for is_awaited in [false, true] {
        let mut world = World::new();
        let a = world.add(Role::Client, "ann@a");
        world.configure(a, |config| config.sends_ahead = true);
        let peer = world.connect(a, HOME);
        world.settle();
        world.names(a, FileId::ROOT).unwrap();
        let file = world.create(a, FileId::ROOT, "notes");
        world.settle();
        world.close(peer);
        world.store(a, file, small("first"));
        world.store(a, file, small("last"));
        world.pass(Duration::from_secs(2));
        let origin = world.hosts[a].replica.config().origin;
        world.hosts[a].hold_syncs = true;
        world.connect(a, HOME);
        if is_awaited {
            world.request(a, Request::Wait { record: None, until: Level::Safe });
        }
        world.settle();
        world.crash(a, 0);
        world.hosts[a].hold_syncs = false;
        world.connect(a, HOME);
        world.pass(Duration::from_secs(2));
        let forked = world.hosts[a].events.iter().any(|event| matches!(event, Output::Forked { .. }));
        assert!(!forked, "its history is its own (somebody waits: {is_awaited})");
        assert_eq!(world.hosts[a].replica.config().origin, origin);
        assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("last"));
        world.assert_agrees(a);
    }
}

/// Seed 823 of the simulator: a content was called safe whose record had been cancelled in favour of a later one, and that
/// one was lost with its writer.
#[test]
fn what_was_cancelled_is_safe_when_that_is_for_which_it_was() {
    for is_restarted in [false, true] {
        let mut world = World::new();
        let a = world.add(Role::Client, "ann@a");
        let peer = world.connect(a, HOME);
        world.settle();
        world.names(a, FileId::ROOT).unwrap();
        let file = world.create(a, FileId::ROOT, "notes");
        world.settle();
        world.close(peer);
        let first = world.store(a, file, small("first"));
        world.store(a, file, small("last"));
        world.pass(Duration::from_secs(2));
        world.configure(a, |config| config.records_per_message = 1);
        if is_restarted {
            // The records in place of the two become durable, and nobody hears of them.
            let peer = world.connect(a, HOME);
            world.stall(peer, true);
            world.step_up(peer, 1);
            world.pass(Duration::from_millis(100));
            world.step_down(peer);
            world.pass(Duration::from_secs(2));
            world.crash(a, 0);
        }
        let peer = world.connect(a, HOME);
        world.stall(peer, true);
        let applied = |world: &World| world.hosts[HOME].replica.origins().unwrap()[1].1.applied;
        for _ in 0..50 {
            if applied(&world) == first.sequence() {
                break;
            }
            if world.waits_up(peer) {
                world.step_up(peer, 1);
            }
            world.pass(Duration::from_millis(50));
            world.step_down(peer);
        }
        assert_eq!(applied(&world), first.sequence(), "the home has the first record, and not the last");
        world.pass(Duration::from_millis(50));
        world.step_down(peer);
        let progress = world.hosts[a].replica.progress();
        for through in [progress.safe_through, progress.visible_through, progress.stable_through] {
            assert!(through < first.sequence(), "nobody else has what was stored (restarted: {is_restarted})");
        }
        world.stall(peer, false);
        world.pass(Duration::from_secs(1));
        assert!(world.hosts[a].replica.progress().stable_through > first.sequence());
        assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("last"));
    }
}

/// A client of a station that is connected with the home and gathers for a while.
fn gathering_station() -> (World, usize, usize) {
    let mut world = World::new();
    let station = world.add(Role::Station, "s@s");
    let client = world.add(Role::Client, "ann@a");
    world.configure(station, |config| config.reconcile_gather = Duration::from_millis(50));
    world.connect(station, HOME);
    world.connect(client, station);
    world.pass(Duration::from_secs(2));
    world.names(client, FileId::ROOT).unwrap();
    (world, station, client)
}

fn assert_all_is_over(world: &mut World, hosts: [usize; 2]) {
    for host in hosts {
        assert!(world.hosts[host].replica.is_settled(), "host {host}");
        world.assert_agrees(host);
    }
}

fn made_at_home(world: &World, file: FileId) -> bool {
    world.hosts[HOME].replica.inode(file).unwrap().is_some()
}

#[test]
fn a_lock_file_of_a_program_never_crosses_the_wide_area() {
    let (mut world, station, client) = gathering_station();
    let before = world.hosts[HOME].replica.progress().commit;
    let lock = world.create(client, FileId::ROOT, "index.lock");
    world.store(client, lock, big("index"));
    world.change(client, Change::Unlink { parent: FileId::ROOT, name: name("index.lock") }).unwrap();
    world.settle();
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    assert_eq!(world.wait(client, Level::Stable), Ok(Answer::Reached), "what was cancelled counts as done");
    assert!(!made_at_home(&world, lock), "the home never heard of the file");
    assert_eq!(world.hosts[HOME].chunks.len(), 0);
    let commits = world.hosts[HOME].replica.progress().commit - before;
    assert_eq!(commits, 1, "only how far the client's records have come");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[station].replica.progress().bytes_at_risk, 0, "nobody need keep its bytes");
    assert_all_is_over(&mut world, [station, client]);
}

#[test]
fn a_lock_that_is_held_while_somebody_works_does_not_cross_either() {
    let (mut world, station, client) = gathering_station();
    let lock = world.mkdir(client, FileId::ROOT, "#cvs.lock");
    for round in 0..9 {
        world.pass(Duration::from_millis(40));
        let file = world.create(client, FileId::ROOT, &format!("f{round}"));
        world.store(client, file, small("done"));
    }
    world.change(client, Change::Rmdir { parent: FileId::ROOT, name: name("#cvs.lock") }).unwrap();
    assert!(world.names(HOME, FileId::ROOT).unwrap().is_empty(), "others wait for the end of it");
    world.pass(Duration::from_millis(60));
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap().len(), 9);
    assert!(!made_at_home(&world, lock));
    world.pass(Duration::from_secs(3));
    for host in [station, client] {
        world.assert_agrees(host);
    }
}

#[test]
fn a_lock_of_somebody_who_reads_for_a_while_does_not_cross() {
    let (mut world, _, client) = gathering_station();
    let lock = world.create(client, FileId::ROOT, "#cvs.pfl");
    world.mkdir(client, FileId::ROOT, "#cvs.lock");
    world.change(client, Change::Rmdir { parent: FileId::ROOT, name: name("#cvs.lock") }).unwrap();
    world.pass(Duration::from_millis(700));
    assert!(!made_at_home(&world, lock));
    let file = world.create(client, FileId::ROOT, "f");
    world.store(client, file, small("committed"));
    world.change(client, Change::Unlink { parent: FileId::ROOT, name: name("#cvs.pfl") }).unwrap();
    world.pass(Duration::from_millis(60));
    assert!(made_at_home(&world, file), "what has contents leaves after a moment");
    assert!(!made_at_home(&world, lock));
}

#[test]
fn a_lock_under_which_more_is_written_than_a_message_holds_does_not_cross() {
    let (mut world, station, client) = gathering_station();
    // What comes before and behind the lock's span leaves in messages of the usual size.
    let mut locks = Vec::new();
    for number in 0..60 {
        match number {
            20 => locks.push(world.create(client, FileId::ROOT, "#cvs.pfl")),
            40 => drop(world.change(client, Change::Unlink { parent: FileId::ROOT, name: name("#cvs.pfl") }).unwrap()),
            _ => {}
        }
        let file = world.create(client, FileId::ROOT, &format!("f{number}"));
        world.store(client, file, small(&format!("{number:03}").repeat(900)));
    }
    world.pass(Duration::from_millis(1100));
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap().len(), 60);
    assert!(!made_at_home(&world, locks[0]));
    world.pass(Duration::from_secs(3));
    assert_all_is_over(&mut world, [station, client]);
}

#[test]
fn a_name_with_nothing_behind_it_is_seen_after_a_period() {
    let (mut world, _, client) = gathering_station();
    let directory = world.mkdir(client, FileId::ROOT, "d");
    world.pass(Duration::from_millis(900));
    assert!(!made_at_home(&world, directory));
    world.pass(Duration::from_millis(150));
    assert!(made_at_home(&world, directory));
}

#[test]
fn who_works_without_a_pause_is_seen_all_the_same() {
    let (mut world, _, client) = gathering_station();
    let mut seen_first = None;
    for round in 0..80 {
        world.create(client, FileId::ROOT, &format!("f{round:02}"));
        world.pass(Duration::from_millis(20));
        if seen_first.is_none() && !world.names(HOME, FileId::ROOT).unwrap().is_empty() {
            seen_first = Some(round);
        }
    }
    // A period is 50 rounds.
    assert!(seen_first.is_some_and(|round| (45..=52).contains(&round)), "{seen_first:?}");
}

#[test]
fn saves_that_a_station_gathered_arrive_as_the_last() {
    let (mut world, station, client) = gathering_station();
    let file = world.create(client, FileId::ROOT, "notes");
    world.pass(Duration::from_secs(2));
    for round in 0..10 {
        let scratch = world.create(client, FileId::ROOT, "notes~");
        world.store(client, scratch, big(&format!("round {round}")));
        world.rename(client, (FileId::ROOT, "notes~"), (FileId::ROOT, "notes")).unwrap();
    }
    world.pass(Duration::from_secs(3));
    assert_eq!(world.wait(client, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap(), ["notes"]);
    let (now, inode) = world.lookup(HOME, FileId::ROOT, "notes").unwrap();
    assert_eq!(inode.content, big("round 9"));
    assert_ne!(now, file);
    assert!(world.hosts[HOME].chunks.len() < 10, "the home did not get each of them");
    assert!(world.hosts[HOME].replica.conflicts(None, 9).unwrap().is_empty());
    assert_all_is_over(&mut world, [station, client]);
}

/// Seed 20001478: a client that is put back has not got what it wrote last, and says so to a station that cannot reach the home. What
/// that took the place of, and the station has, is the last content that is whole.
#[test]
fn what_lost_bytes_took_the_place_of_is_sent_as_it_was() {
    let (mut world, station, client) = gathering_station();
    let file = world.create(client, FileId::ROOT, "notes");
    assert_eq!(world.wait(client, Level::Stable), Ok(Answer::Reached));
    let (up, line) = (world.line_of(station), world.line_of(client));
    world.close(up);
    world.store(client, file, big("first"));
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    let copy = world.snapshot(client);
    world.hold_pushes(line, true);
    world.store(client, file, big("second"));
    world.pass(Duration::from_secs(2));
    world.lose(client, &big("second"));
    world.restore(client, copy, 7);
    world.connect(client, station);
    world.pass(Duration::from_secs(2));
    world.connect(station, HOME);
    world.pass(Duration::from_secs(200));
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, big("first"));
    assert!(world.can_read(HOME, file, &big("first")));
    assert_all_is_over(&mut world, [station, client]);
}

#[test]
fn what_another_client_of_the_station_touched_is_sent_as_it_was() {
    let (mut world, station, client) = gathering_station();
    let other = world.add(Role::Client, "bob@b");
    world.connect(other, station);
    world.pass(Duration::from_secs(2));
    world.names(other, FileId::ROOT).unwrap();
    let file = world.create(client, FileId::ROOT, "f");
    world.settle();
    world.change(other, Change::Link { file, parent: FileId::ROOT, name: name("g") }).unwrap();
    world.settle();
    world.change(client, Change::Unlink { parent: FileId::ROOT, name: name("f") }).unwrap();
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap(), ["g"]);
    assert!(made_at_home(&world, file));
    for host in [station, client, other] {
        world.assert_agrees(host);
    }
}

#[test]
fn a_lock_directory_of_a_program_never_crosses_the_wide_area() {
    let (mut world, station, client) = gathering_station();
    let lock = world.mkdir(client, FileId::ROOT, "#cvs.lock");
    world.change(client, Change::Rmdir { parent: FileId::ROOT, name: name("#cvs.lock") }).unwrap();
    world.pass(Duration::from_secs(3));
    assert_eq!(world.wait(client, Level::Stable), Ok(Answer::Reached));
    assert!(!made_at_home(&world, lock), "the home never heard of the directory");
    assert_all_is_over(&mut world, [station, client]);
}

#[test]
fn a_directory_in_which_another_client_of_the_station_works_crosses() {
    let (mut world, station, client) = gathering_station();
    let other = world.add(Role::Client, "bob@b");
    let peer = world.connect(other, station);
    world.pass(Duration::from_secs(2));
    world.names(other, FileId::ROOT).unwrap();
    let directory = world.mkdir(client, FileId::ROOT, "dir");
    world.settle();
    world.names(other, directory).unwrap();
    // The other has not heard of the removal when he makes his file.
    world.stall(peer, true);
    world.change(client, Change::Rmdir { parent: FileId::ROOT, name: name("dir") }).unwrap();
    let file = world.create(other, directory, "work");
    world.stall(peer, false);
    world.pass(Duration::from_secs(3));
    assert!(made_at_home(&world, file) && made_at_home(&world, directory));
    assert_eq!(world.names(HOME, directory).unwrap(), ["work"]);
    for host in [station, client, other] {
        world.assert_agrees(host);
    }
}

#[test]
fn work_in_a_directory_of_which_the_home_never_heard_lands_at_the_root() {
    let (mut world, station, client) = gathering_station();
    let other = world.add(Role::Client, "bob@b");
    let peer = world.connect(other, station);
    world.pass(Duration::from_secs(2));
    world.names(other, FileId::ROOT).unwrap();
    let directory = world.mkdir(client, FileId::ROOT, "dir");
    world.settle();
    world.names(other, directory).unwrap();
    world.stall(peer, true);
    world.change(client, Change::Rmdir { parent: FileId::ROOT, name: name("dir") }).unwrap();
    let file = world.create(other, directory, "work");
    // The removal has crossed, and with it the making, as nothing at all.
    world.pass(Duration::from_secs(1));
    world.stall(peer, false);
    world.pass(Duration::from_secs(3));
    assert!(made_at_home(&world, file) && !made_at_home(&world, directory));
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap(), ["work"]);
    for host in [station, client, other] {
        world.assert_agrees(host);
    }
}

#[test]
fn of_what_stands_for_each_other_a_home_takes_all_or_nothing() {
    let mut world = World::new();
    let stations = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
    let client = world.add(Role::Client, "ann@a");
    let uppers = stations.map(|station| world.connect(station, HOME));
    let first = world.connect(client, stations[0]);
    world.pass(Duration::from_secs(2));
    world.names(client, FileId::ROOT).unwrap();
    // The first station gathers a file's whole life while it is alone.
    world.close(uppers[0]);
    let file = world.create(client, FileId::ROOT, "f");
    world.store(client, file, small("f"));
    world.settle();
    // The second hears of its beginning only.
    world.close(first);
    world.configure(stations[1], |config| config.records_per_message = 1);
    world.stall(uppers[1], true);
    let second = world.connect(client, stations[1]);
    world.settle();
    world.close(second);
    let back = world.connect(client, stations[0]);
    world.settle();
    world.change(client, Change::Unlink { parent: FileId::ROOT, name: name("f") }).unwrap();
    world.settle();
    // The first is heard with all of it, after the home took the beginning.
    let upper = world.connect(stations[0], HOME);
    world.stall(upper, true);
    world.step_up(upper, 1);
    world.settle();
    world.step_down(upper);
    // The seal, and the records.
    world.step_up(uppers[1], 2);
    assert!(made_at_home(&world, file), "the beginning came by the other way");
    world.stall(upper, false);
    world.settle();
    let refused = world.hosts[HOME]
        .events
        .iter()
        .any(|event| matches!(event, Output::Disconnect { reason, .. } if reason.contains("came by another way")));
    assert!(refused, "a part of it would leave the file there");
    world.stall(uppers[1], false);
    world.connect(stations[0], HOME);
    world.pass(Duration::from_secs(3));
    assert!(world.names(HOME, FileId::ROOT).unwrap().is_empty());
    world.close(back);
    world.connect(client, stations[0]);
    world.pass(Duration::from_secs(3));
    for host in [stations[0], stations[1], client] {
        world.assert_agrees(host);
    }
}
