//! A change made at one replica arrives at the others.

use super::world::{HOME, World, big, name, small};
use crate::histories::identity::IDENTITY;
use crate::{Holder, Role};
use bytes::Bytes;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Request, XattrPresence};
use wayfs_types::{Fact, FileId, FsError, MetaStore, XattrName};

#[test]
fn what_a_client_makes_is_seen_at_home_and_at_another_client() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    assert_eq!(world.lookup(b, FileId::ROOT, "x").unwrap_err(), FsError::NotFound);
    let file = world.create(a, FileId::ROOT, "x");
    world.store(a, file, small("hello"));
    world.settle();
    let (found, inode) = world.lookup(b, FileId::ROOT, "x").unwrap();
    assert_eq!((found, inode.content.clone()), (file, small("hello")));
    assert_eq!(world.names(b, FileId::ROOT), Ok(vec!["x".to_owned()]));
    for host in [a, b] {
        world.assert_agrees(host);
        world.check_tree(host);
    }
    assert!(world.hosts[a].replica.is_settled());
    assert_eq!(world.hosts[a].replica.progress().records_waiting, 0);
}

#[test]
fn a_station_that_is_told_more_than_may_be_under_way_hears_all_of_it() {
    let mut world = World::new();
    world.configure(HOME, |config| config.images_per_message = 2);
    let (busy, calm) = (world.add(Role::Station, "st@busy"), world.add(Role::Station, "st@calm"));
    let client = world.add(Role::Client, "ann@a");
    let line = world.connect(busy, HOME);
    world.connect(calm, HOME);
    world.settle();
    world.connect(client, busy);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    world.close(line);
    for n in 0..100 {
        world.create(client, FileId::ROOT, &format!("f{n}"));
    }
    world.connect(busy, HOME);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.wait(client, Level::Visible), Ok(Answer::Reached));
    for host in [busy, calm, client] {
        world.assert_agrees(host);
    }
}

#[test]
fn a_station_between_takes_records_at_once_and_the_home_hears_within_a_period() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(station, HOME);
    world.settle();
    world.connect(a, station);
    world.connect(b, HOME);
    world.settle();
    let dir = world.mkdir(a, FileId::ROOT, "d");
    let file = world.create(a, dir, "f");
    world.store(a, file, big("one"));
    world.pass(Duration::from_secs(2));
    assert_eq!(world.hosts[station].replica.path_of(file).unwrap().as_deref(), Some("/d/f"));
    assert_eq!(world.hosts[HOME].replica.path_of(file).unwrap().as_deref(), Some("/d/f"));
    let inode = world.lookup(b, dir, "f").unwrap().1;
    assert_eq!(inode.content, big("one"));
    let version = inode.version;
    let station_origin = world.hosts[station].origin;
    let at_home = world.hosts[HOME].replica.holder(file, version).unwrap();
    assert!(matches!(at_home, Holder::Child(origin, Some(_)) if origin == station_origin), "{at_home:?}");
    assert_eq!(world.hosts[station].replica.holder(file, version).unwrap(), Holder::Here);
    assert_eq!(world.hosts[b].replica.holder(file, version).unwrap(), Holder::Parent);
    let state = world.hosts[a].replica.level(file).unwrap().unwrap();
    assert_eq!(state.facts.level(), Level::Visible);
    assert!(state.facts.safe.since().is_some() && state.facts.visible.since().is_some());
    assert_eq!((state.facts.stable, state.safe_at), (Fact::No, Some(station_origin)));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.hosts[HOME].replica.holder(file, version).unwrap(), Holder::Here);
    assert_eq!(world.hosts[a].replica.level(file).unwrap().unwrap().facts.level(), Level::Stable);
    assert_eq!(world.hosts[station].replica.progress().versions_at_risk, 0);
    for host in [station, a, b] {
        world.assert_agrees(host);
    }
}

#[test]
fn an_answer_comes_at_once_and_safe_only_with_the_contents() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    world.names(a, FileId::ROOT).unwrap();
    world.stall(peer, true);
    let file = world.create(a, FileId::ROOT, "x");
    world.store(a, file, big("x"));
    let wait = world.request(a, Request::Wait { record: None, until: Level::Safe });
    world.settle();
    assert_eq!(world.answer(a, wait), None);
    assert_eq!(world.hosts[a].replica.level(file).unwrap().unwrap().facts.level(), Level::Modified);
    assert_eq!(world.hosts[a].replica.progress().bytes_at_risk, 1_000_000);
    world.stall(peer, false);
    world.settle();
    assert_eq!(world.answer(a, wait), Some(Ok(Answer::Reached)));
    assert_eq!(world.hosts[a].replica.progress().bytes_at_risk, 0);
}

