//! A station that was put back to an older copy: what it forgot, and who is asked for it.

use super::forking::stay_connected;
use super::world::{HOME, World, big, small};
use crate::testing::MemoryStore;
use crate::{Held, Input, Role};
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Level};

const ROOT: FileId = FileId::ROOT;
/// Long enough for all who are there to be asked.
const ASKED: Duration = Duration::from_secs(150);

/// A home, a station and a client at it whose file the station has whole. The copy of the station does not have the
/// bytes; it has the record of them if the home was not there.
struct Stage {
    world: World,
    station: usize,
    client: usize,
    file: FileId,
    copy: MemoryStore,
}

fn stage(is_home_there: bool) -> Stage {
    let mut world = World::new();
    let (station, client) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    let up = stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, client, station);
    world.pass(Duration::from_secs(3));
    if !is_home_there {
        world.close(up);
    }
    let file = world.create(client, ROOT, "f");
    world.hold_pushes(line, true);
    world.pass(Duration::from_secs(3));
    let early = world.snapshot(station);
    world.store(client, file, big("f"));
    world.pass(Duration::from_secs(3));
    let copy = if is_home_there { early } else { world.snapshot(station) };
    world.hold_pushes(line, false);
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    Stage { world, station, client, file, copy }
}

impl Stage {
    fn put_back(&mut self) {
        let copy = std::mem::take(&mut self.copy);
        self.world.restore(self.station, copy, 9);
        self.world.hosts[self.station].chunks.clear();
    }
}

/// Seed 222 of `station-back`: its client lets go what it called safe, so nobody below it is on record for the bytes.
#[test]
fn a_station_put_back_does_not_say_that_it_has_what_its_client_lent_it() {
    let mut stage = stage(false);
    stage.put_back();
    stay_connected(&mut stage.world, stage.client, stage.station);
    stay_connected(&mut stage.world, stage.station, HOME);
    stage.world.pass(ASKED);
    assert_eq!(stage.world.wait(stage.client, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.hosts[HOME].chunks.contains(&big("f").root().unwrap()), "it was got from its writer");
}

/// Seed 9600986: a station that was put back, and cannot reach the home, told its clients that it was. What they had seen counted as lost
/// at once, though the home has it.
#[test]
fn what_was_seen_at_a_station_that_was_put_back_is_not_undone() {
    let mut world = World::new();
    let (station, reader, writer) =
        (world.add(Role::Station, "st@s"), world.add(Role::Client, "bob@b"), world.add(Role::Client, "ann@a"));
    world.restore(station, MemoryStore::new(), 7);
    let up = stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, writer, HOME);
    stay_connected(&mut world, reader, station);
    let file = world.create(writer, ROOT, "f");
    world.store(writer, file, small("first"));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(station);
    world.store(writer, file, small("second"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(reader, ROOT, "f").unwrap().1.content, small("second"));
    world.close(up);
    world.restore(station, copy, 9);
    stay_connected(&mut world, reader, station);
    world.pass(Duration::from_secs(10));
    assert_eq!(world.lookup(reader, ROOT, "f").unwrap().1.content, small("second"), "the home has it");
    stay_connected(&mut world, station, HOME);
    world.pass(Duration::from_secs(10));
    assert_eq!(world.lookup(reader, ROOT, "f").unwrap().1.content, small("second"));
}

/// The writer was not there when the home asked, and comes back as another member.
#[test]
fn a_writer_that_comes_later_is_asked_for_what_the_home_looks_for() {
    let mut stage = stage(false);
    let line = stage.world.line_of(stage.client);
    stage.world.close(line);
    stage.put_back();
    stay_connected(&mut stage.world, stage.station, HOME);
    stage.world.pass(ASKED);
    let holder = stage.world.hosts[HOME].replica.holders(stage.file, version(&stage)).unwrap();
    assert!(holder.is_empty(), "nobody who is there has it: {holder:?}");
    stay_connected(&mut stage.world, stage.client, stage.station);
    stage.world.pass(ASKED);
    assert_eq!(stage.world.wait(stage.client, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.hosts[HOME].chunks.contains(&big("f").root().unwrap()));
}

fn version(stage: &Stage) -> wayfs_types::RecordId {
    stage.world.hosts[HOME].replica.inode(stage.file).unwrap().unwrap().version
}

/// Seed 1884 of `station-back`: the home has it on record for what it forgot, and nobody else offers that.
#[test]
fn what_a_station_put_back_forgot_and_nobody_has_is_declared_lost() {
    let mut stage = stage(true);
    stage.world.destroy(stage.client);
    stage.put_back();
    stay_connected(&mut stage.world, stage.station, HOME);
    let (now, wall) = (stage.world.now, stage.world.wall());
    let node = stage.world.hosts[stage.client].replica.config().node;
    stage.world.hosts[HOME].replica.revoke(now, wall, node, Held::Taken).unwrap();
    stage.world.input(HOME, Input::Tick);
    stage.world.pass(ASKED);
    let lost = stage.world.hosts[HOME].replica.lost_contents(10).unwrap();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0].file, stage.file);
    let ledger = stage.world.hosts[HOME].replica.ledger().unwrap();
    assert!(ledger.home_lacks.is_nothing(), "{ledger:?}");
}

