//! One account of what has not come all the way: it says what the queue says, whatever happened.

use super::world::{HOME, World, big, small};
use crate::{Amount, Role};
use std::time::Duration;
use wayfs_types::request::{Change, Level, Request};
use wayfs_types::{AttrChange, FileId, Kind, WallTime};

/// A client that was connected once and is cut off.
fn cut_off() -> (World, usize) {
    let mut world = World::new();
    let client = world.add(Role::Client, "ann@a");
    let line = world.connect(client, HOME);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    world.close(line);
    (world, client)
}

fn not_safe(world: &World, host: usize) -> Amount {
    world.hosts[host].replica.ledger().unwrap().not_safe.unwrap()
}

/// What a client's queue lists beyond the word of a server that it is safe, or at the home, counted by hand.
fn counted(world: &World, client: usize) -> (u64, u64) {
    let replica = &world.hosts[client].replica;
    let progress = replica.progress();
    let safe = progress.safe_through.max(progress.stable_through);
    let queue = replica.queue(crate::LogPosition::START, usize::MAX / 2).unwrap();
    let left = queue.iter().filter(|(_, item)| item.record.id.sequence() > safe);
    left.fold((0, 0), |(records, bytes), (_, item)| (records + 1, bytes + item.bytes))
}

#[test]
fn bytes_within_records_count() {
    let (mut world, client) = cut_off();
    for n in 0..20 {
        let file = world.create(client, FileId::ROOT, &format!("f{n}"));
        world.store(client, file, small(&"x".repeat(3000)));
    }
    let amount = not_safe(&world, client);
    assert_eq!((amount.records, amount.bytes), (40, 60_000));
    assert!(amount.oldest.is_some());
    let file = world.create(client, FileId::ROOT, "film");
    world.store(client, file, big("film"));
    let amount = not_safe(&world, client);
    assert_eq!((amount.records, amount.versions, amount.bytes), (42, 1, 1_060_000));
    world.connect(client, HOME);
    world.settle();
    let ledger = world.hosts[client].replica.ledger().unwrap();
    assert!(ledger.not_safe.unwrap().is_nothing() && ledger.home_lacks.is_nothing(), "{ledger:?}");
}

#[test]
fn numbers_lost_in_a_crash_are_no_records() {
    let (mut world, client) = cut_off();
    world.create(client, FileId::ROOT, "before");
    world.settle();
    world.crash(client, 100);
    world.create(client, FileId::ROOT, "after");
    assert_eq!(not_safe(&world, client).records, 2);
    assert_eq!(counted(&world, client), (2, 0), "nor does the queue list them");
}

#[test]
fn what_was_cancelled_weighs_nothing() {
    let (mut world, client) = cut_off();
    let file = world.create(client, FileId::ROOT, "f");
    for text in ["one", "twoo", "three"] {
        world.store(client, file, small(text));
    }
    world.store(client, file, big("film"));
    let line = world.connect(client, HOME);
    world.stall(line, true);
    world.step_up(line, 1);
    world.step_down(line);
    let (records, bytes) = counted(&world, client);
    let amount = not_safe(&world, client);
    assert_eq!((amount.records, amount.bytes), (records, bytes));
}

#[test]
fn the_account_says_what_the_queue_says_at_any_moment() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let client = world.add(Role::Client, "ann@a");
    let mut up = world.connect(station, HOME);
    world.settle();
    let mut near = world.connect(client, station);
    world.settle();
    let mut dice = 7_u64;
    let mut roll = |most: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % most
    };
    for round in 0..400 {
        match roll(8) {
            0 => world.close(near),
            1 => near = world.connect(client, station),
            2 => world.close(up),
            3 => up = world.connect(station, HOME),
            4 => world.pass(Duration::from_millis(700)),
            5 => {
                world.crash(client, usize::try_from(roll(3)).unwrap());
                near = world.connect(client, station);
            }
            _ => {
                let (parent, name) = (FileId::ROOT, super::world::name(&format!("f{round}")));
                let make = Change::Create { parent, name: name.clone(), kind: Kind::File, mode: 0o644, uid: 1, gid: 1 };
                // A client that lost its store in a crash knows no root until it is connected.
                let Ok((_, file, _)) = world.change(client, make) else { continue };
                let content = if roll(3) == 0 { big(&format!("c{round}")) } else { small("inline") };
                world.store(client, file, content);
                if roll(3) == 0 {
                    world.change(client, Change::Unlink { parent, name }).unwrap();
                }
            }
        }
        (0..roll(20)).for_each(|_| {
            world.step();
        });
        let (records, bytes) = counted(&world, client);
        let amount = not_safe(&world, client);
        assert_eq!((amount.records, amount.bytes), (records, bytes), "round {round}");
        assert_eq!(amount.oldest.is_some(), records > 0, "round {round}");
        let all = world.hosts[client].replica.queue(crate::LogPosition::START, usize::MAX / 2).unwrap().len() as u64;
        assert_eq!(world.hosts[client].replica.ledger().unwrap().home_lacks.records, all, "round {round}");
        let at_station = world.hosts[station].replica.ledger().unwrap().at_station.unwrap();
        let queue = world.hosts[station].replica.queue(crate::LogPosition::START, usize::MAX / 2).unwrap();
        assert_eq!(at_station.records, queue.len() as u64, "round {round}");
    }
    world.connect(station, HOME);
    world.connect(client, station);
    world.pass(Duration::from_secs(30));
    assert_eq!(world.wait(client, Level::Stable), Ok(wayfs_types::request::Answer::Reached));
    for host in [HOME, station, client] {
        let ledger = world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "host {host}: {ledger:?}");
    }
}

