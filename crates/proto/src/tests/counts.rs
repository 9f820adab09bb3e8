//! [S-one-account]: what is where it should be, and what nobody has any more, is counted nowhere.

use super::forking::{named, stay_connected, write};
use super::liars::{create, hello, record};
use super::put_back::{first_life, rejoin};
use super::world::{HOME, World, big, name, small};
use crate::testing::MemoryStore;
use crate::{Held, Input, Ledger, Neighbour, Output, PeerId, Role};
use std::collections::BTreeSet;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Request};
use wayfs_types::{Admitted, Digest, Fact, Facts, FileId, Life, Op, RecordId, WallTime};
use wayfs_wire::{HeldVersion, Message, SentRecord, Up, encode};

const ROOT: FileId = FileId::ROOT;
/// All who are there are asked twice before something is declared lost.
const DECIDED: Duration = Duration::from_secs(150);

fn assert_nothing_left(world: &World, hosts: &[usize]) {
    for host in hosts {
        let Ledger { not_safe, at_station, home_lacks } = world.hosts[*host].replica.ledger().unwrap();
        let all = [not_safe, at_station, Some(home_lacks)];
        assert!(all.iter().flatten().all(crate::Amount::is_nothing), "host {host}: {all:?}");
    }
}

/// A home, two stations, and a writer at the first of them that has made a file, which all have heard of.
struct Film {
    world: World,
    stations: [usize; 2],
    uppers: [PeerId; 2],
    writer: usize,
    line: PeerId,
    file: FileId,
}

impl Film {
    fn new() -> Self {
        let mut world = World::new();
        let stations = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
        let writer = world.add(Role::Client, "ann@a");
        let uppers = stations.map(|station| world.connect(station, HOME));
        world.settle();
        let line = world.connect(writer, stations[0]);
        world.names(writer, ROOT).unwrap();
        let file = world.create(writer, ROOT, "film");
        world.pass(Duration::from_secs(3));
        Self { world, stations, uppers, writer, line, file }
    }
}

/// Seed 260: a client that moved offers what it lent to the station that it left, and its new station tells the home so before the
/// record, which it cancels then: something else was stored over it.
#[test]
fn a_station_does_not_wait_for_contents_of_what_it_cancelled() {
    let Film { mut world, stations, uppers, writer, line, file } = Film::new();
    uppers.into_iter().for_each(|upper| world.close(upper));
    world.store(writer, file, big("film"));
    assert_eq!(world.wait(writer, Level::Safe), Ok(Answer::Reached));
    world.close(line);
    world.connect(writer, stations[1]);
    world.store(writer, file, small("short"));
    world.pass(Duration::from_secs(3));
    assert_eq!(
        world.hosts[stations[1]].replica.ledger().unwrap().not_safe.unwrap().versions,
        1,
        "it could be asked for them"
    );
    // The first station stays away. The second one tells what it could have before it sends the records.
    world.configure(stations[1], |config| config.reconcile_gather = Duration::from_secs(1));
    world.connect(stations[1], HOME);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, small("short"));
    assert_nothing_left(&world, &[HOME, stations[1], writer]);
}

/// Seed 2464 of `home-back`: a station tells that it has contents before it sends their record, which says that its writer holds
/// nothing. Something is stored over it before anybody is asked for them.
#[test]
fn a_station_hears_what_became_of_contents_that_it_told_of_before_their_record() {
    let Film { mut world, stations, uppers, writer, line, file } = Film::new();
    world.close(uppers[0]);
    world.store(writer, file, big("film"));
    assert_eq!(world.wait(writer, Level::Safe), Ok(Answer::Reached));
    world.close(line);
    // Its chunks came to the second station by another way.
    let root = big("film").root().unwrap();
    world.hosts[stations[1]].chunks.insert(root);
    world.input(stations[1], Input::ContentsHere { tops: vec![super::world::top(root)] });
    world.configure(stations[1], |config| config.reconcile_gather = Duration::from_millis(100));
    world.connect(writer, stations[1]);
    world.pass(Duration::from_millis(200));
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("film"));
    world.store(writer, file, small("short"));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, small("short"));
    assert_nothing_left(&world, &[HOME, stations[1], writer]);
}

