//! Members that keep to the handshake and to nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::Bytes;
use std::fs;
use std::time::Duration;
use wayfs_content::{Entry, ListNode};
use wayfs_hostile_tests::{As, Ask, Form, Member, PATIENCE, Peer, Reply, Session, create, record};
use wayfs_system_tests::{World, eventually};
use wayfs_types::{Content, Digest, FileId, RecordId};
use wayfs_wire::{Down, HeldVersion, LentVersion, Up};

fn member<'a>(world: &World, peer: &'a Peer, admitted: As) -> (Member, Session<'a>) {
    let more: &[&str] = if admitted == As::Reader { &["--read-only"] } else { &[] };
    let arguments = [&["volume", "ticket", "work"][..], more].concat();
    let ticket = world.server.wayfs(&world.home, &arguments).ok().out.trim().to_owned();
    let member = peer.join(&ticket, admitted, "mallory@evil");
    let mut session = peer.attach(&member).expect("a member is welcome");
    session.hello(member.ticket.volume());
    (member, session)
}

fn works(world: &World) {
    let path = world.mount.path("works");
    fs::write(&path, "still").unwrap();
    world.mount.sync(&world.client, "stable");
    assert_eq!(fs::read(&path).unwrap(), b"still");
}

/// A reader watches the root, answers pings, and never confirms what it is told.
///
/// Before: *safe* of all others took 20 s, 10 s, 19 s, again and again: each session gave it a new lease.
/// After: once. Then it gets no session for a while, which doubles.
#[test]
fn a_reader_that_never_confirms_delays_others_once() {
    let world = World::default();
    let peer = Peer::new();
    let (mallory, mut session) = member(&world, &peer, As::Reader);
    let watches = |session: &mut Session<'_>| {
        session.say(Up::Watch { files: vec![FileId::ROOT] });
        session.say(Up::Start);
        session.hear_until(|down| matches!(down, Down::Images { .. }).then_some(()))
    };
    watches(&mut session).expect("images");
    // What it was told so far it confirms: it is one that others wait for.
    session.say(Up::Received { serial: wayfs_wire::FrameSerial(1) });
    fs::write(world.mount.path("first"), "1").unwrap();
    session.hear_until(|down| matches!(down, Down::Images { .. }).then_some(())).expect("it is told");
    let mut number = 0;
    eventually("its session is ended", Duration::from_secs(60), || {
        number += 1;
        session.say(Up::Ping { number });
        while session.hear(Duration::from_millis(200)).is_some() {}
        world.mount.wayfs(&world.client, &["sync", "--until", "safe", "--timeout", "1"]).status.success()
    });
    // It comes back at once.
    // It is sent away with the welcome, or as soon as that is said.
    let again = peer.attach(&mallory).map(Session::ended);
    let again = format!("{again:?}");
    assert!(again.contains("kept others waiting"), "it is sent away: {again}");
    works(&world);
}

/// Sizes that no tree of that depth can hold.
///
/// Before: the home ordered them; every client showed `?????????`, and `rm`, `mv` and `stat` failed for ever.
/// After: the message is no message, the session ends, nothing of it is anywhere.
#[test]
fn a_size_that_the_depth_cannot_hold_is_no_record() {
    let world = World::default();
    let root = Digest::of(b"x");
    for (size, depth) in [(1 << 63, 3), (u64::MAX, 3), ((1 << 20) + 1, 0), (0, 0), (1, 4)] {
        let peer = Peer::new();
        let (mallory, session) = member(&world, &peer, As::Client);
        let content = Content::Tree { size, root, depth, holes: 0 };
        let bad = record(mallory.origin, 1, create("bad", content));
        session.say(Up::Seals { seals: vec![peer.sealed(mallory.ticket.volume(), &bad.record)] });
        session.say(Up::Records { records: vec![bad] });
        session.ended();
    }
    works(&world);
    assert!(fs::symlink_metadata(world.mount.path("bad")).is_err());
}

