//! Members with limits: honest ones, and ones whose own machine does not keep to them.

use super::liars::{hello, record};
use super::seals::sealed;
use super::world::{HOME, World, name, small};
use crate::{Input, Neighbour, Output, PeerId, Role};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Change, Request, XattrPresence};
use wayfs_types::{
    Admitted, AttrChange, ConflictKind, Content, FileId, FsError, Inode, Key, Kind, Limits, Name, Op, OriginId,
    RecordId, Squash, Standing, WallTime, XattrName,
};
use wayfs_wire::{Down, Message, Question, Up, decode, encode};

const CHEAT: PeerId = PeerId(7777);
const SQUASH: Squash = Squash { uid: 5000, gid: 6000 };

fn squashed() -> Limits {
    Limits { squash: Some(SQUASH), no_setid: true, ..Limits::NONE }
}

fn made(kind: Kind, text: &str, mode: u16) -> Op {
    let (parent, name) = (FileId::ROOT, name(text));
    Op::Create { parent, name, kind, mode, uid: 0, gid: 0, content: Content::EMPTY }
}

fn capability() -> XattrName {
    XattrName::new("security.capability").unwrap()
}

/// Says something to a server as a member that checks nothing, and gives what it was told.
fn says(world: &mut World, host: usize, origin: OriginId, first: Vec<Up>, ups: Vec<Up>) -> Vec<Down> {
    let came_before = world.hosts[host].events.len();
    world.input(host, Input::PeerUp { peer: CHEAT, neighbour: Neighbour::ChildClient { origin } });
    for up in [hello(7)].into_iter().chain(first).chain([Up::Start]).chain(ups) {
        // What it writes it seals: it is a member like others.
        if let Up::Records { records } = &up {
            let seals = Up::Seals { seals: vec![sealed(world, host, records)] };
            world.input(host, Input::Message { peer: CHEAT, bytes: encode(&Message::Up(seals)) });
        }
        world.input(host, Input::Message { peer: CHEAT, bytes: encode(&Message::Up(up)) });
        world.settle();
    }
    world.input(host, Input::PeerDown { peer: CHEAT });
    let events = world.hosts[host].events.split_off(came_before);
    let told = events.into_iter().filter_map(|event| match event {
        Output::Send { peer: CHEAT, bytes } => match decode(&bytes).unwrap() {
            Message::Down(down) => Some(down),
            Message::Up(_) => panic!("a parent speaks upwards"),
        },
        Output::Disconnect { peer: CHEAT, reason } => panic!("sent away: {reason}"),
        _ => None,
    });
    told.collect()
}

fn at(world: &World, host: usize, directory: FileId, text: &str) -> Option<(FileId, Arc<Inode>)> {
    let replica = &world.hosts[host].replica;
    let entry = replica.entry(directory, &name(text)).unwrap()?;
    Some((entry.file, replica.inode(entry.file).unwrap().unwrap()))
}

fn reports(world: &World, host: usize) -> Vec<ConflictKind> {
    let open = world.hosts[host].replica.conflicts(None, 100).unwrap();
    open.into_iter().map(|open| open.conflict.kind).collect()
}