#[test]
fn nothing_is_acknowledged_before_it_is_durable_at_the_parent() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    world.connect(a, HOME);
    world.settle();
    world.hosts[HOME].hold_syncs = true;
    world.create(a, FileId::ROOT, "x");
    let wait = world.request(a, Request::Wait { record: None, until: Level::Safe });
    world.settle();
    assert_eq!(world.answer(a, wait), None);
    assert!(world.hosts[HOME].replica.entry(FileId::ROOT, &name("x")).unwrap().is_some());
    world.hosts[HOME].hold_syncs = false;
    world.settle();
    assert_eq!(world.answer(a, wait), Some(Ok(Answer::Reached)));
}

#[test]
fn offline_a_client_reads_its_cache_and_writes_its_log() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    let dir = world.mkdir(a, FileId::ROOT, "d");
    world.names(a, FileId::ROOT).unwrap();
    world.close(peer);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.names(a, FileId::ROOT), Ok(vec!["d".to_owned()]));
    assert_eq!(world.lookup(a, FileId::ROOT, "nothing").unwrap_err(), FsError::NotFound);
    for number in 0..100 {
        let file = world.create(a, dir, &format!("f{number}"));
        world.store(a, file, small("x"));
    }
    assert_eq!(world.wait(a, Level::Safe), Err(FsError::Unreachable));
    world.connect(a, HOME);
    world.settle();
    assert!(world.hosts[a].replica.is_settled());
    assert_eq!(world.names(HOME, dir).unwrap().len(), 100);
    world.assert_agrees(a);
}

#[test]
fn what_was_never_seen_cannot_be_reached_offline() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(a, HOME);
    let peer = world.connect(b, HOME);
    world.settle();
    let dir = world.mkdir(a, FileId::ROOT, "d");
    world.create(a, dir, "f");
    world.settle();
    assert_eq!(world.lookup(b, FileId::ROOT, "d").unwrap().0, dir);
    world.close(peer);
    world.pass(Duration::from_secs(30));
    assert_eq!(world.lookup(b, FileId::ROOT, "d").unwrap().0, dir);
    assert_eq!(world.lookup(b, dir, "f").unwrap_err(), FsError::Unreachable);
    assert_eq!(world.names(b, dir), Err(FsError::Unreachable));
}

#[test]
fn stores_upon_one_version_end_the_same_everywhere_and_lose_nothing() {
    let mut world = World::new();
    let (s1, s2) = (world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s"));
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(s1, HOME);
    world.connect(s2, HOME);
    world.settle();
    world.connect(a, s1);
    world.connect(b, s2);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x.txt");
    world.store(a, file, small("base"));
    let (of_file, value) = (XattrName::new("user.author").unwrap(), Some(Bytes::from_static(b"ann")));
    let change = Change::SetXattr { file, name: of_file.clone(), value, presence: XattrPresence::Any };
    world.change(a, change).unwrap();
    world.pass(Duration::from_secs(3));
    world.names(b, FileId::ROOT).unwrap();
    world.store(a, file, small("from a"));
    world.store(b, file, small("from b"));
    world.pass(Duration::from_secs(5));
    let names = world.names(HOME, FileId::ROOT).unwrap();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in &names {
        let (_, inode) = world.lookup(HOME, FileId::ROOT, name).unwrap();
        assert!(inode.xattrs.contains_key(&of_file), "{name} has what was said of the file");
    }
    for host in [a, b] {
        assert_eq!(world.names(host, FileId::ROOT).unwrap(), names);
    }
    for host in [s1, s2, a, b] {
        world.assert_agrees(host);
        world.check_tree(host);
        assert!(world.hosts[host].replica.is_settled(), "host {host}");
        assert_eq!(world.hosts[host].replica.conflicts(None, 10).unwrap().len(), 1);
    }
    let conflict = world.hosts[a].replica.conflicts(None, 10).unwrap()[0].id;
    world.change(a, Change::Resolve { conflict }).unwrap();
    world.pass(Duration::from_secs(5));
    assert!(world.hosts[b].replica.conflicts(None, 10).unwrap().is_empty());
}

/// Seed 2205307 of the simulator: the first that a fresh client heard broke the protocol, and took its identity away with it. The
/// store could not go on under another number then, and failed.
#[test]
fn a_store_knows_whose_it_is_before_it_hears_anything() {
    let mut world = World::new();
    for role in [Role::Client, Role::Station] {
        let host = world.add(role, "ann@a");
        assert!(world.hosts[host].replica.store().get(IDENTITY).unwrap().is_some(), "{role:?}");
    }
}