/// A tree that stands for 1 PiB in 113 KB: each node names one child 1,024 times.
///
/// Before: two questions kept both cores of the home for 12 s, until it was killed; nothing called the walk off.
/// After: each node is looked at once; the answer comes at once.
#[test]
fn a_tree_whose_nodes_repeat_costs_what_is_stored_of_it() {
    let world = World::default();
    let peer = Peer::new();
    let (mallory, session) = member(&world, &peer, As::Client);
    let chunk = Bytes::from(vec![7_u8; 1 << 20]);
    let (mut digest, mut len) = (Digest::of(&chunk), chunk.len() as u64);
    let take = |digest, body| {
        let reply = session.ask(&Ask::Take { digest, form: Form::Plain, bases: Vec::new() }, body);
        assert_eq!(reply, Reply::Taken);
    };
    take(digest, chunk);
    for level in 1..=3 {
        let node = ListNode { level, entries: vec![Entry { digest, len }; 1024] }.encode();
        (digest, len) = (Digest::of(&node), len * 1024);
        take(digest, node);
    }
    let before = cpu_ticks(world.server.process.id());
    let content = Content::Tree { size: len, root: digest, depth: 3, holes: 0 };
    for sequence in 1..=20 {
        let version = RecordId::new(mallory.origin, sequence).unwrap();
        let ask = Ask::Complete { file: FileId::ROOT, version, content: content.clone() };
        let reply = session.ask(&ask, Bytes::new());
        assert!(matches!(reply, Reply::Durable | Reply::Invalid), "{reply:?}");
    }
    // Time of the processor, not of the clock: 20 walks took 1,000 s.
    let used = cpu_ticks(world.server.process.id()) - before;
    assert!(used < 500, "{used} hundredths of a second");
    works(&world);
}

/// Hundredths of a second that a process has used.
fn cpu_ticks(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = text.rsplit_once(')').unwrap().1;
    let fields: Vec<u64> = after_name.split_whitespace().skip(11).take(2).map(|field| field.parse().unwrap()).collect();
    fields.iter().sum()
}

/// A reader says of another's contents that it has them, keeps them, that they are gone, that a station has them.
///
/// Before and after: of others' contents a client may say only that it has them, which makes nothing safe or stable and
/// takes nothing away; all else ends its session.
#[test]
fn what_a_reader_says_of_contents_makes_nothing_safe_and_nothing_lost() {
    let world = World::default();
    let path = world.mount.path("film");
    world.mount.wayfs(&world.client, &["offline"]).ok();
    let bytes: Vec<u8> = (0..700_000_u32).flat_map(|number| number.to_le_bytes()).collect();
    fs::write(&path, &bytes).unwrap();
    let info = world.mount.wayfs(&world.client, &["info", &path.to_string_lossy(), "--json"]).ok().json();
    let version: RecordId = parse_version(&info);
    let peer = Peer::new();
    let (mallory, session) = member(&world, &peer, As::Reader);
    let content = Content::Tree { size: 2_800_000, root: Digest::of(b"?"), depth: 1, holes: 0 };
    let held = HeldVersion { version, file: FileId::made_by(version), content };
    session.say(Up::Have { versions: vec![version] });
    session.say(Up::Want { origin: version.origin(), through: version.sequence() });
    drop(session);
    let lies = [
        Up::Gone { versions: vec![version], writer: true },
        Up::Lent { versions: vec![LentVersion { held: held.clone(), to: None }] },
        Up::Holds { through: version.sequence(), versions: vec![held] },
    ];
    for lie in lies {
        let mut session = peer.attach(&mallory).expect("a member is welcome");
        session.hello(mallory.ticket.volume());
        session.say(lie);
        session.ended();
    }
    world.mount.wayfs(&world.client, &["online"]).ok();
    world.mount.sync(&world.client, "stable");
    let (other_machine, other) = world.other("bob");
    eventually("all of it is there", PATIENCE, || fs::read(other.path("film")).is_ok_and(|found| found == bytes));
    let conflicts = other.wayfs(&other_machine, &["conflicts", "list"]).ok().out;
    assert!(!conflicts.contains("film"), "{conflicts}");
    works(&world);
}

fn parse_version(info: &serde_json::Value) -> RecordId {
    let text = info["version"].as_str().unwrap_or_else(|| panic!("a version in {info}"));
    let (origin, sequence) = text.split_once('.').unwrap();
    let origin = wayfs_types::OriginId::new(origin.parse().unwrap()).unwrap();
    RecordId::new(origin, sequence.parse().unwrap()).unwrap()
}