/// Seed 178 of `home-back`: a station writes again by its own name what a client has not pushed yet, and the client is put back to
/// before it wrote that. It does not bring it by any name, though it is there.
#[test]
fn a_station_does_not_wait_for_what_its_client_has_under_no_name() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    let upper = stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, a, station);
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let (homes, older) = (world.snapshot(HOME), world.snapshot(a));
    let file = world.create(a, ROOT, "film");
    world.pass(Duration::from_secs(3));
    world.close(upper);
    world.hold_pushes(line, true);
    world.store(a, file, big("film"));
    world.pass(Duration::from_secs(3));
    world.close(line);
    world.restore(HOME, homes, 9);
    world.restore(a, older, 77);
    world.lose(a, &big("film"));
    rejoin(&mut world, &[(station, HOME)]);
    rejoin(&mut world, &[(a, station), (station, HOME)]);
    world.pass(DECIDED);
    assert_nothing_left(&world, &[HOME, station, a]);
}

/// Seed 382 of `station-back,home-back`: contents are on record by a number that a station had before it was put back.
#[test]
fn a_home_does_not_wait_for_a_number_that_a_station_had_before_it_was_put_back() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let [a, b] = ["ann@a", "ben@b"].map(|label| world.add(Role::Client, label));
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(3));
    let older = world.snapshot(HOME);
    write(&mut world, a, &named("lost", 3));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    let old = world.snapshot(station);
    world.destroy(a);
    world.restore(HOME, older, 4);
    rejoin(&mut world, &[(station, HOME)]);
    let former = world.hosts[station].replica.config().origin;
    stay_connected(&mut world, b, station);
    let file = world.create(b, ROOT, "film");
    world.store(b, file, big("film"));
    assert_eq!(world.wait(b, Level::Visible), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.destroy(b);
    let (now, wall, node) = (world.now, world.wall(), world.hosts[b].replica.config().node);
    world.hosts[HOME].replica.revoke(now, wall, node, Held::Taken).unwrap();
    world.restore(station, old, 5);
    world.hosts[station].chunks.clear();
    rejoin(&mut world, &[(station, HOME)]);
    assert_ne!(world.hosts[station].replica.config().origin, former, "it wrote what it has forgotten");
    world.pass(DECIDED);
    assert_nothing_left(&world, &[HOME, station]);
}

/// Seed 71001294 of `home-back,station-back`: a station writes again what its home lost, and is put back to before that, so that it
/// goes on under another number. What it wrote by the former one nobody has, and no number that is there answers for it.
#[test]
fn a_home_does_not_wait_for_contents_that_a_station_wrote_again_before_it_was_put_back() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(3));
    let older = world.snapshot(HOME);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    let old = world.snapshot(station);
    world.destroy(a);
    world.restore(HOME, older, 4);
    world.hosts[HOME].chunks.clear();
    let former = world.hosts[station].replica.config().origin;
    let has_written =
        |world: &mut World| world.lookup(HOME, ROOT, "film").is_ok_and(|(_, inode)| inode.version.origin() == former);
    while !has_written(&mut world) {
        if !world.has_session(station) {
            world.connect(station, HOME);
        }
        world.pass(Duration::from_millis(10));
    }
    world.restore(station, old, 5);
    rejoin(&mut world, &[(station, HOME)]);
    assert_ne!(world.hosts[station].replica.config().origin, former, "it wrote what it has forgotten");
    world.pass(DECIDED);
    assert_nothing_left(&world, &[HOME, station]);
}

/// Seed 95000180 of `home-back,station-gone`: a home that was put back has forgotten what it was looking for, its station has not, and
/// asks a client for that by the name that it had; the client has written it again by another one since.
#[test]
fn a_client_does_not_answer_for_ever_by_a_name_that_nobody_knows_any_more() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, station);
    world.pass(Duration::from_secs(3));
    let older = world.snapshot(HOME);
    let file = world.create(a, ROOT, "film");
    let version = world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Visible), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.restore(HOME, older, 4);
    rejoin(&mut world, &[(station, HOME), (a, station)]);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(DECIDED);
    assert_nothing_left(&world, &[HOME, station, a]);
    assert_ne!(world.hosts[a].replica.config().origin, version.origin(), "it goes on under another number");
    world.hosts[station].replica.contents.keep_sought(HeldVersion { version, file, content: big("film") });
    let line = world.line_of(a);
    world.close(line);
    rejoin(&mut world, &[(a, station)]);
    world.pass(DECIDED);
    assert_nothing_left(&world, &[HOME, station, a]);
}