/// [S-limits]
#[test]
fn who_is_squashed_owns_nothing_else_whatever_its_machine_says() {
    let mut world = World::new();
    let (station, owner) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    let cheat = world.admit(Standing { admitted: Admitted::Client, limits: squashed() }, "eve@e");
    world.connect(station, HOME);
    world.connect(owner, station);
    world.settle();
    let of_ann = world.create(owner, FileId::ROOT, "ann's");
    let setid = AttrChange { mode: Some(0o4755), ..AttrChange::default() };
    world.change(owner, Change::SetAttr { file: of_ann, change: setid }).unwrap();
    world.settle();
    let base = world.hosts[station].replica.inode(of_ann).unwrap().unwrap().version;
    let own = FileId::made_by(RecordId::new(cheat, 1).unwrap());
    let change = AttrChange { uid: Some(0), gid: Some(0), mode: Some(0o6711), ..AttrChange::default() };
    let records = vec![
        record(cheat, 1, made(Kind::File, "program", 0o4755)),
        record(cheat, 2, made(Kind::BlockDevice(2049), "disk", 0o666)),
        record(cheat, 3, Op::SetXattr { file: own, name: capability(), value: Some(Bytes::from_static(b"all")) }),
        record(cheat, 4, Op::SetAttr { file: own, base: wayfs_types::AttrVersion(own.maker()), change }),
        record(cheat, 5, Op::Store { file: of_ann, base, content: small("evil"), mtime: WallTime::EPOCH }),
        record(cheat, 6, made(Kind::File, "harmless", 0o644)),
    ];
    says(&mut world, station, cheat, Vec::new(), vec![Up::Records { records }]);
    world.settle();
    for host in [station, HOME] {
        let (_, program) = at(&world, host, FileId::ROOT, "program").unwrap();
        assert_eq!((program.uid, program.gid, program.mode), (5000, 6000, 0o711));
        assert!(program.xattrs.is_empty(), "{:?}", program.xattrs);
        assert!(at(&world, host, FileId::ROOT, "disk").is_none());
        let (_, of_ann) = at(&world, host, FileId::ROOT, "ann's").unwrap();
        assert_eq!((of_ann.content.clone(), of_ann.mode), (small("evil"), 0o755), "what it wrote has no set-id bit");
        let (_, harmless) = at(&world, host, FileId::ROOT, "harmless").unwrap();
        assert_eq!((harmless.uid, harmless.gid), (5000, 6000), "what follows is not held up");
        assert_eq!(reports(&world, host), [ConflictKind::Limited; 2]);
    }
    world.assert_agrees(station);
}

/// The same member with a machine that keeps to its limits is told at once.
#[test]
fn an_honest_member_is_told_of_its_limits_by_its_own_machine() {
    let mut world = World::new();
    let ann = world.add_limited(squashed(), "ann@a");
    world.connect(ann, HOME);
    world.settle();
    let file = world.create(ann, FileId::ROOT, "mine");
    let inode = world.hosts[ann].replica.inode(file).unwrap().unwrap();
    assert_eq!((inode.uid, inode.gid), (5000, 6000));
    let mut set = |change: AttrChange| world.change(ann, Change::SetAttr { file, change }).map(|_| ());
    assert_eq!(set(AttrChange { uid: Some(0), ..AttrChange::default() }), Err(FsError::NotPermitted));
    assert_eq!(set(AttrChange { uid: Some(5000), gid: Some(6000), ..AttrChange::default() }), Ok(()));
    assert_eq!(set(AttrChange { mode: Some(0o4711), ..AttrChange::default() }), Err(FsError::NotPermitted));
    assert_eq!(set(AttrChange { mode: Some(0o711), ..AttrChange::default() }), Ok(()));
    let value = Some(Bytes::from_static(b"x"));
    let xattr = Change::SetXattr { file, name: capability(), value, presence: XattrPresence::Any };
    assert_eq!(world.change(ann, xattr).map(|_| ()), Err(FsError::NotPermitted));
    let device = Change::Create {
        parent: FileId::ROOT,
        name: name("disk"),
        kind: Kind::CharDevice(1),
        mode: 0o666,
        uid: 0,
        gid: 0,
    };
    assert_eq!(world.change(ann, device).map(|_| ()), Err(FsError::NotPermitted));
    world.settle();
    assert_eq!(reports(&world, HOME), []);
    world.assert_agrees(ann);
}

/// A volume with a directory for a member, `work/part`, and things beside it.
struct Parts {
    world: World,
    station: usize,
    owner: usize,
    work: FileId,
    part: FileId,
    secret: FileId,
    limits: Limits,
}

fn parts() -> Parts {
    let mut world = World::new();
    let (station, owner) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    world.connect(station, HOME);
    world.connect(owner, station);
    world.settle();
    let work = world.mkdir(owner, FileId::ROOT, "work");
    let part = world.mkdir(owner, work, "part");
    world.create(owner, part, "common");
    let secret = world.create(owner, work, "secret");
    world.store(owner, secret, small("nobody's business"));
    world.mkdir(owner, FileId::ROOT, "other");
    world.settle();
    let limits = Limits { below: Some(part), ..Limits::NONE };
    Parts { world, station, owner, work, part, secret, limits }
}

