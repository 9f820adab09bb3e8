//! Quotas: of members and of the volume, kept to by clients that can know and by servers in any case.

use super::liars::{hello, record};
use super::seals::sealed;
use super::world::{HOME, World, name};
use crate::{Input, Neighbour, Output, PeerId, Role, Usage};
use bytes::Bytes;
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{Content, FileId, FsError, Kind, Op, Quota};
use wayfs_wire::{Message, Up, encode};

const CHEAT: PeerId = PeerId(7777);

fn set(world: &mut World, member: Option<usize>, quota: Quota) {
    let (now, wall) = (world.now, world.wall());
    let node = member.map(|member| world.hosts[member].replica.config().node);
    assert_eq!(world.hosts[HOME].replica.set_quota(now, wall, node, quota), Ok(1));
    world.input(HOME, Input::Tick);
    world.settle();
}

fn of(bytes: u64, files: u64) -> Quota {
    Quota { bytes: Some(bytes), files: Some(files) }
}

fn filled(len: usize) -> Content {
    Content::Inline(Bytes::from(vec![7; len]))
}

fn store(world: &mut World, host: usize, file: FileId, content: Content) -> Result<(), FsError> {
    let base = world.hosts[host].replica.inode(file).unwrap().unwrap().version;
    let mtime = world.wall();
    world.change(host, Change::Store { file, base, content, mtime }).map(|_| ())
}

fn make(world: &mut World, host: usize, text: &str) -> Result<FileId, FsError> {
    let (parent, name) = (FileId::ROOT, name(text));
    let change = Change::Create { parent, name, kind: Kind::File, mode: 0o644, uid: 1, gid: 1 };
    world.change(host, change).map(|(_, file, _)| file)
}

fn counts_right(world: &World) {
    for host in world.hosts.iter().filter(|host| host.replica.config().role != Role::Client) {
        assert_eq!(host.replica.usage_is_wrong(), Ok(None));
    }
}

/// [S-quota]
#[test]
fn a_member_is_told_by_its_own_machine_when_its_quota_is_used() {
    let mut world = World::new();
    let (station, ann) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    world.connect(station, HOME);
    world.connect(ann, station);
    world.settle();
    set(&mut world, Some(ann), of(3000, 3));
    let files: Vec<FileId> = ["a", "b", "c"].map(|text| make(&mut world, ann, text).unwrap()).to_vec();
    assert_eq!(make(&mut world, ann, "d"), Err(FsError::Quota), "before any server heard of the others");
    assert_eq!(store(&mut world, ann, files[0], filled(2000)), Ok(()));
    assert_eq!(store(&mut world, ann, files[1], filled(1001)), Err(FsError::Quota));
    assert_eq!(store(&mut world, ann, files[1], filled(1000)), Ok(()));
    assert_eq!(store(&mut world, ann, files[0], filled(10)), Ok(()), "what shrinks is always taken");
    world.settle();
    assert_eq!(store(&mut world, ann, files[2], filled(1990)), Ok(()));
    world.settle();
    world.change(ann, Change::Unlink { parent: FileId::ROOT, name: name("c") }).unwrap();
    world.settle();
    assert_eq!(world.hosts[HOME].replica.usage(world.hosts[ann].origin), Ok(Usage { bytes: 1010, files: 2 }));
    assert!(make(&mut world, ann, "d").is_ok());
    world.settle();
    counts_right(&world);
    set(&mut world, Some(ann), Quota::NONE);
    assert!(make(&mut world, ann, "e").is_ok());
    world.settle();
    world.assert_agrees(ann);
}

/// [S-quota]: what comes from a machine that does not keep to it.
#[test]
fn a_server_takes_nothing_beyond_a_quota_whatever_the_member_says() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let members = ["ann@a", "eve@e"].map(|label| world.add(Role::Client, label));
    world.connect(station, HOME);
    world.settle();
    members.iter().for_each(|member| set(&mut world, Some(*member), of(1000, 1_000_000)));
    let create = |origin, sequence, text: &str, len| {
        let (parent, name, content) = (FileId::ROOT, name(text), filled(len));
        record(origin, sequence, Op::Create { parent, name, kind: Kind::File, mode: 0o644, uid: 1, gid: 1, content })
    };
    for (host, member) in [station, HOME].into_iter().zip(members) {
        let origin = world.hosts[member].origin;
        let neighbour = Neighbour::ChildClient { origin };
        let says = |world: &mut World, up| {
            let before = world.hosts[host].events.len();
            if let Up::Records { records } = &up {
                let seals = Up::Seals { seals: vec![sealed(world, host, records)] };
                world.input(host, Input::Message { peer: CHEAT, bytes: encode(&Message::Up(seals)) });
            }
            world.input(host, Input::Message { peer: CHEAT, bytes: encode(&Message::Up(up)) });
            world.settle();
            world.hosts[host].events[before..].iter().find_map(|event| match event {
                Output::Disconnect { peer: CHEAT, reason } => Some(reason.clone()),
                _ => None,
            })
        };
        world.input(host, Input::PeerUp { peer: CHEAT, neighbour });
        for up in [hello(7), Up::Start] {
            assert_eq!(says(&mut world, up), None);
        }
        let within = create(origin, 1, &format!("within-{host}"), 500);
        assert_eq!(says(&mut world, Up::Records { records: vec![within] }), None);
        let beyond = (0..4).map(|n| create(origin, 2 + n, &format!("beyond-{host}-{n}"), 1000)).collect();
        assert_eq!(says(&mut world, Up::Records { records: beyond }).as_deref(), Some("sent records beyond its quota"));
        world.settle();
        for n in 0..4 {
            let entry = world.hosts[host].replica.entry(FileId::ROOT, &name(&format!("beyond-{host}-{n}"))).unwrap();
            assert!(entry.is_none());
        }
        assert!(world.hosts[host].replica.entry(FileId::ROOT, &name(&format!("within-{host}"))).unwrap().is_some());
    }
    counts_right(&world);
}