/// Who is asked, since it was silent, and has it all the same stays on record.
#[test]
fn what_a_station_has_for_its_client_is_not_declared_lost() {
    let mut stage = stage(true);
    let line = stage.world.line_of(stage.station);
    stage.world.close(line);
    stay_connected(&mut stage.world, stage.station, HOME);
    let other = stage.world.create(stage.client, ROOT, "other");
    let line = stage.world.line_of(stage.client);
    stage.world.hold_pushes(line, true);
    stage.world.store(stage.client, other, big("other"));
    stage.world.pass(Duration::from_secs(3));
    let line = stage.world.line_of(stage.station);
    stage.world.close(line);
    stay_connected(&mut stage.world, stage.station, HOME);
    stage.world.pass(ASKED);
    let line = stage.world.line_of(stage.client);
    stage.world.hold_pushes(line, false);
    assert_eq!(stage.world.wait(stage.client, Level::Stable), Ok(Answer::Reached));
    assert!(stage.world.hosts[HOME].replica.lost_contents(10).unwrap().is_empty());
}

/// Seed 2104129 of `station-back`: a station said that nobody below it has the bytes before the home had the record of them, and did not
/// say so again. The home had it on record for them for ever.
#[test]
fn a_station_says_that_bytes_are_gone_when_the_home_has_heard_of_them() {
    let mut world = World::new();
    let (station, client) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    world.configure(station, |config| config.records_in_flight_max = 1);
    stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, client, station);
    world.pass(Duration::from_secs(3));
    // The home is slow to answer for the first record, so that the others wait at the station.
    world.hosts[HOME].hold_syncs = true;
    world.create(client, ROOT, "first");
    world.pass(Duration::from_secs(3));
    let file = world.create(client, ROOT, "f");
    world.hold_pushes(line, true);
    let version = world.store(client, file, big("f"));
    world.pass(Duration::from_secs(3));
    world.destroy(client);
    world.pass(ASKED);
    assert!(world.hosts[HOME].replica.inode(file).unwrap().is_none(), "the home has not heard of it");
    world.hosts[HOME].hold_syncs = false;
    world.pass(ASKED);
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().version, version);
    let holders = world.hosts[HOME].replica.holders(file, version).unwrap();
    assert!(holders.is_empty(), "nobody who is there has it: {holders:?}");
}

/// Seed 2302430 of `client-back` and `station-back`: a client began to push its file to the home itself, gave it to a station, and came
/// back when that had been put back. It was on record as one who pushes, and so nobody asked it for what it had lent.
#[test]
fn a_client_that_lent_what_it_was_to_push_is_asked_for_it() {
    let mut world = World::new();
    let (station, client) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, client, HOME);
    let file = world.create(client, ROOT, "f");
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(station);
    world.hold_pushes(line, true);
    let version = world.store(client, file, big("f"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().version, version);
    world.close(line);
    let line = stay_connected(&mut world, client, station);
    assert_eq!(world.wait(client, Level::Safe), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.close(line);
    world.restore(station, copy, 9);
    world.hosts[station].chunks.clear();
    stay_connected(&mut world, client, HOME);
    stay_connected(&mut world, station, HOME);
    world.pass(ASKED);
    assert!(world.hosts[HOME].chunks.contains(&big("f").root().unwrap()), "its writer has it");
    let ledger = world.hosts[HOME].replica.ledger().unwrap();
    assert!(ledger.home_lacks.is_nothing(), "{ledger:?}");
}

/// Seed 100032132: a station that was put back has some of its client's records and not the rest. The client took another number, wrote the
/// rest again, and kept the former no longer; then the station's disk died before these were at the home.
#[test]
fn a_client_keeps_what_only_a_station_has_that_was_put_back() {
    let mut world = World::new();
    let (station, client) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    world.restore(station, MemoryStore::new(), 7);
    let up = stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, client, station);
    world.pass(Duration::from_secs(3));
    world.configure(station, |config| {
        (config.reconcile_period, config.reconcile_gather) = (Duration::from_secs(60), Duration::from_secs(60));
    });
    world.create(client, ROOT, "kept");
    world.pass(Duration::from_secs(2));
    let copy = world.snapshot(station);
    world.create(client, ROOT, "rest");
    world.pass(Duration::from_secs(2));
    [up, line].into_iter().for_each(|peer| world.close(peer));
    world.restore(station, copy, 9);
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, client, station);
    world.pass(Duration::from_secs(5));
    assert!(world.names(HOME, ROOT).unwrap().is_empty(), "the station gathers");
    world.destroy(station);
    stay_connected(&mut world, client, HOME);
    world.pass(ASKED);
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["kept", "rest"]);
}

/// Seed 139000053 of `home-back` and `station-back`: a station had written again what a home that was put back lost, and was put back itself
/// before it said that nobody here has its bytes. It said so under its next number while the home had not noticed yet that the session of
/// the former one was over.
#[test]
fn a_station_is_heard_under_its_next_number_once_the_session_of_the_former_one_has_ended() {
    let mut world = super::put_back::first_life();
    let (station, client) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, client, station);
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let file = world.create(client, ROOT, "f");
    world.hold_pushes(line, true);
    world.store(client, file, big("f"));
    world.pass(Duration::from_secs(3));
    world.destroy(client);
    let store = world.snapshot(station);
    world.restore(HOME, copy, 4);
    stay_connected(&mut world, station, HOME);
    let lacks = |world: &World| world.hosts[HOME].replica.ledger().unwrap().home_lacks.versions;
    assert_eq!(lacks(&world), 1, "the station wrote it again");
    let former = world.hosts[station].origin;
    world.restore(station, store, 9);
    stay_connected(&mut world, station, HOME);
    assert_ne!(world.hosts[station].origin, former);
    let peer = crate::PeerId(9999);
    world.input(HOME, Input::PeerUp { peer, neighbour: crate::Neighbour::ChildStation { origin: former } });
    world.pass(Duration::from_secs(5));
    world.input(HOME, Input::PeerDown { peer });
    world.pass(ASKED);
    assert_eq!(lacks(&world), 0, "it is declared lost");
}