/// [S-one-account] World 60031 of the checker of claims: the home says that a record is safe and visible a moment before its state comes
/// in which that is, and the record stays in the log for so long, or until the client has reached a server again. It has come all the way.
#[test]
fn what_has_come_all_the_way_is_in_no_queue_though_it_is_in_the_log() {
    let (mut world, client) = cut_off();
    world.connect(client, HOME);
    world.settle();
    let (parent, name) = (FileId::ROOT, super::world::name("f"));
    let make = Change::Create { parent, name, kind: Kind::File, mode: 0o644, uid: 1, gid: 1 };
    world.request(client, Request::Change { user: 0, change: make });
    let mut was_full = false;
    for _ in 0..1000 {
        let queued = world.hosts[client].replica.queue(crate::LogPosition::START, 10).unwrap().len() as u64;
        was_full |= queued > 0;
        assert_eq!(world.hosts[client].replica.ledger().unwrap().home_lacks.records, queued);
        world.step();
    }
    assert!(was_full);
}

/// [S-one-account] A record that was sent ahead of our own disk, and that the parent has: a wait for *safe* goes on until our disk has
/// it, too, and the account says so meanwhile.
#[test]
fn what_our_own_disk_does_not_have_counts_as_not_safe() {
    let mut world = World::new();
    let client = world.add(Role::Client, "ann@a");
    world.connect(client, HOME);
    world.settle();
    world.names(client, FileId::ROOT).unwrap();
    world.create(client, FileId::ROOT, "before");
    world.pass(Duration::from_secs(2));
    assert!(not_safe(&world, client).is_nothing());
    world.hosts[client].hold_syncs = true;
    world.create(client, FileId::ROOT, "after");
    let wait = world.request_within(
        client,
        wayfs_types::request::Request::Wait { record: None, until: Level::Safe },
        Duration::from_secs(60),
    );
    world.pass(Duration::from_secs(3));
    assert!(world.lookup(HOME, FileId::ROOT, "after").is_ok(), "it was sent ahead");
    assert_eq!(world.answer(client, wait), None, "the disk of the client has no room for it");
    assert_eq!(not_safe(&world, client).records, 1);
    assert_eq!(
        world.hosts[client].replica.queue(crate::LogPosition::START, 10).unwrap().len(),
        1,
        "the queue shows it"
    );
    world.hosts[client].hold_syncs = false;
    world.pass(Duration::from_secs(3));
    assert!(world.answers_ok(client, wait));
    let ledger = world.hosts[client].replica.ledger().unwrap();
    assert!(ledger.not_safe.unwrap().is_nothing() && ledger.home_lacks.is_nothing(), "{ledger:?}");
    assert!(world.hosts[client].replica.queue(crate::LogPosition::START, 10).unwrap().is_empty());
}

/// [S-one-account] What is stable is on more than this machine, though a home that still waits for a silent reader's caches does not
/// call it safe.
#[test]
fn what_is_stable_is_not_only_here() {
    let mut world = World::new();
    let (writer, reader) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(writer, HOME);
    let silent = world.connect(reader, HOME);
    world.settle();
    world.names(writer, FileId::ROOT).unwrap();
    world.names(reader, FileId::ROOT).unwrap();
    world.settle();
    world.stall(silent, true);
    world.create(writer, FileId::ROOT, "seen by nobody else yet");
    world.pass(Duration::from_secs(2));
    let progress = world.hosts[writer].replica.progress();
    assert!(progress.safe_through < progress.stable_through, "the home waits for the reader: {progress:?}");
    let ledger = world.hosts[writer].replica.ledger().unwrap();
    assert!(ledger.not_safe.unwrap().is_nothing(), "{ledger:?}");
}

/// What waits does so since it was written, whatever date a program gave it (`rsync -a`, `tar x`): by the client's queue, by the
/// station's, and in the sums.
#[test]
fn what_waits_is_as_old_as_it_is_and_not_as_it_says() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let client = world.add(Role::Client, "ann@a");
    world.connect(station, HOME);
    world.settle();
    let line = world.connect(client, station);
    world.names(client, FileId::ROOT).unwrap();
    let begin = world.wall();
    world.pass(Duration::from_secs(5));
    let file = world.create(client, FileId::ROOT, "old");
    world.store(client, file, big("old"));
    let change = AttrChange { mtime: Some(WallTime::from_nanos(1)), ..AttrChange::default() };
    world.change(client, Change::SetAttr { file, change }).unwrap();
    world.pass(Duration::from_secs(2));
    let written = world.wall();
    world.pass(Duration::from_secs(30));
    for host in [client, station] {
        let replica = &world.hosts[host].replica;
        let waiting = replica.contents_waiting(None, 10).unwrap();
        let [waits] = &waiting[..] else { panic!("host {host}: {waiting:?}") };
        let ledger = replica.ledger().unwrap();
        for since in [waits.since, ledger.at_station.unwrap().oldest, ledger.home_lacks.oldest] {
            let since = since.expect("it is known");
            assert!(begin < since && since < written, "host {host}: {since:?} of {written:?}");
        }
    }
    world.hold_pushes(line, true);
    let file = world.create(client, FileId::ROOT, "held");
    world.store(client, file, big("held"));
    world.pass(Duration::from_secs(30));
    let missing = world.hosts[station].replica.contents_missing(None, 10).unwrap();
    let not_safe = world.hosts[station].replica.ledger().unwrap().not_safe.unwrap();
    assert!(
        missing[0].since.is_some_and(|since| since > written) && not_safe.oldest == missing[0].since,
        "{missing:?}"
    );
}