/// Seed 91034494: a home crashes just when it has ordered what takes contents out of the view that a station has and it has not. Whatever
/// of its last batches is left, it does not wait for them, and tells the station so.
#[test]
fn a_home_that_crashed_does_not_wait_for_what_nobody_sees_any_more() {
    for kept in 0..6 {
        let Film { mut world, stations, uppers, writer, file, .. } = Film::new();
        let station = stations[0];
        world.store(writer, file, big("film"));
        assert_eq!(world.wait(writer, Level::Visible), Ok(Answer::Reached));
        world.pass(Duration::from_secs(3));
        assert_eq!(world.hosts[HOME].replica.ledger().unwrap().home_lacks.versions, 1, "the station has it");
        world.hosts[HOME].hold_syncs = true;
        let unlink = Change::Unlink { parent: ROOT, name: name("film") };
        world.request(writer, Request::Change { user: 0, change: unlink });
        world.pass(Duration::from_secs(3));
        world.close(uppers[0]);
        world.crash(HOME, kept);
        world.hosts[HOME].hold_syncs = false;
        world.connect(station, HOME);
        world.connect(stations[1], HOME);
        world.pass(Duration::from_secs(30));
        assert!(world.names(HOME, ROOT).unwrap().is_empty(), "with {kept} batches");
        assert_nothing_left(&world, &[HOME, station, writer]);
    }
}

/// Seed 90020484: what a client stored became a copy at the home, and the file into which it was stored was removed. The contents are at
/// a station under the name of that file, and their writer is gone.
#[test]
fn a_station_sends_what_became_a_copy_and_whose_file_was_removed() {
    let Film { mut world, stations, uppers, writer, file, .. } = Film::new();
    let station = stations[0];
    let other = world.add(Role::Client, "ben@b");
    world.connect(other, HOME);
    world.names(other, ROOT).unwrap();
    world.close(uppers[0]);
    world.store(other, file, small("short"));
    assert_eq!(world.wait(other, Level::Stable), Ok(Answer::Reached));
    world.store(writer, file, big("film"));
    assert_eq!(world.wait(writer, Level::Safe), Ok(Answer::Reached));
    world.connect(station, HOME);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(other, ROOT).unwrap().len(), 2, "the file and a copy");
    world.change(other, Change::Unlink { parent: ROOT, name: name("film") }).unwrap();
    world.pass(Duration::from_secs(3));
    world.destroy(writer);
    let waiting = world.hosts[station].replica.contents_waiting(None, 9).unwrap();
    assert_eq!(waiting.iter().map(|content| content.file).collect::<Vec<_>>(), [file], "by the name of that file");
    world.input(station, Input::Propagate { file, version: waiting[0].version });
    world.pass(Duration::from_secs(3));
    assert_nothing_left(&world, &[HOME, station]);
}

/// Seed 30120409 of `home-back,station-back`: a client sends a station, as in a session after a loss, what was stored over and what
/// it has let go since. The home lets it go at once, and has nobody on record for it: the station that brought it waits.
#[test]
fn a_station_does_not_wait_for_what_is_stored_over_and_on_nobodys_record() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let writer = world.admit(Admitted::Client, "ann@a");
    world.connect(station, HOME);
    world.settle();
    for host in [HOME, station] {
        world.configure(host, |config| (config.seals, config.reconcile_gather) = (None, Duration::from_millis(100)));
    }
    let peer = PeerId(9999);
    world.input(station, Input::PeerUp { peer, neighbour: Neighbour::ChildClient { origin: writer } });
    let says = |world: &mut World, up: Up| {
        world.input(station, Input::Message { peer, bytes: encode(&Message::Up(up)) });
        // What the station gathered has been sent when the next record comes, or it would cancel it.
        world.pass(Duration::from_millis(200));
    };
    says(&mut world, hello(7));
    says(&mut world, Up::Start);
    let [made, stored] = [1, 2].map(|sequence| RecordId::new(writer, sequence).unwrap());
    let file = FileId::made_by(made);
    let store = |base, content| Op::Store { file, base, content, mtime: WallTime::EPOCH };
    let records = [(1, create("film")), (2, store(made, big("film"))), (3, store(stored, small("short")))];
    for (sequence, op) in records {
        let records = vec![SentRecord { held: false, ..record(writer, sequence, op) }];
        says(&mut world, Up::Records { records });
    }
    // The client stays as long: when one goes, a station asks for what is gone below it, and is answered.
    world.pass(Duration::from_secs(5));
    assert!(!world.hosts[station].events.iter().any(|event| matches!(event, Output::Disconnect { .. })), "it stays");
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, small("short"));
    assert_nothing_left(&world, &[HOME, station]);
}

