//! Peers that break the protocol are sent away; nothing is lost and nothing panics.

use super::forking::stay_connected;
use super::world::{HOME, World, name};
use crate::{Held, Input, Neighbour, Output, PeerId, Role};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Request, RequestId};
use wayfs_types::{
    Admitted, CommitNumber, Content, FileId, Image, Inode, Key, Kind, Life, Op, OriginId, Record, RecordId, Time,
    UserId, VolumeId, WallTime,
};
use wayfs_wire::{Down, KeyImage, Message, SentRecord, Stamp, Up, encode};

const LIAR: PeerId = PeerId(9999);

pub(super) fn record(origin: OriginId, sequence: u64, op: Op) -> SentRecord {
    let id = RecordId::new(origin, sequence).unwrap();
    SentRecord { record: Record { id, time: WallTime::EPOCH, user: UserId(0), op }, held: true }
}

pub(super) fn create(text: &str) -> Op {
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
pub(super) fn is_refused(says: impl FnOnce(OriginId, OriginId) -> Vec<Up>) -> bool {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let (own, other) = (world.hosts[a].origin, world.hosts[b].origin);
    // What liars do who seal what they say (`seals`).
    world.configure(HOME, |config| config.seals = None);
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

pub(super) fn hello(volume: u8) -> Up {
    Up::Hello {
        volume: VolumeId::from_bytes([volume; 16]),
        resume: None,
        origins: Vec::new(),
        safe: 0,
        life: Life::NONE,
    }
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
    assert!(is_refused(|_, _| vec![hello(7), Up::Received { serial: wayfs_wire::FrameSerial(77) }]));
    assert!(is_refused(|_, _| vec![hello(7), hello(7)]));
    assert!(is_refused(|_, _| vec![hello(7), Up::Start, Up::Start]));
    assert!(is_refused(|_, other| vec![hello(7), Up::Want { origin: other, through: 1 }]));
    let version = |origin| RecordId::new(origin, 1).unwrap();
    assert!(
        is_refused(|_, other| vec![hello(7), Up::Have { versions: vec![version(other)] }]),
        "nobody's copy is a server's"
    );
    assert!(is_refused(|own, _| vec![hello(7), Up::Have { versions: vec![version(own)] }]));
    let lent = |version| {
        let held = wayfs_wire::HeldVersion { version, file: FileId::ROOT, content: Content::EMPTY };
        Up::Lent { versions: vec![wayfs_wire::LentVersion { held, to: None }] }
    };
    assert!(is_refused(|_, other| vec![hello(7), lent(version(other))]), "a record of another's");
    assert!(is_refused(|own, _| vec![hello(7), lent(version(own))]), "a record that did not come");
}

/// A member that may only read and says that it wrote: to the home, and to a station.
#[test]
fn records_of_a_member_that_may_only_read_are_refused() {
    let mut world = World::new();
    let station = world.add(Role::Station, "station@s");
    let reader = world.admit(Admitted::Reader, "rita@r");
    world.connect(station, HOME);
    world.settle();
    for host in [HOME, station] {
        let replica = &mut world.hosts[host].replica;
        assert_eq!(replica.may_write(reader), Ok(false));
        let (now, wall) = (world.now, WallTime::EPOCH);
        let neighbour = Neighbour::ChildClient { origin: reader };
        replica.handle(now, wall, Input::PeerUp { peer: LIAR, neighbour });
        let says = [hello(7), Up::Start, Up::Records { records: vec![record(reader, 1, create("bad"))] }];
        for up in says {
            assert!(std::iter::from_fn(|| replica.poll_output()).all(|output| !is_goodbye(&output)));
            replica.handle(now, wall, Input::Message { peer: LIAR, bytes: encode(&Message::Up(up)) });
        }
        assert!(std::iter::from_fn(|| replica.poll_output()).any(|output| is_goodbye(&output)));
        assert!(replica.entry(FileId::ROOT, &name("bad")).unwrap().is_none());
    }
}

fn is_goodbye(output: &Output) -> bool {
    matches!(output, Output::Disconnect { peer: LIAR, .. })
}

/// A station that passes such a record on lies, too.
#[test]
fn a_station_cannot_pass_on_what_a_reader_wrote() {
    let mut world = World::new();
    let station = world.add(Role::Station, "station@s");
    let reader = world.admit(Admitted::Reader, "rita@r");
    let origin = world.hosts[station].origin;
    let replica = &mut world.hosts[HOME].replica;
    let (now, wall) = (world.now, WallTime::EPOCH);
    replica.handle(now, wall, Input::PeerUp { peer: LIAR, neighbour: Neighbour::ChildStation { origin } });
    for up in [hello(7), Up::Start, Up::Records { records: vec![record(reader, 1, create("bad"))] }] {
        replica.handle(now, wall, Input::Message { peer: LIAR, bytes: encode(&Message::Up(up)) });
    }
    assert!(std::iter::from_fn(|| replica.poll_output()).any(|output| is_goodbye(&output)));
    assert!(replica.entry(FileId::ROOT, &name("bad")).unwrap().is_none());
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
    assert_eq!(world.hosts[HOME].replica.revoke(now, wall, node, Held::Taken), Ok(1));
    world.input(HOME, Input::Tick);
    world.settle();
    assert!(world.hosts[HOME].events.iter().any(|event| matches!(event, Output::Disconnect { .. })));
    world.connect(a, HOME);
    world.settle();
    assert_eq!(world.hosts[HOME].replica.progress().children, 0);
}

/// [S-taken-in-again]
#[test]
fn a_machine_that_is_taken_in_again_sends_what_it_wrote_meanwhile() {
    let mut world = World::new();
    let (station, a) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    world.connect(station, HOME);
    world.connect(a, station);
    world.settle();
    world.create(a, FileId::ROOT, "before");
    world.names(a, FileId::ROOT).unwrap();
    world.settle();
    let (now, wall) = (world.now, world.wall());
    let (node, origin) = (world.hosts[a].replica.config().node, world.hosts[a].origin);
    let home = |world: &mut World| {
        world.input(HOME, Input::Tick);
        world.settle();
    };
    assert_eq!(world.hosts[HOME].replica.revoke(now, wall, node, Held::Taken), Ok(1));
    home(&mut world);
    world.create(a, FileId::ROOT, "meanwhile");
    world.connect(a, station);
    world.settle();
    assert!(world.hosts[HOME].replica.entry(FileId::ROOT, &name("meanwhile")).unwrap().is_none());

    let other = wayfs_types::NodeId::from_bytes([9; 32]);
    let replica = &mut world.hosts[HOME].replica;
    assert_eq!(replica.reinstate(now, wall, (other, origin), Admitted::Client), Ok(false), "a key is not enough");
    assert_eq!(replica.reinstate(now, wall, (node, origin), Admitted::Client), Ok(true));
    home(&mut world);
    world.connect(a, station);
    world.settle();
    for host in [HOME, station] {
        let replica = &world.hosts[host].replica;
        assert!(replica.entry(FileId::ROOT, &name("before")).unwrap().is_some());
        assert!(replica.entry(FileId::ROOT, &name("meanwhile")).unwrap().is_some(), "host {host}");
    }
    assert_eq!(world.hosts[a].replica.config().origin, origin, "under the origin that it had");
}

/// Says something to a client as its parent, and tells whether it was sent away. Then the client looks at these files, offline.
fn is_parent_refused(images: Vec<(FileId, Inode)>) -> bool {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    world.close(peer);
    let (now, wall) = (world.now, WallTime::EPOCH);
    let replica = &mut world.hosts[a].replica;
    replica.handle(now, wall, Input::PeerUp { peer: LIAR, neighbour: Neighbour::Parent });
    let files: Vec<FileId> = images.iter().map(|(file, _)| *file).collect();
    let key_images = images
        .into_iter()
        .map(|(file, inode)| KeyImage { key: Key::Inode(file), image: Some(Image::Inode(Arc::new(inode))) });
    let current = CommitNumber(9);
    let says = [
        Down::Welcome {
            stamp: stamp(),
            current,
            resume: false,
            applied: Vec::new(),
            ends: Vec::new(),
            went_back: false,
        },
        Down::Images {
            serial: wayfs_wire::FrameSerial(1),
            through: current,
            more: false,
            images: key_images.collect(),
            omitted: Vec::new(),
        },
    ];
    for down in says {
        replica.handle(now, wall, Input::Message { peer: LIAR, bytes: encode(&Message::Down(down)) });
    }
    let refused = std::iter::from_fn(|| replica.poll_output()).any(|output| is_goodbye(&output));
    replica.handle(now, wall, Input::PeerDown { peer: LIAR });
    let later = Time::from_micros(now.as_micros() + 60_000_000);
    replica.handle(later, wall, Input::Tick);
    for (number, file) in (1..).zip(files) {
        let (id, request) = (RequestId(number), Request::Attributes { file });
        replica.handle(later, wall, Input::Request { id, request, deadline: later });
    }
    // The root is what it was, and the replica lives.
    let root = replica.inode(FileId::ROOT).unwrap();
    assert!(root.is_none_or(|root| root.is_directory()));
    refused
}

fn stamp() -> Stamp {
    Stamp { origin: OriginId::new(1).unwrap(), born: WallTime::from_nanos(77), life: Life::default() }
}

fn inode(kind: Kind, merged_into: Option<FileId>) -> Inode {
    Inode { kind, merged_into, ..wayfs_tree::root_inode() }
}

/// A parent that says that two files stand for each other made a client look from one to the other until its stack was full, and
/// again after each restart.
#[test]
fn a_parent_cannot_have_files_stand_for_each_other_in_a_circle() {
    let file = |sequence| FileId::made_by(RecordId::new(OriginId::new(5).unwrap(), sequence).unwrap());
    let alias = |from: u64, into: u64| (file(from), inode(Kind::File, Some(file(into))));
    assert!(!is_parent_refused(vec![alias(1, 2), (file(2), inode(Kind::File, None))]), "a file merged into another");
    assert!(is_parent_refused(vec![alias(1, 1)]));
    assert!(is_parent_refused(vec![alias(1, 2), alias(2, 1)]));
    assert!(is_parent_refused(vec![alias(1, 2), alias(2, 3), alias(3, 1)]));
}

#[test]
fn a_parent_cannot_make_the_root_a_file() {
    assert!(!is_parent_refused(vec![(FileId::ROOT, inode(Kind::Directory, None))]));
    assert!(is_parent_refused(vec![(FileId::ROOT, inode(Kind::File, None))]));
    let other = FileId::made_by(RecordId::new(OriginId::new(5).unwrap(), 1).unwrap());
    assert!(is_parent_refused(vec![(FileId::ROOT, inode(Kind::Directory, Some(other)))]));
}

/// What it writes again would stand beside what it wrote, by the same numbers.
#[test]
fn a_parent_cannot_grant_a_store_the_origin_that_it_has() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let line = stay_connected(&mut world, a, HOME);
    world.names(a, FileId::ROOT).unwrap();
    world.stall(line, true);
    world.create(a, FileId::ROOT, "mine");
    let (of, replica) = (world.hosts[a].origin, &mut world.hosts[a].replica);
    replica.begin_fork("a test says so".to_owned());
    let granted = Down::Renewed { of, life: replica.config().life, origin: of, admission: None };
    world.input(a, Input::Message { peer: line, bytes: encode(&Message::Down(granted)) });
    assert!(!world.is_open(line), "a parent that grants what is not new is left");
    let went_on = |event: &Output| matches!(event, Output::Renewed { .. });
    assert!(!world.hosts[a].events.iter().any(went_on), "{:?}", world.hosts[a].events);

    // From one that does not lie it has another, and what it wrote is there.
    world.connect(a, HOME);
    world.pass(Duration::from_secs(10));
    assert!(world.hosts[a].events.iter().any(went_on), "{:?}", world.hosts[a].events);
    stay_connected(&mut world, a, HOME);
    assert!(world.hosts[HOME].replica.entry(FileId::ROOT, &name("mine")).unwrap().is_some());
}