/// [S-quota]: nothing that was acknowledged is lost.
#[test]
fn what_was_written_before_a_quota_was_heard_of_waits_and_is_sent_when_there_is_room() {
    let mut world = World::new();
    let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let line = world.connect(ann, HOME);
    world.connect(bob, HOME);
    world.settle();
    set(&mut world, None, of(10_000, 1000));
    let file = make(&mut world, ann, "film").unwrap();
    world.settle();
    world.close(line);
    assert_eq!(store(&mut world, ann, file, filled(3000)), Ok(()), "as much was left when it was told last");
    set(&mut world, None, of(100, 1000));
    let line = world.connect(ann, HOME);
    world.settle();
    assert!(world.is_open(line), "the session goes on");
    let at_home = |world: &World| world.hosts[HOME].replica.inode(file).unwrap().unwrap().content.clone();
    assert_eq!(at_home(&world), Content::EMPTY);
    // What is made now would wait behind it, and nobody would see it.
    assert_eq!(make(&mut world, ann, "behind"), Err(FsError::Quota));
    assert_eq!(make(&mut world, bob, "small").map(|_| ()), Ok(()), "others go on");
    world.settle();
    set(&mut world, None, of(10_000, 1000));
    world.settle();
    assert_eq!(at_home(&world), filled(3000));
    assert_eq!(make(&mut world, ann, "behind").map(|_| ()), Ok(()));
    let other = make(&mut world, bob, "other").unwrap();
    assert_eq!(store(&mut world, bob, other, filled(8000)), Err(FsError::Quota), "the volume's counts all");
    counts_right(&world);
}

/// [S-quota]: a machine that cannot know that it is beyond its quota is refused once, and waits.
#[test]
fn what_was_refused_is_not_sent_again_before_there_is_room() {
    let mut world = World::new();
    let ann = world.add(Role::Client, "ann@a");
    let line = world.connect(ann, HOME);
    world.settle();
    set(&mut world, Some(ann), of(7000, 1000));
    let (film, song) = (make(&mut world, ann, "film").unwrap(), make(&mut world, ann, "song").unwrap());
    assert_eq!(store(&mut world, ann, song, filled(3000)), Ok(()));
    world.settle();
    world.close(line);
    assert_eq!(store(&mut world, ann, film, filled(3900)), Ok(()));
    assert_eq!(
        store(&mut world, ann, song, filled(3101)),
        Err(FsError::Quota),
        "what was told last holds offline, too"
    );
    world.crash(ann, 100);
    assert_eq!(world.hosts[ann].replica.inode(film).unwrap().unwrap().content, filled(3900));
    set(&mut world, Some(ann), of(3500, 1000));
    let first = world.connect(ann, HOME);
    world.settle();
    assert!(!world.is_open(first), "it has forgotten what it took up, and sends");
    let second = world.connect(ann, HOME);
    world.settle();
    world.pass(Duration::from_secs(60));
    assert!(world.is_open(second), "it waits");
    assert_eq!(make(&mut world, ann, "more").map(|_| ()), Err(FsError::Quota));
    let at_home = |world: &World| world.hosts[HOME].replica.inode(film).unwrap().unwrap().content.clone();
    assert_eq!(at_home(&world), Content::EMPTY);
    world.change(ann, Change::Unlink { parent: FileId::ROOT, name: name("song") }).unwrap();
    world.settle();
    assert_eq!(at_home(&world), Content::EMPTY, "too much still");
    let third = world.connect(ann, HOME);
    world.settle();
    assert!(world.is_open(third));
    set(&mut world, Some(ann), of(7000, 1000));
    assert_eq!(at_home(&world), filled(3900));
    assert!(make(&mut world, ann, "more").is_ok());
    world.settle();
    world.assert_agrees(ann);
    counts_right(&world);
}