/// Seed 50023631: the home has a client's record without its contents, and the client is put back to before it wrote it. Its chunks are
/// there all the same, and it says so when it is asked.
#[test]
fn a_client_that_was_put_back_brings_what_its_parent_lacks_of_its_later_life() {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    let line = stay_connected(&mut world, a, HOME);
    world.names(a, ROOT).unwrap();
    let file = world.create(a, ROOT, "film");
    world.pass(Duration::from_secs(3));
    let older = world.snapshot(a);
    world.hold_pushes(line, true);
    world.store(a, file, big("film"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("film"));
    world.close(line);
    world.restore(a, older, 77);
    rejoin(&mut world, &[(a, HOME)]);
    world.pass(DECIDED);
    assert_nothing_left(&world, &[HOME, a]);
    assert!(world.can_read(HOME, file, &big("film")));
}

/// Seed 683: nobody comes or goes any more when the owner removes a machine that is gone, or when its home starts again after that.
#[test]
fn what_a_removed_machine_had_is_declared_lost_though_nobody_comes_or_goes() {
    for is_restarted in [false, true] {
        let mut world = first_life();
        let a = world.add(Role::Client, "ann@a");
        let line = stay_connected(&mut world, a, HOME);
        world.names(a, ROOT).unwrap();
        let file = world.create(a, ROOT, "film");
        world.hold_pushes(line, true);
        world.store(a, file, big("film"));
        world.pass(Duration::from_secs(3));
        world.destroy(a);
        world.pass(DECIDED);
        assert_eq!(world.hosts[HOME].replica.ledger().unwrap().home_lacks.versions, 1, "it may come");
        let (now, wall, node) = (world.now, world.wall(), world.hosts[a].replica.config().node);
        world.hosts[HOME].replica.revoke(now, wall, node, Held::Taken).unwrap();
        if is_restarted {
            world.input(HOME, Input::Tick);
            world.settle();
            world.crash(HOME, 0);
        }
        world.pass(DECIDED);
        assert_nothing_left(&world, &[HOME]);
    }
}

/// A home, a station, a client at it, and the line between these.
fn client_at_a_station() -> (World, usize, usize, PeerId) {
    let mut world = first_life();
    let (station, client) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    world.configure(client, |config| config.life = Life(5));
    stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, client, station);
    (world, station, client, line)
}

/// Seed 10254 of `home-back`: a client has lost nothing under its present number, by which nobody has anything yet, and something that it
/// had handed to a station under the one before.
#[test]
fn a_client_does_not_answer_for_ever_for_what_is_lost_of_a_number_that_it_had_before() {
    let (mut world, station, a, line) = client_at_a_station();
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let homes = world.snapshot(HOME);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Visible), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    let older = world.snapshot(a);
    write(&mut world, a, &named("forgotten", 300));
    world.pass(Duration::from_secs(3));
    world.close(line);
    world.restore(a, older, 77);
    world.create(a, ROOT, "fresh");
    let former = world.hosts[a].replica.config().origin;
    world.connect(a, station);
    world.pass(Duration::from_secs(1));
    let number = world.hosts[a].replica.config().origin;
    assert!(number != former && !world.has_session(a), "it goes on as another member, of which nobody has heard more");
    world.restore(HOME, homes, 9);
    world.admit_again(HOME, a, number);
    rejoin(&mut world, &[(station, HOME)]);
    rejoin(&mut world, &[(station, HOME), (a, HOME)]);
    world.pass(DECIDED);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("film"));
    assert_nothing_left(&world, &[HOME, station, a]);
}

