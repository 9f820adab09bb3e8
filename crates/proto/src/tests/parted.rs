//! A station that has records of one copy of a client's store while the home has those of another, by the same numbers.

use super::forking::{assert_all_there, named, stay_connected, was_renewed, write};
use super::world::{HOME, World};
use crate::histories::Histories;
use crate::{Output, PeerId, Role};
use std::collections::BTreeSet;
use std::time::Duration;
use wayfs_types::request::{Level, Request};
use wayfs_types::{FileId, Image, Key, Origin, RecordId};

const ROOT: FileId = FileId::ROOT;

/// A client below a station that wrote `mine` there, and a copy of its store that wrote `theirs` at the home, less and by the same
/// numbers. The station is not connected, and neither is the copy.
struct Parted {
    world: World,
    station: usize,
    copy: usize,
    /// Another client, which knows the station.
    reader: usize,
    mine: Vec<String>,
    theirs: Vec<String>,
}

impl Parted {
    fn new() -> Self {
        let mut world = World::new();
        let station = world.add(Role::Station, "st@s");
        let up = stay_connected(&mut world, station, HOME);
        let (a, reader) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "ben@b"));
        let lines = [a, reader].map(|client| stay_connected(&mut world, client, station));
        write(&mut world, a, &named("common", 3));
        for client in [a, reader] {
            world.names(client, ROOT).unwrap();
        }
        world.pass(Duration::from_secs(3));
        let store = world.snapshot(a);
        for line in lines.into_iter().chain([up]) {
            world.close(line);
        }
        world.restore(a, store.clone(), 77);
        let peer = stay_connected(&mut world, a, station);
        let mine = named("mine", 3);
        write(&mut world, a, &mine);
        world.pass(Duration::from_secs(3));
        world.close(peer);
        // A life that begins at the same number.
        let copy = world.clone_of(a, store, 77 + (1 << 18));
        let theirs = named("theirs", 1);
        write_at_home(&mut world, copy, &theirs);
        Self { world, station, copy, reader, mine, theirs }
    }

    /// The station hears from the home, and writes again what it has.
    fn part(&mut self) -> PeerId {
        let up = stay_connected(&mut self.world, self.station, HOME);
        self.world.pass(Duration::from_secs(3));
        let is_rescue = |event: &Output| matches!(event, Output::Rescued { .. });
        assert!(self.world.hosts[self.station].events.iter().any(is_rescue), "the station parts from what it had");
        up
    }
}

fn write_at_home(world: &mut World, client: usize, names: &[String]) {
    let line = stay_connected(world, client, HOME);
    write(world, client, names);
    world.pass(Duration::from_secs(3));
    world.close(line);
}

/// [S-clone] The simulator found it (seed 10001730): the copy whose records the home has goes on at the station. Nothing of it went home
/// as long as the session stayed in which the station had seen whose these are.
#[test]
fn what_follows_the_homes_history_is_sent_when_the_station_has_taken_that_over() {
    let mut parted = Parted::new();
    let up = parted.part();
    let Parted { world, station, copy, mine, theirs, .. } = &mut parted;
    stay_connected(world, *copy, *station);
    let more = named("more", 1);
    write(world, *copy, &more);
    world.pass(Duration::from_secs(5));
    assert!(world.is_open(up), "{:?}", world.hosts[*station].events);
    for names in [mine, theirs, &more] {
        assert_all_there(world, HOME, names);
    }
}

/// [S-clone] The simulator found it (seed 12000177): a client saw there what the station writes again, and does not hear so, since its own
/// history forks in the same moment. It comes back to the station that told it, and waits for nothing that this does not know any more.
#[test]
fn who_comes_back_under_another_number_believes_the_server_that_told_it_before() {
    let mut parted = Parted::new();
    let Parted { world, station, reader, mine, .. } = &mut parted;
    let (station, reader) = (*station, *reader);
    let store = world.snapshot(reader);
    world.restore(reader, store.clone(), 20_003);
    let copy = world.clone_of(reader, store, 200_003);
    stay_connected(world, reader, station);
    write(world, reader, &named("read", 1));
    assert_all_there(world, reader, mine);
    let before = world.lookup(reader, ROOT, "mine-2").unwrap().0;
    write_at_home(world, copy, &named("other", 1));
    parted.part();
    let world = &mut parted.world;
    stay_connected(world, reader, station);
    world.pass(Duration::from_secs(3));
    assert!(was_renewed(world, reader).is_some(), "its own history forked");
    let there = world.lookup(HOME, ROOT, "mine-2").unwrap().0;
    assert_ne!(there, before, "it is written again");
    assert_eq!(world.lookup(reader, ROOT, "mine-2").unwrap().0, there);
}

