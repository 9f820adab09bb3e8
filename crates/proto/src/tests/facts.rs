//! Safe, visible and stable are three facts, and each replica says only what it knows.

use super::world::{HOME, World, big, name, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Request};
use wayfs_types::{Fact, Facts, FileId, FsError, RecordId};

/// A client whose record is known to the home while its contents are on their way.
fn visible_and_not_safe() -> (World, usize, FileId, RecordId) {
    let mut world = World::new();
    let client = world.add(Role::Client, "ann@a");
    let line = world.connect(client, HOME);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    let file = world.create(client, FileId::ROOT, "film");
    world.settle();
    world.hold_pushes(line, true);
    let version = world.store(client, file, big("film"));
    world.settle();
    (world, client, file, version)
}

/// [S-facts]
#[test]
fn what_is_visible_is_not_safe_while_its_contents_are_nowhere_else() {
    let (mut world, client, file, _) = visible_and_not_safe();
    assert_eq!(world.hosts[HOME].replica.path_of(file).unwrap().as_deref(), Some("/film"), "the home knows of it");
    let facts = world.hosts[client].replica.level(file).unwrap().unwrap().facts;
    assert!(facts.visible.holds(), "{facts:?}");
    assert_eq!((facts.safe, facts.stable), (Fact::No, Fact::No));
    assert_eq!(facts.level(), Level::Modified);
    for until in [Level::Safe, Level::Visible, Level::Stable] {
        let wait = world.request(client, Request::Wait { record: None, until });
        world.settle();
        assert_eq!(world.answer(client, wait), None, "{until:?}");
    }
    let facts = world.hosts[HOME].replica.level(file).unwrap().unwrap().facts;
    assert!(facts.visible.holds());
    assert_eq!((facts.safe, facts.stable), (Fact::No, Fact::No));
}

/// Seed 186 of the simulator, with open files: a file was stored with the bytes that it had, so the home had them, and called the new
/// version stable before its record was on the disk.
#[test]
fn the_home_says_nothing_of_a_record_that_a_power_cut_would_take() {
    let mut world = World::new();
    let client = world.add(Role::Client, "ann@a");
    world.connect(client, HOME);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    let file = world.create(client, FileId::ROOT, "film");
    let first = world.store(client, file, big("film"));
    world.settle();
    world.hosts[HOME].hold_syncs = true;
    let again = world.store(client, file, big("film"));
    world.settle();
    assert_ne!(first, again);
    let at_home = |world: &World| world.hosts[HOME].replica.level(file).unwrap().unwrap();
    let early = at_home(&world);
    assert_eq!(early.version, again, "the home shows it");
    assert!(!early.facts.safe.holds() && !early.facts.stable.holds(), "{:?}", early.facts);
    assert_eq!(early.facts.visible, Fact::No);
    world.hosts[HOME].hold_syncs = false;
    world.settle();
    assert_eq!(at_home(&world).facts.level(), Level::Stable);
}

/// Seed 482 of the simulator: the marker of a merged file names no content, and what has none was called stable.
#[test]
fn what_is_said_of_a_merged_file_is_said_of_the_one_that_it_became() {
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
    let line = world.connect(b, HOME);
    world.pass(Duration::from_secs(1));
    world.hold_pushes(line, true);
    let version = world.store(b, second, big("film"));
    world.settle();
    assert_eq!(world.hosts[b].replica.inode(second).unwrap().unwrap().merged_into, Some(first));
    for file in [first, second] {
        let state = world.hosts[b].replica.level(file).unwrap().unwrap();
        assert_eq!((state.version, state.facts.safe, state.facts.stable), (version, Fact::No, Fact::No), "{file}");
    }
}

/// Seed 3016628 of the simulator: the marker of a removed file names no content either. The removal is nowhere but here, so the
/// version is what it was.
#[test]
fn what_is_said_of_a_removed_file_is_said_of_the_contents_that_it_had() {
    let (mut world, client, file, version) = visible_and_not_safe();
    let line = world.line_of(client);
    world.close(line);
    world.change(client, Change::Unlink { parent: FileId::ROOT, name: name("film") }).unwrap();
    let state = world.hosts[client].replica.level(file).unwrap().unwrap();
    assert!(world.hosts[client].replica.inode(file).unwrap().unwrap().is_removed() && state.facts.visible.holds());
    assert_eq!((state.version, state.facts.safe, state.facts.stable), (version, Fact::No, Fact::No));
    let versions = vec![(file, version)];
    let asked = world.ask(client, Request::Facts { versions });
    let Ok(Answer::Facts(facts)) = asked else { panic!("{asked:?}") };
    assert_eq!((facts[0].safe, facts[0].stable), (Fact::No, Fact::No), "asked for by its number");
}