/// Worlds 70039, 70068 and 80004: two copies of a store, of which one took another number. What the other one wrote under the former is lost
/// with the home's disk, and written again by those who have it. The first one had seen it, and looked for what the home lacks before it
/// heard that.
#[test]
fn a_client_does_not_answer_for_what_another_copy_of_its_store_wrote() {
    let (mut world, station, a, line) = client_at_a_station();
    write(&mut world, a, &named("before", 3));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    world.close(line);
    let b = world.clone_of(a, copy, 200_003);
    let other = stay_connected(&mut world, b, station);
    write(&mut world, b, &named("other", 1));
    world.pass(Duration::from_secs(3));
    world.close(other);
    stay_connected(&mut world, a, station);
    world.pass(Duration::from_secs(3));
    stay_connected(&mut world, b, station);
    let former = world.hosts[b].replica.config().origin;
    assert_ne!(world.hosts[a].replica.config().origin, former, "it gave way");
    let homes = world.snapshot(HOME);
    let film = world.create(b, ROOT, "film");
    let version = world.store(b, film, big("film"));
    assert_eq!(world.wait(b, Level::Visible), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.lookup(a, ROOT, "film").unwrap();
    world.find(a, &big("film"));
    world.restore(HOME, homes, 9);
    stay_connected(&mut world, station, HOME);
    rejoin(&mut world, &[(a, station), (b, station)]);
    world.pass(Duration::from_secs(10));
    // What it looked for before it heard of the loss.
    world.input(a, Input::Sought { file: film, version, content: big("film"), is_here: true });
    // A station that cannot reach the home says what it knows itself.
    let of_a_station = Facts { visible: Fact::No, ..Facts::default() };
    let replica = &mut world.hosts[a].replica;
    replica.contents.settle_former(&mut replica.core, &replica.uplink, version, of_a_station).unwrap();
    world.input(a, Input::Tick);
    assert!(!world.hosts[a].replica.ledger().unwrap().home_lacks.is_nothing(), "it answers for it");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.wait(b, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("film"));
    assert_nothing_left(&world, &[HOME, station, a, b]);
}

/// What is put back to an older copy, chunks and all.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// The home, to before the first content.
    HomeToTheStart,
    /// The home, to before the last content.
    Home,
    ClientToTheStart,
    Client,
    /// The first station, to before the last content.
    Station,
}

/// A disk at some moment.
#[derive(Clone)]
struct Copied(MemoryStore, BTreeSet<Digest>);

fn copied(world: &World, host: usize) -> Copied {
    Copied(world.snapshot(host), world.hosts[host].chunks.clone())
}

/// A home, two stations, and a client, which writes something before each loss and comes back by way of some server after it.
struct Losses {
    world: World,
    stations: [usize; 2],
    a: usize,
    lives: u32,
}

impl Losses {
    fn new() -> Self {
        let mut world = first_life();
        let stations = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
        let a = world.add(Role::Client, "ann@a");
        world.configure(a, |config| config.life = Life(5));
        let mut losses = Self { world, stations, a, lives: 10 };
        losses.come_back(stations[0]);
        losses.world.names(a, ROOT).unwrap();
        losses
    }

    fn copies(&self) -> [Copied; 3] {
        [HOME, self.a, self.stations[0]].map(|host| copied(&self.world, host))
    }

    fn put_back(&mut self, host: usize, Copied(store, chunks): Copied) {
        self.lives += 1;
        self.world.restore(host, store, self.lives * 1000);
        self.world.hosts[host].chunks = chunks;
    }

    /// All come back, the client by way of a parent. Whoever the home does not know shows what it had signed, as drivers do.
    fn come_back(&mut self, parent: usize) {
        let Self { world, stations, a, .. } = self;
        for host in [stations[0], stations[1], *a] {
            let number = world.hosts[host].replica.config().origin;
            let origins = world.hosts[HOME].replica.origins().unwrap();
            if !origins.iter().any(|(origin, _)| *origin == number) {
                world.admit_again(HOME, host, number);
            }
        }
        rejoin(world, &[(stations[0], HOME), (stations[1], HOME), (*a, parent)]);
    }

    fn write(&mut self, step: usize) {
        let (world, a) = (&mut self.world, self.a);
        for text in ["film", "tape"] {
            let file = world.create(a, ROOT, &format!("{text}{step}"));
            world.store(a, file, big(&format!("{text}{step}")));
        }
        world.pass(Duration::from_secs(1));
        if step > 0
            && let Ok((file, _)) = world.lookup(a, ROOT, "tape0")
        {
            world.store(a, file, big(&format!("over{step}")));
        }
        assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
        world.pass(Duration::from_secs(3));
    }

