//! Peers that break the protocol are sent away; nothing is lost and nothing panics.

use super::world::{HOME, World, name};
use crate::{Input, Neighbour, Output, PeerId, Role};
use bytes::Bytes;
use wayfs_types::{Content, FileId, Op, OriginId, Record, RecordId, UserId, VolumeId, WallTime};
use wayfs_wire::{Message, SentRecord, Up, encode};

const LIAR: PeerId = PeerId(9999);

fn record(origin: OriginId, sequence: u64, op: Op) -> SentRecord {
    let id = RecordId::new(origin, sequence).unwrap();
    SentRecord { record: Record { id, time: WallTime::EPOCH, user: UserId(0), op }, held: true }
}

fn create(text: &str) -> Op {
    Op::Create {
        parent: FileId::ROOT,
        name: name(text),
        kind: wayfs_types::Kind::File,
        mode: 0o644,
        uid: 0,
        gid: 0,
        content: Content::EMPTY,
    }
}

/// Says something to the home as a client, and tells whether it was sent away.
fn is_refused(says: impl FnOnce(OriginId, OriginId) -> Vec<Up>) -> bool {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let (own, other) = (world.hosts[a].origin, world.hosts[b].origin);
    // The driver's side of the session: messages to the liar go nowhere.
    let replica = &mut world.hosts[HOME].replica;
    let (now, wall) = (world.now, WallTime::EPOCH);
    let neighbour = Neighbour::ChildClient { origin: own };
    replica.handle(now, wall, Input::PeerUp { peer: LIAR, neighbour });
    for up in says(own, other) {
        replica.handle(now, wall, Input::Message { peer: LIAR, bytes: encode(&Message::Up(up)) });
    }
    let mut refused = false;
    while let Some(output) = replica.poll_output() {
        refused |= matches!(output, Output::Disconnect { peer: LIAR, .. });
    }
    assert!(replica.entry(FileId::ROOT, &name("bad")).unwrap().is_none());
    refused
}

fn hello(volume: u8) -> Up {
    Up::Hello { volume: VolumeId::from_bytes([volume; 16]), resume: None, origins: Vec::new(), safe: 0 }
}

#[test]
fn an_honest_client_is_not_refused() {
    assert!(!is_refused(|own, _| vec![hello(7), Up::Records { records: vec![record(own, 1, create("good"))] }]));
    assert!(!is_refused(|own, _| {
        let twice = Up::Records { records: vec![record(own, 1, create("good"))] };
        vec![hello(7), twice.clone(), twice]
    }));
}

#[test]
fn lies_are_refused_and_have_no_effect() {
    assert!(is_refused(|_, _| vec![hello(8)]));
    assert!(is_refused(|own, _| vec![Up::Records { records: vec![record(own, 1, create("bad"))] }]));
    assert!(is_refused(|_, other| vec![hello(7), Up::Records { records: vec![record(other, 1, create("bad"))] }]));
    assert!(is_refused(|own, _| vec![hello(7), Up::Records { records: vec![record(own, 2, create("bad"))] }]));
    // A batch with a lie in it has no effect at all.
    assert!(is_refused(|own, other| {
        vec![hello(7), Up::Records { records: vec![record(own, 1, create("bad")), record(other, 1, create("worse"))] }]
    }));
    assert!(is_refused(|_, _| {
        let home = OriginId::new(1).unwrap();
        vec![hello(7), Up::Records { records: vec![record(home, 1, create("bad"))] }]
    }));
    assert!(is_refused(|_, _| vec![hello(7), Up::Received { serial: 77 }]));
    assert!(is_refused(|_, _| vec![hello(7), hello(7)]));
    assert!(is_refused(|_, _| vec![hello(7), Up::Start, Up::Start]));
    assert!(is_refused(|_, other| vec![hello(7), Up::Want { origin: other, through: 1 }]));
}

#[test]
fn bytes_that_are_no_message_end_the_session() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    world.input(HOME, Input::Message { peer, bytes: Bytes::from_static(&[1, 2, 3, 4, 5, 255, 255]) });
    assert!(matches!(world.hosts[HOME].events.last(), Some(Output::Disconnect { .. })));
    world.connect(a, HOME);
    world.settle();
    world.create(a, FileId::ROOT, "x");
    world.settle();
    assert!(world.hosts[HOME].replica.entry(FileId::ROOT, &name("x")).unwrap().is_some());
}

#[test]
fn a_revoked_machine_is_sent_away_and_stays_away() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    world.connect(a, HOME);
    world.settle();
    let (now, wall) = (world.now, world.wall());
    let node = world.hosts[a].replica.config().node;
    assert_eq!(world.hosts[HOME].replica.revoke(now, wall, node), Ok(1));
    world.input(HOME, Input::Tick);
    world.settle();
    assert!(world.hosts[HOME].events.iter().any(|event| matches!(event, Output::Disconnect { .. })));
    world.connect(a, HOME);
    world.settle();
    assert_eq!(world.hosts[HOME].replica.progress().children, 0);
}
