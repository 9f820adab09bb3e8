//! Stations of the volume that lie: to their clients, and to the home in their clients' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use serde_json::json;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use wayfs_hostile_tests::{As, FORGED, Member, Parent, Peer, Script, Session, create, inode, record};
use wayfs_system_tests::{Machine, Mount, World, eventually};
use wayfs_types::{Content, FileId, Image, Key, Kind, Origin, OriginId, RecordId};
use wayfs_wire::{Applied, Down, KeyImage, SentRecord, Up};

/// Longest time for news to travel on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// A client measures its servers, and hears what they know, each minute.
const A_MINUTE: Duration = Duration::from_secs(100);

/// A peer that is a station of the world's volume and has told where it listens.
fn station(world: &World) -> (Peer, Member) {
    let peer = Peer::new();
    let member = peer.join(&world.server.station_ticket(&world.home, "work"), As::Station, "evil@station");
    peer.tell_place(&member);
    (peer, member)
}

/// Makes the world's mount a client of it.
fn attach(world: &World, parent: &Parent) {
    let address = parent.peer().address();
    eventually("the mount uses the station", SOON, || {
        world.mount.wayfs(&world.client, &["station", "use", &address]).status.success()
    });
    eventually("it has come", SOON, || parent.attached() > 0);
}

fn leave(world: &World) {
    world.mount.wayfs(&world.client, &["station", "use", "home"]).ok();
}

/// All goes on at the home, with what was written meanwhile. Who may choose takes a station before a home: this one.
fn works(world: &World, name: &str) {
    fs::write(world.mount.path(name), name).unwrap();
    leave(world);
    world.mount.sync(&world.client, "stable");
    let (_machine, other) = at_home(world, "witness");
    eventually("others see it", SOON, || fs::read(other.path(name)).is_ok_and(|bytes| bytes == name.as_bytes()));
}

/// Another mount, which works at the home.
fn at_home(world: &World, label: &str) -> (Machine, Mount) {
    let (machine, mount) = world.other(label);
    mount.wayfs(&machine, &["station", "use", "home"]).ok();
    (machine, mount)
}

/// A station tells its client of a home that it made up, with a list and with places.
///
/// Before: the client's list showed `home` at the planted address, and it sent its whole unsent log there.
/// After: nothing of it is taken, since the home's key did not sign it; nobody comes to the planted address.
#[test]
fn a_station_cannot_plant_a_home_in_its_clients() {
    let world = World::default();
    let (peer, member) = station(&world);
    let (volume, home) = (member.ticket.volume(), member.ticket.home());
    let planted = Parent::serve(Peer::new(), Script::default(), OriginId::new(1).unwrap());
    let lists = [
        peer.list_with_home(volume, planted.peer().node()),
        peer.list_with_home(volume, home),
        planted.peer().list_with_home(volume, planted.peer().node()),
    ];
    for list in lists {
        let (peer, member) = station(&world);
        let news = json!({ "list": list, "places": [peer.place(9), planted.peer().place(9)] });
        let parent = Parent::serve(peer, Script { news, ..Script::default() }, member.origin);
        attach(&world, &parent);
        let list = world.mount.wayfs(&world.client, &["station", "list"]).ok().out;
        assert!(!list.contains(&planted.peer().address()), "{list}");
        let saved = fs::read_to_string(find(&world, "servers.json")).unwrap();
        let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
        assert_eq!(saved["home"], json!(home), "the home's key");
        leave(&world);
    }
    works(&world, "after");
    assert_eq!(planted.attached(), 0);
}

/// The file of this name below the client's cache.
fn find(world: &World, name: &str) -> std::path::PathBuf {
    let mut stack = vec![world.client.path("cache")];
    while let Some(directory) = stack.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                stack.push(path);
            } else if path.file_name().is_some_and(|found| found == name) {
                return path;
            }
        }
    }
    panic!("no {name} in the cache");
}

/// The home removes a station that has a client.
///
/// Before: the client kept it in its list and its session with it for ever.
/// After: at the latest when it measures the other servers it hears of it, and leaves.
#[test]
fn a_station_that_is_removed_loses_its_clients() {
    let world = World::default();
    let (peer, member) = station(&world);
    let parent = Parent::serve(peer, Script::default(), member.origin);
    attach(&world, &parent);
    world.server.wayfs(&world.home, &["volume", "revoke", "work", "evil@station"]).ok();
    eventually("the client has left", A_MINUTE, || parent.open() == 0);
    let refused = parent.peer().attach(&member).err();
    assert_eq!(refused, Some(json!({ "Refused": "Revoked" })));
    works(&world, "after");
    let list = world.mount.wayfs(&world.client, &["station", "list"]).ok().out;
    assert!(!list.contains(&parent.peer().address()), "{list}");
}

/// What a station tells of the tree can not be so: the root is a file, a file stands for itself by way of another.
///
/// Before: the mount's root became "Not a directory", also at an honest parent; the circle ended the daemon, at each start.
/// After: the session ends, nothing of it is kept.
#[test]
fn a_tree_that_cannot_be_is_not_believed() {
    // It has written nothing: else it would ask first what became of that, and believe nothing until it was told.
    let world = World::default();
    let file = |number| FileId::made_by(RecordId::new(OriginId::new(77).unwrap(), number).unwrap());
    let image = |file, inode| KeyImage { key: Key::Inode(file), image: Some(Image::Inode(Arc::new(inode))) };
    let circle =
        vec![image(file(1), inode(Kind::File, Some(file(2)))), image(file(2), inode(Kind::File, Some(file(1))))];
    let lies = [vec![image(FileId::ROOT, inode(Kind::File, None))], circle];
    for images in lies {
        let (peer, member) = station(&world);
        let parent = Parent::serve(peer, Script { images, ..Script::default() }, member.origin);
        attach(&world, &parent);
        eventually("the session is ended", SOON, || parent.open() == 0);
        leave(&world);
        assert!(fs::metadata(world.mount.root()).unwrap().is_dir());
    }
    works(&world, "after");
}