/// [S-limits]
#[test]
fn a_member_with_a_part_sees_that_and_the_way_there() {
    let Parts { mut world, station, owner, work, part, secret, limits } = parts();
    let ann = world.add_limited(limits, "bob@b");
    world.connect(ann, station);
    world.settle();
    assert_eq!(world.names(ann, FileId::ROOT), Ok(vec!["work".into()]));
    assert_eq!(world.names(ann, work), Ok(vec!["part".into()]));
    assert_eq!(world.names(ann, part), Ok(vec!["common".into()]));
    assert_eq!(world.lookup(ann, work, "secret").map(|_| ()), Err(FsError::NotFound));
    assert!(world.ask(ann, Request::Attributes { file: secret }).is_err());
    assert!(world.hosts[ann].replica.inode(secret).unwrap().is_none());
    let outside = Change::Mkdir { parent: work, name: name("mine"), mode: 0o755, uid: 1, gid: 1 };
    assert_eq!(world.change(ann, outside).map(|_| ()), Err(FsError::AccessDenied));
    let away = world.rename(ann, (part, "common"), (work, "common"));
    assert_eq!(away, Err(FsError::AccessDenied));
    world.create(ann, part, "mine");
    world.create(owner, work, "another secret");
    world.create(owner, part, "news");
    world.settle();
    assert_eq!(world.names(ann, part), Ok(vec!["common".into(), "mine".into(), "news".into()]));
    assert_eq!(world.names(ann, work), Ok(vec!["part".into()]));
    assert_eq!(world.names(owner, work), Ok(vec!["another secret".into(), "part".into(), "secret".into()]));
    assert!(at(&world, HOME, part, "mine").is_some());
}

/// [S-limits]
#[test]
fn a_member_with_a_part_gets_and_changes_nothing_outside_whatever_its_machine_says() {
    let Parts { mut world, station, owner: _, work, part, secret, limits } = parts();
    let cheat = world.admit(Standing { admitted: Admitted::Client, limits }, "eve@e");
    world.settle();
    let inode = world.hosts[station].replica.inode(secret).unwrap().unwrap();
    let ask = |number, question| Up::Ask { ask: wayfs_wire::AskId(number), question, seen: Vec::new() };
    let create = |sequence, parent, text: &str| {
        let (name, kind, content) = (name(text), Kind::File, small("mine"));
        record(cheat, sequence, Op::Create { parent, name, kind, mode: 0o644, uid: 1, gid: 1, content })
    };
    let nowhere = FileId::made_by(RecordId::new(cheat, 1 << 30).unwrap());
    let change = AttrChange { mode: Some(0o777), ..AttrChange::default() };
    let unlink = Op::Unlink { parent: work, name: name("secret"), file: secret, version: inode.version };
    let records = vec![
        record(cheat, 1, unlink),
        record(cheat, 2, Op::Link { file: secret, parent: part, name: name("stolen") }),
        record(cheat, 3, Op::SetAttr { file: secret, base: inode.attr_version, change }),
        record(cheat, 4, Op::Store { file: secret, base: inode.version, content: small("x"), mtime: WallTime::EPOCH }),
        create(5, FileId::ROOT, "outside"),
        create(6, nowhere, "homeless"),
        create(7, part, "inside"),
    ];
    let questions = vec![
        ask(1, Question::List { directory: work, after: None, limit: 100 }),
        ask(2, Question::Lookup { parent: work, name: name("secret") }),
        ask(3, Question::Attributes { file: secret }),
        ask(4, Question::List { directory: FileId::ROOT, after: None, limit: 100 }),
    ];
    let refresh = Up::Refresh { keys: vec![Key::Inode(secret), Key::Entry(work, name("secret"))] };
    let watch = Up::Watch { files: vec![work, secret, part] };
    let mut told = says(&mut world, station, cheat, vec![refresh], vec![watch, Up::Records { records }]);
    world.settle();
    told.extend(says(&mut world, station, cheat, Vec::new(), questions));
    let mut seen = Vec::new();
    for down in told {
        let (Down::Images { images, .. } | Down::Answer { images, .. }) = down else { continue };
        seen.extend(images.into_iter().filter(|pair| pair.image.is_some()).map(|pair| pair.key));
    }
    assert!(seen.contains(&Key::Entry(work, name("part"))), "{seen:?}");
    assert!(!seen.contains(&Key::Inode(secret)) && !seen.contains(&Key::Entry(work, name("secret"))), "{seen:?}");
    assert!(!seen.contains(&Key::Entry(FileId::ROOT, name("other"))), "{seen:?}");
    for host in [station, HOME] {
        let (_, secret) = at(&world, host, work, "secret").unwrap();
        assert_eq!((secret.content.clone(), secret.mode), (small("nobody's business"), inode.mode));
        assert!(at(&world, host, FileId::ROOT, "outside").is_none());
        assert!(at(&world, host, FileId::ROOT, "homeless").is_none());
        for kept in ["inside", "outside", "homeless", "recovered"] {
            assert!(at(&world, host, part, kept).is_some(), "{kept} is in its part");
        }
        assert!(at(&world, host, part, "stolen").is_none());
    }
    world.assert_agrees(station);
}