    /// Who counts something, and what.
    fn left(&self) -> Option<String> {
        [HOME, self.stations[0], self.stations[1], self.a].into_iter().find_map(|host| {
            let replica = &self.world.hosts[host].replica;
            let Ledger { not_safe, at_station, home_lacks } = replica.ledger().unwrap();
            let counted = [not_safe, at_station, Some(home_lacks)];
            let is_left = counted.iter().flatten().any(|amount| !amount.is_nothing());
            let rows = (replica.contents_missing(None, 9).unwrap(), replica.contents_in_use(None, 1).unwrap().contents);
            is_left.then(|| format!("host {host} counts {counted:?}: {rows:?}"))
        })
    }

    fn run(&mut self, steps: &[(Loss, usize)]) {
        let first = self.copies();
        for (step, (loss, parent)) in steps.iter().enumerate() {
            let last = self.copies();
            self.write(step);
            if self.world.has_session(self.a) {
                let line = self.world.line_of(self.a);
                self.world.close(line);
            }
            match loss {
                Loss::HomeToTheStart => self.put_back(HOME, first[0].clone()),
                Loss::Home => self.put_back(HOME, last[0].clone()),
                Loss::ClientToTheStart => self.put_back(self.a, first[1].clone()),
                Loss::Client => self.put_back(self.a, last[1].clone()),
                Loss::Station => self.put_back(self.stations[0], last[2].clone()),
            }
            self.come_back([HOME, self.stations[0], self.stations[1]][*parent]);
        }
        // As `sync --until stable` does it, at stations and at the client.
        for _ in 0..3 {
            for station in self.stations {
                for waiting in self.world.hosts[station].replica.contents_waiting(None, 1000).unwrap() {
                    self.world.input(station, Input::Propagate { file: waiting.file, version: waiting.version });
                }
            }
            self.world.request(self.a, Request::Wait { record: None, until: Level::Stable });
            self.world.pass(DECIDED);
        }
    }
}

/// Whatever is put back, and by way of whom the client comes back: in the end nobody counts anything, and all that is at hand is home.
#[test]
fn nothing_is_left_after_any_two_losses() {
    let losses = [Loss::HomeToTheStart, Loss::Home, Loss::ClientToTheStart, Loss::Client, Loss::Station];
    let all: Vec<(Loss, usize)> =
        losses.into_iter().flat_map(|loss| (0..3).map(move |parent| (loss, parent))).collect();
    let mut found = Vec::new();
    for first in &all {
        for second in &all {
            let mut losses = Losses::new();
            losses.run(&[*first, *second]);
            found.extend(losses.left().map(|left| format!("after {first:?} and {second:?} {left}")));
        }
    }
    assert!(found.is_empty(), "{} of {}: {found:#?}", found.len(), all.len() * all.len());
}

/// A client speaks under the number that it had first, and the one that it had since is on record beside it.
#[test]
fn a_station_does_not_wait_for_another_number_of_a_client_that_has_nothing() {
    for parent in [0, 2] {
        let mut losses = Losses::new();
        losses.run(&[(Loss::Station, parent), (Loss::Home, 2), (Loss::ClientToTheStart, 2)]);
        assert_eq!(losses.left(), None);
    }
}

/// Seed 162002838: what was overwritten before its contents came home is not held by its writer any more, and the home has let it go.
/// A station that hears of it from the writer first waited for it for ever.
#[test]
fn what_the_home_let_go_before_a_station_heard_of_it_is_not_waited_for_there() {
    let mut world = World::new();
    let (station, client) = (world.add(Role::Station, "s1@s"), world.add(Role::Client, "ann@a"));
    let up = world.connect(station, HOME);
    let line = world.connect(client, HOME);
    world.pass(Duration::from_secs(2));
    world.names(client, FileId::ROOT).unwrap();
    let [first, file] = ["book", "film"].map(|name| world.create(client, FileId::ROOT, name));
    world.pass(Duration::from_secs(2));
    world.hold_pushes(line, true);
    world.stall(up, true);
    // It is not safe, so that all from here on is sent again.
    world.store(client, first, big("book"));
    world.store(client, file, big("film"));
    world.settle();
    world.store(client, file, small("note"));
    world.settle();
    world.close(line);
    world.settle();
    world.connect(client, station);
    world.settle();
    // It hears that the home has the records before it has sent them.
    world.step_down(up);
    world.close(up);
    world.settle();
    world.connect(station, HOME);
    world.pass(Duration::from_secs(5));
    world.wait(client, Level::Stable).unwrap();
    for host in [HOME, station, client] {
        let ledger = world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "host {host}: {ledger:?}");
    }
}