#[test]
fn what_is_not_safe_stays_in_the_queue_though_it_is_visible() {
    let (mut world, client, _, version) = visible_and_not_safe();
    let queue = world.hosts[client].replica.queue(crate::LogPosition::START, 10).unwrap();
    let item = queue.iter().map(|(_, item)| item).find(|item| item.record.id == version).expect("it waits");
    assert!(item.facts.visible.holds() && !item.facts.reached(Level::Safe) && !item.facts.reached(Level::Visible));
    let line = world.line_of(client);
    world.hold_pushes(line, false);
    world.settle();
    assert_eq!(world.wait(client, Level::Stable), Ok(Answer::Reached));
    assert!(world.hosts[client].replica.queue(crate::LogPosition::START, 10).unwrap().is_empty());
}

#[test]
fn a_client_does_not_say_of_the_files_of_others_what_it_was_not_told() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(station, HOME);
    world.settle();
    world.connect(ann, HOME);
    world.connect(bob, station);
    world.settle();
    let (near, far) = (world.create(ann, FileId::ROOT, "small"), world.create(ann, FileId::ROOT, "large"));
    world.store(ann, near, small("x"));
    world.store(ann, far, big("x"));
    world.settle();
    world.names(bob, FileId::ROOT).unwrap();
    let facts = world.hosts[bob].replica.level(far).unwrap().unwrap().facts;
    assert_eq!((facts.safe, facts.visible, facts.stable), (Fact::Unknown, Fact::Unknown, Fact::Unknown));
    let facts = world.hosts[bob].replica.level(near).unwrap().unwrap().facts;
    assert!(facts.safe.holds(), "its contents came with its record, from a server");
    assert_eq!((facts.visible, facts.stable), (Fact::Unknown, Fact::Unknown));
    let facts = world.hosts[station].replica.level(far).unwrap().unwrap().facts;
    assert!(facts.visible.holds(), "a station has it from the home");
    assert_eq!((facts.safe, facts.stable), (Fact::Unknown, Fact::Unknown));
    let facts = world.hosts[HOME].replica.level(far).unwrap().unwrap().facts;
    assert_eq!(facts.level(), Level::Stable);
}

#[test]
fn a_home_calls_safe_what_a_station_has_whole_and_not_what_a_station_waits_for() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let ann = world.add(Role::Client, "ann@a");
    world.connect(station, HOME);
    world.settle();
    let line = world.connect(ann, station);
    world.settle();
    world.names(ann, FileId::ROOT).unwrap();
    let file = world.create(ann, FileId::ROOT, "film");
    world.hold_pushes(line, true);
    world.store(ann, file, big("film"));
    world.pass(std::time::Duration::from_secs(3));
    let at = |world: &World, host: usize| world.hosts[host].replica.level(file).unwrap().unwrap().facts;
    assert!(at(&world, HOME).visible.holds() && at(&world, station).visible.holds());
    assert_eq!((at(&world, HOME).safe, at(&world, HOME).stable), (Fact::Unknown, Fact::No));
    assert_eq!((at(&world, station).safe, at(&world, ann).safe), (Fact::No, Fact::No));
    world.hold_pushes(line, false);
    world.pass(std::time::Duration::from_secs(1));
    for host in [HOME, station, ann] {
        assert!(at(&world, host).safe.since().is_some(), "host {host}: {:?}", at(&world, host));
        assert_eq!(at(&world, host).level(), Level::Visible, "host {host}");
    }
}

/// A writer at one station, a reader at another, and the lines of both stations.
fn two_sites() -> (World, [usize; 2], [crate::PeerId; 2]) {
    let mut world = World::new();
    let stations = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
    let (writer, reader) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "ben@b"));
    let lines = stations.map(|station| world.connect(station, HOME));
    world.settle();
    world.connect(writer, stations[0]);
    world.connect(reader, stations[1]);
    world.pass(Duration::from_secs(2));
    world.names(reader, FileId::ROOT).unwrap();
    (world, [writer, reader], lines)
}

fn facts_asked(world: &mut World, host: usize, file: FileId, version: RecordId) -> Facts {
    match world.ask(host, Request::Facts { versions: vec![(file, version)] }) {
        Ok(Answer::Facts(facts)) => facts[0],
        other => panic!("unexpected {other:?}"),
    }
}

/// [S-facts]
#[test]
fn a_reader_learns_the_facts_of_what_another_wrote_by_asking_the_home() {
    let (mut world, [writer, reader], _) = two_sites();
    let file = world.create(writer, FileId::ROOT, "film");
    let version = world.store(writer, file, big("film"));
    world.pass(Duration::from_secs(2));
    let before = world.hosts[reader].replica.level(file).unwrap().unwrap().facts;
    assert_eq!(before.stable, Fact::Unknown, "nobody told it");
    let facts = facts_asked(&mut world, reader, file, version);
    assert!(facts.visible.holds() && facts.safe.holds(), "{facts:?}");
    assert_eq!(facts.stable, Fact::No, "the home lacks the contents, and says so");
    assert_eq!(world.wait(writer, Level::Stable), Ok(Answer::Reached));
    let facts = facts_asked(&mut world, reader, file, version);
    assert!(facts.stable.holds(), "{facts:?}");
    let after = world.hosts[reader].replica.level(file).unwrap().unwrap().facts;
    assert!(after.stable.holds(), "what it was told once lasts: {after:?}");
}