/// What is moved out of a part and back is seen as it is then.
#[test]
fn a_directory_that_leaves_a_part_and_comes_back_is_seen_as_it_is_then() {
    let Parts { mut world, station, owner, work, part, limits, .. } = parts();
    let inner = world.mkdir(owner, part, "inner");
    world.create(owner, inner, "before");
    world.settle();
    let ann = world.add_limited(limits, "bob@b");
    world.connect(ann, station);
    world.settle();
    assert_eq!(world.names(ann, inner), Ok(vec!["before".into()]));
    world.rename(owner, (part, "inner"), (work, "inner")).unwrap();
    world.settle();
    world.create(owner, inner, "meanwhile");
    world.settle();
    world.connect(ann, station);
    world.settle();
    assert_eq!(world.names(ann, part), Ok(vec!["common".into()]));
    world.rename(owner, (work, "inner"), (part, "inner")).unwrap();
    world.settle();
    world.connect(ann, station);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.names(ann, part), Ok(vec!["common".into(), "inner".into()]));
    assert_eq!(world.names(ann, inner), Ok(vec!["before".into(), "meanwhile".into()]));
}

/// Work that an honest member did offline in a directory that was moved away meanwhile.
#[test]
fn what_a_member_wrote_in_a_directory_that_left_its_part_is_kept_in_its_part() {
    let Parts { mut world, station, owner, work, part, limits, .. } = parts();
    let inner = world.mkdir(owner, part, "inner");
    let file = world.create(owner, inner, "draft");
    world.settle();
    let ann = world.add_limited(limits, "bob@b");
    let line = world.connect(ann, station);
    world.settle();
    assert_eq!(world.names(ann, inner), Ok(vec!["draft".into()]));
    world.close(line);
    world.store(ann, file, small("offline"));
    world.create(ann, inner, "new");
    world.rename(owner, (part, "inner"), (work, "inner")).unwrap();
    world.settle();
    world.connect(ann, station);
    world.settle();
    let (_, kept) = at(&world, HOME, part, "recovered").expect("the contents are kept");
    assert_eq!(kept.content, small("offline"));
    assert!(at(&world, HOME, part, "new").is_some());
    assert_eq!(at(&world, HOME, inner, "draft").unwrap().1.content, Content::EMPTY);
    let names = vec!["common".into(), "new".into(), "recovered".into()];
    assert_eq!(world.names(ann, part), Ok(names));
    assert_eq!(reports(&world, HOME), [ConflictKind::Limited; 2]);
}

/// New limits of a member that is taken in again are in force at once.
#[test]
fn other_limits_end_the_session_and_hold_from_then_on() {
    let mut world = World::new();
    let ann = world.add(Role::Client, "ann@a");
    let line = world.connect(ann, HOME);
    world.settle();
    world.create(ann, FileId::ROOT, "before");
    world.settle();
    let (now, wall) = (world.now, world.wall());
    let (node, origin) = (world.hosts[ann].replica.config().node, world.hosts[ann].origin);
    let standing = Standing { admitted: Admitted::Client, limits: squashed() };
    assert_eq!(world.hosts[HOME].replica.reinstate(now, wall, (node, origin), standing), Ok(true));
    world.input(HOME, Input::Tick);
    world.settle();
    assert!(!world.is_open(line));
    world.connect(ann, HOME);
    world.settle();
    let file = world.create(ann, FileId::ROOT, "after");
    let inode = world.hosts[ann].replica.inode(file).unwrap().unwrap();
    assert_eq!((inode.uid, inode.gid), (5000, 6000));
    let before: Name = name("before");
    assert!(world.hosts[ann].replica.entry(FileId::ROOT, &before).unwrap().is_some());
}