/// A station ends each session when it has heard the hello.
///
/// Before: 36,000 sessions in two minutes, and a log full of them.
/// After: the client waits longer each time.
#[test]
fn sessions_that_die_young_are_begun_ever_more_seldom() {
    let world = World::default();
    let (peer, member) = station(&world);
    let parent = Parent::serve(peer, Script { ends_at_once: true, ..Script::default() }, member.origin);
    attach(&world, &parent);
    std::thread::sleep(Duration::from_secs(10));
    let count = parent.attached();
    assert!(count < 40, "{count} sessions in ten seconds");
    leave(&world);
    works(&world, "after");
}

/// What a station's session with the home tells of an origin.
fn origin_of(session: &mut Session<'_>, label: &str) -> (OriginId, Origin) {
    let found = session.hear_until(|down| {
        let Down::Images { images, .. } = down else { return None };
        images.iter().find_map(|pair| match (&pair.key, &pair.image) {
            (Key::Origin(id), Some(Image::Origin(origin))) if origin.label.contains(label) => {
                Some((*id, Origin::clone(origin)))
            }
            _ => None,
        })
    });
    found.expect("the home tells of all its members")
}

/// Says records to the home that follow what it has of an origin.
fn say_records(session: &Session<'_>, (origin, known): (OriginId, &Origin), records: Vec<SentRecord>) {
    let chains = vec![Applied { origin, through: known.applied, chain: known.chain }];
    session.say(Up::Chains { chains });
    session.say(Up::Records { records });
}

fn inline(text: &str) -> Content {
    Content::Inline(bytes::Bytes::copy_from_slice(text.as_bytes()))
}

/// Proves [S-author].
///
/// A station sends the home records in the name of a client that is not even its own, with the numbers that the client is going to
/// give next.
///
/// Before: they were taken, and the client's own fsync'ed work under these numbers was dropped in silence.
/// After: they lack the client's seal, the home takes none of them and ends the session; what the client wrote is there.
#[test]
fn records_in_anothers_name_do_not_take_the_place_of_its_own() {
    let world = World::default();
    fs::write(world.mount.path("before"), "before").unwrap();
    world.mount.sync(&world.client, "stable");
    world.mount.wayfs(&world.client, &["offline"]).ok();
    let (peer, member) = station(&world);
    let mut session = peer.attach(&member).expect("a station is welcome");
    session.hello(member.ticket.volume());
    session.say(Up::Start);
    let (victim, known) = origin_of(&mut session, "client");
    let forged = |number: u64| record(victim, known.applied + number, create(&format!("forged-{number}"), inline("!")));
    say_records(&session, (victim, &known), (1..=8).map(forged).collect());
    let why = session.ended();
    assert!(why.contains("seal"), "{why}");
    for number in 0..3 {
        let path = world.mount.path(&format!("own-{number}"));
        fs::write(&path, "own").unwrap();
        fs::File::open(&path).unwrap().sync_all().unwrap();
    }
    world.mount.wayfs(&world.client, &["online"]).ok();
    works(&world, "after");
    let (_machine, other) = at_home(&world, "judge");
    for number in 0..3 {
        let path = other.path(&format!("own-{number}"));
        eventually("what was synced is there", SOON, || fs::read(&path).is_ok_and(|bytes| bytes == b"own"));
    }
    assert!(fs::symlink_metadata(other.path("forged-1")).is_err());
}

/// A station passes on what its client wrote, but leaves out a record in the middle.
///
/// Before and after: the home takes only what follows upon what it has; the client writes to the home what is missing.
#[test]
fn records_that_a_station_leaves_out_are_missed() {
    let world = World::default();
    let (peer, member) = station(&world);
    let mut session = peer.attach(&member).expect("a station is welcome");
    session.hello(member.ticket.volume());
    session.say(Up::Start);
    let (victim, known) = origin_of(&mut session, "client");
    let second = record(victim, known.applied + 2, create("second", inline("2")));
    say_records(&session, (victim, &known), vec![second]);
    session.ended();
    works(&world, "after");
    assert!(fs::symlink_metadata(world.mount.path("second")).is_err());
}

/// A station speaks for the home: of a change that is not, at a time to come.
///
/// Before: how long ago the home was heard was the station's word, and nothing else was there.
/// After: what the home did not sign is not its word, and `status` does not tell it.
#[test]
fn a_station_cannot_speak_for_the_home() {
    let world = World::default();
    let signed = || {
        let status = world.mount.wayfs(&world.client, &["status", "--json"]).ok().json();
        status[0]["volumes"][0]["home_position"].as_u64()
    };
    eventually("the home's own word comes", SOON, || signed().is_some());
    let (peer, member) = station(&world);
    let parent = Parent::serve(peer, Script::default(), member.origin);
    attach(&world, &parent);
    let pings = || parent.said().iter().filter(|up| matches!(up, Up::Ping { .. })).count() > 1;
    eventually("it was told twice", SOON, pings);
    let position = signed();
    assert!(position.is_some_and(|position| position != FORGED.0), "{position:?}");
    leave(&world);
}