/// A station that has lost its home, and a client of it whose first record the home has.
fn below_a_station_that_is_away() -> (World, usize, usize) {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let up = stay_connected(&mut world, station, HOME);
    let client = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, client, station);
    write(&mut world, client, &named("common", 1));
    world.pass(Duration::from_secs(3));
    world.close(up);
    (world, station, client)
}

/// A station that sends up what a client wrote hears of it with each of the home's messages. What waits behind what such a message
/// confirms is not looked at, or a backlog would cost its square.
#[test]
fn what_waits_behind_the_confirmed_records_is_not_looked_through_for_parted_ones() {
    let (mut world, station, client) = below_a_station_that_is_away();
    write(&mut world, client, &named("waiting", 100));
    world.pass(Duration::from_secs(3));
    let origin = world.hosts[client].origin;
    let Some(Image::Origin(known)) = world.tree(HOME).remove(&Key::Origin(origin)) else { panic!("no member") };
    let Some(Image::Origin(here)) = world.tree(station).remove(&Key::Origin(origin)) else { panic!("no member") };
    assert!(here.applied >= known.applied + 100, "{} and {}", here.applied, known.applied);
    let replica = &mut world.hosts[station].replica;

    // The home's word of what it has, and of two more.
    let record = RecordId::new(origin, known.applied + 2).unwrap();
    let two_more = Origin {
        applied: record.sequence(),
        chain: replica.core.state.log().chain_at(record).unwrap(),
        ..Origin::clone(&here)
    };
    for (word, looks) in [(&*known, 1), (&two_more, 3)] {
        let before = replica.core.state.log().looks.get();
        assert!(Histories::parted_of(&mut replica.core, &BTreeSet::new(), (origin, word)).unwrap().1.is_empty());
        assert_eq!(replica.core.state.log().looks.get() - before, looks);
    }
}

/// Writes what the home takes, and the client does not hear of that.
fn write_unheard(world: &mut World, client: usize, names: &[String]) {
    let line = stay_connected(world, client, HOME);
    world.names(client, ROOT).unwrap();
    world.stall(line, true);
    write(world, client, names);
    world.settle();
    while world.waits_up(line) {
        world.step_up(line, 1);
    }
    world.settle();
    world.close(line);
    assert_all_there(world, HOME, names);
}

/// [S-losses] The simulator found it (seed 169053631): a power cut took from a client what it had sent ahead to its station, and it went on at the
/// home, and then at the station. There that record has a number that the home will not take any more. The station writes it
/// again, and nothing else: it took out of its view all that the client had sent behind it, and told less of that than before.
#[test]
fn what_a_client_wrote_behind_a_number_that_it_lost_stays_as_it_is() {
    let (mut world, station, client) = below_a_station_that_is_away();
    world.names(client, ROOT).unwrap();
    world.hosts[client].hold_syncs = true;
    let lost = world.create(client, ROOT, "lost");
    world.request_within(client, Request::Wait { record: None, until: Level::Safe }, Duration::from_secs(60));
    world.settle();
    assert!(world.hosts[station].replica.inode(lost).unwrap().is_some(), "it was sent ahead");
    let store = world.snapshot(client);
    world.restore(client, store, 77);
    world.hosts[client].hold_syncs = false;
    let (at_home, below) = (named("home", 2), named("station", 2));
    write_unheard(&mut world, client, &at_home);
    let line = stay_connected(&mut world, client, station);
    write(&mut world, client, &below);
    world.pass(Duration::from_secs(3));
    assert_all_there(&mut world, station, &at_home);
    stay_connected(&mut world, station, HOME);
    world.pass(Duration::from_secs(5));
    assert!(world.is_open(line), "{:?}", world.hosts[client].events);
    let rescued = world.hosts[station].events.iter().filter_map(|event| match event {
        Output::Rescued { of, records } => Some((*of, *records)),
        _ => None,
    });
    assert_eq!(rescued.collect::<Vec<_>>(), [(world.hosts[client].origin, 1)]);
    for names in [at_home, below] {
        assert_all_there(&mut world, HOME, &names);
    }
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 6, "and the lost one is there");
    assert!(world.hosts[HOME].replica.conflicts(None, 10).unwrap().is_empty());
}