/// [S-facts]
#[test]
fn a_fact_that_only_the_home_knows_is_unknown_while_it_cannot_be_asked() {
    let (mut world, [writer, reader], lines) = two_sites();
    let file = world.create(writer, FileId::ROOT, "film");
    let version = world.store(writer, file, big("film"));
    world.pass(Duration::from_secs(2));
    world.stall(lines[1], true);
    // Under way when the station gives its line up: the station says what it knows itself.
    let asked =
        world.request_within(reader, Request::Facts { versions: vec![(file, version)] }, Duration::from_secs(60));
    world.settle();
    assert_eq!(world.answer(reader, asked), None);
    world.close(lines[1]);
    world.settle();
    let Some(Ok(Answer::Facts(facts))) = world.answer(reader, asked) else { panic!("no answer") };
    assert!(facts[0].visible.holds(), "its station has it from the home: {facts:?}");
    assert_eq!(facts[0].stable, Fact::Unknown);
    let facts = facts_asked(&mut world, reader, file, version);
    assert_eq!(facts.stable, Fact::Unknown, "the station has no home to ask: {facts:?}");
}

/// A session's numbers of questions begin anew: what answered one of the last session was taken for the answer to another.
#[test]
fn the_answer_to_a_question_of_a_session_that_ended_answers_none_of_the_next() {
    let (mut world, [writer, reader], lines) = two_sites();
    let [stable, fresh] = ["film", "book"].map(|name| {
        let file = world.create(writer, FileId::ROOT, name);
        (file, world.store(writer, file, big(name)))
    });
    world.pass(Duration::from_secs(2));
    world.names(reader, FileId::ROOT).unwrap();
    world.wait(writer, Level::Stable).unwrap();
    let newest = world.store(writer, fresh.0, big("another"));
    world.pass(Duration::from_secs(2));
    world.stall(lines[1], true);
    let ask = |world: &mut World, (file, version)| {
        let versions = vec![(file, version)];
        let asked = world.request_within(reader, Request::Facts { versions }, Duration::from_secs(60));
        world.settle();
        asked
    };
    ask(&mut world, stable);
    let line = world.line_of(reader);
    world.close(line);
    world.settle();
    world.connect(reader, 2);
    world.settle();
    // One of them has the number of the first.
    let asked: Vec<_> = (0..20).map(|_| ask(&mut world, (fresh.0, newest))).collect();
    assert!(asked.iter().all(|asked| world.answer(reader, *asked).is_none()));
    world.stall(lines[1], false);
    world.settle();
    for asked in asked {
        let Some(Ok(Answer::Facts(facts))) = world.answer(reader, asked) else { panic!("no answer") };
        assert_eq!(facts[0].stable, Fact::No, "the home lacks its contents: {facts:?}");
    }
}

/// [S-refresh]
#[test]
fn whoever_refreshes_sees_what_was_visible_before() {
    let (mut world, [writer, reader], lines) = two_sites();
    world.stall(lines[1], true);
    let file = world.create(writer, FileId::ROOT, "film");
    assert_eq!(world.wait(writer, Level::Visible), Ok(Answer::Reached));
    assert!(world.hosts[reader].replica.inode(file).unwrap().is_none(), "the news is on its way");
    let asked = world.request(reader, Request::Refresh);
    world.settle();
    assert_eq!(world.answer(reader, asked), None, "it would not be so");
    world.stall(lines[1], false);
    world.settle();
    assert_eq!(world.answer(reader, asked), Some(Ok(Answer::Done)));
    assert!(world.hosts[reader].replica.inode(file).unwrap().is_some(), "at the moment of the answer");
}

/// [S-refresh]
#[test]
fn a_refresh_says_so_when_the_home_cannot_be_asked() {
    let (mut world, [_, reader], lines) = two_sites();
    world.stall(lines[1], true);
    let under_way = world.request_within(reader, Request::Refresh, Duration::from_secs(60));
    world.settle();
    world.close(lines[1]);
    world.settle();
    assert_eq!(world.answer(reader, under_way), Some(Err(FsError::Unreachable)));
    assert_eq!(world.ask(reader, Request::Refresh), Err(FsError::Unreachable));
    assert_eq!(world.ask(HOME, Request::Refresh), Ok(Answer::Done));
}

#[test]
fn a_client_knows_how_long_ago_its_station_heard_the_home() {
    let (mut world, [_, reader], lines) = two_sites();
    world.pass(Duration::from_secs(6));
    assert_eq!(world.hosts[reader].replica.is_home_reachable(world.now), Some(true));
    let heard = world.hosts[reader].replica.home_heard().unwrap();
    assert!(world.now.since(heard) <= Duration::from_secs(5), "two pings ago at most");
    world.close(lines[1]);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.hosts[reader].replica.is_home_reachable(world.now), Some(false));
    let heard = world.hosts[reader].replica.home_heard().unwrap();
    assert!(world.now.since(heard) >= Duration::from_secs(50), "{:?}", world.now.since(heard));
}
