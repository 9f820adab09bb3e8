//! Two go on under one origin: old copies of stores, clones, and records in another's name.

use super::put_back::rejoin;
use super::world::{HOME, World, big, name, small};
use crate::{Output, PeerId, Role};
use std::collections::BTreeSet;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level};
use wayfs_types::{FileId, Life, OriginId};

const ROOT: FileId = FileId::ROOT;

fn life(world: &mut World, host: usize, life: u32) {
    world.configure(host, |config| config.life = Life(life));
}

/// Makes small files with contents.
pub(super) fn write(world: &mut World, host: usize, names: &[String]) {
    for text in names {
        let file = world.create(host, ROOT, text);
        world.store(host, file, small(text));
    }
}

pub(super) fn named(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// Connects, and again whenever the session ends, as a driver does.
pub(super) fn stay_connected(world: &mut World, child: usize, parent: usize) -> PeerId {
    let mut peer = world.connect(child, parent);
    for _ in 0..12 {
        world.settle();
        world.pass(Duration::from_millis(100));
        if world.is_open(peer) {
            return peer;
        }
        peer = world.connect(child, parent);
    }
    panic!("no session stays");
}

pub(super) fn assert_all_there(world: &mut World, host: usize, names: &[String]) {
    let there: BTreeSet<String> = world.names(host, ROOT).unwrap().into_iter().collect();
    let lost: Vec<&String> = names.iter().filter(|text| !there.contains(*text)).collect();
    assert!(lost.is_empty(), "lost at host {host}: {lost:?}, there are {there:?}");
    for text in names {
        let (file, inode) = world.lookup(host, ROOT, text).unwrap();
        assert_eq!(inode.content, small(text), "{text} is {file}");
    }
}

pub(super) fn was_renewed(world: &World, host: usize) -> Option<(OriginId, OriginId)> {
    world.hosts[host].events.iter().find_map(|event| match event {
        Output::Renewed { former, origin, .. } => Some((*former, *origin)),
        _ => None,
    })
}

/// A client whose store is put back to a copy, after which it had written `lost` files; then it writes `fresh` offline.
fn restored_client(lost: usize, fresh: usize) {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = stay_connected(&mut world, a, HOME);
    let early = named("early", 3);
    write(&mut world, a, &early);
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    let copy = world.snapshot(a);
    let gone = named("gone", lost);
    write(&mut world, a, &gone);
    world.settle();
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.close(peer);
    world.restore(a, copy, 77);
    let offline = named("fresh", fresh);
    write(&mut world, a, &offline);
    stay_connected(&mut world, a, HOME);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    for host in [HOME, a] {
        assert_all_there(&mut world, host, &early);
        assert_all_there(&mut world, host, &gone);
        assert_all_there(&mut world, host, &offline);
        assert_eq!(world.names(host, ROOT).unwrap().len(), early.len() + gone.len() + offline.len(), "no copies");
    }
    world.check_tree(HOME);
    world.assert_agrees(a);
}

/// [S-old-copy] Nothing is lost on either side.
#[test]
fn a_client_put_back_to_an_old_copy_loses_nothing_that_it_writes() {
    // More new records than were lost, fewer, and none.
    restored_client(20, 70);
    restored_client(60, 5);
    restored_client(60, 0);
    restored_client(2, 1);
}

#[test]
fn a_client_put_back_far_takes_a_new_origin_and_says_so() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, a, HOME);
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    let copy = world.snapshot(a);
    write(&mut world, a, &named("gone", 100));
    world.settle();
    let former = world.hosts[a].origin;
    world.restore(a, copy, 77);
    // A program that has a file open goes on with it under its former name.
    let (_, file, _) = world
        .change(
            a,
            Change::Create {
                parent: ROOT,
                name: name("mine"),
                kind: wayfs_types::Kind::File,
                mode: 0o644,
                uid: 1,
                gid: 1,
            },
        )
        .unwrap();
    let first = world.store(a, file, small("first"));
    stay_connected(&mut world, a, HOME);
    let renewed = was_renewed(&world, a).expect("it takes a new origin");
    assert_eq!(renewed.0, former);
    assert_eq!(world.hosts[a].replica.config().origin, renewed.1);
    assert_ne!(renewed.0, renewed.1);
    let mtime = world.wall();
    world.change(a, Change::Store { file, base: first, content: small("second"), mtime }).unwrap();
    world.settle();
    let (now, inode) = world.lookup(HOME, ROOT, "mine").unwrap();
    assert_eq!(inode.content, small("second"), "one file, built upon what it was renamed to");
    assert_eq!(now.maker().origin(), renewed.1);
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 101);
    // The store remembers, whatever the driver's own notes say.
    let copy = world.snapshot(a);
    let mut config = world.hosts[a].replica.config().clone();
    config.origin = former;
    let reopened = crate::Replica::open(config, copy, world.now).unwrap();
    assert_eq!(reopened.config().origin, renewed.1);
}

#[test]
fn contents_follow_their_records_to_the_new_origin() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, a, HOME);
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    let copy = world.snapshot(a);
    write(&mut world, a, &named("gone", 100));
    world.settle();
    world.restore(a, copy, 77);
    let file = world.create(a, ROOT, "large");
    world.store(a, file, big("large"));
    stay_connected(&mut world, a, HOME);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.lookup(HOME, ROOT, "large").unwrap().1.content, big("large"));
    assert!(world.hosts[HOME].chunks.contains(&big("large").root().unwrap()), "the bytes are there, too");
}

/// Two clones of one store, each with a parent of its own or the same.
fn clones(parents: fn(&mut World) -> (usize, usize)) {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    life(&mut world, a, 5);
    let (one, other) = parents(&mut world);
    let peer = stay_connected(&mut world, a, one);
    write(&mut world, a, &named("common", 3));
    world.settle();
    world.pass(Duration::from_secs(3));
    world.close(peer);
    let copy = world.snapshot(a);
    let b = world.clone_of(a, copy.clone(), 200_003);
    world.restore(a, copy, 100_001);
    let (mine, theirs) = (named("one", 15), named("other", 15));
    stay_connected(&mut world, a, one);
    write(&mut world, a, &mine);
    stay_connected(&mut world, b, other);
    write(&mut world, b, &theirs);
    for _ in 0..3 {
        // Whose session was ended connects again.
        for (host, parent) in [(a, one), (b, other)] {
            if !world.has_session(host) {
                stay_connected(&mut world, host, parent);
            }
        }
        world.pass(Duration::from_secs(3));
    }
    assert!(world.has_session(a) && world.has_session(b), "they do not throw each other out any more");
    assert_ne!(world.hosts[a].replica.config().origin, world.hosts[b].replica.config().origin);
    for host in [HOME, a, b] {
        assert_all_there(&mut world, host, &named("common", 3));
        assert_all_there(&mut world, host, &mine);
        assert_all_there(&mut world, host, &theirs);
    }
    world.check_tree(HOME);
}

/// [S-clone] Two copies of one cache become two members.
#[test]
fn two_clones_of_one_store_become_two_members() {
    clones(|_| (HOME, HOME));
}

#[test]
fn two_clones_at_one_station_become_two_members() {
    clones(|world| {
        let station = world.add(Role::Station, "st@s");
        life(world, station, 11);
        world.connect(station, HOME);
        world.settle();
        (station, station)
    });
}

#[test]
fn two_clones_at_two_stations_become_two_members() {
    clones(|world| {
        let (one, other) = (world.add(Role::Station, "one@s"), world.add(Role::Station, "other@s"));
        world.connect(one, HOME);
        world.connect(other, HOME);
        world.settle();
        (one, other)
    });
}

/// Two clones that write nothing part as well, since they would end each other's sessions for ever.
#[test]
fn two_clones_that_write_nothing_part() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, a, HOME);
    let copy = world.snapshot(a);
    let b = world.clone_of(a, copy.clone(), 8);
    world.restore(a, copy, 7);
    let mut sessions = 0;
    for _ in 0..20 {
        for host in [a, b] {
            if !world.has_session(host) {
                world.connect(host, HOME);
                world.settle();
                sessions += 1;
            }
        }
        world.pass(Duration::from_millis(200));
    }
    assert!(world.has_session(a) && world.has_session(b));
    assert!(sessions < 10, "{sessions} sessions");
    assert_eq!([a, b].into_iter().filter(|host| was_renewed(&world, *host).is_some()).count(), 1, "one gives way");
}

/// [S-own-records] A station gives the home records in the name of a client that is offline: the client's own are not dropped.
#[test]
fn records_in_anothers_name_drop_none_of_its_own() {
    let mut world = World::new();
    let (a, station) = (world.add(Role::Client, "ann@a"), world.add(Role::Station, "liar@s"));
    life(&mut world, a, 5);
    let peer = stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("early", 3));
    world.names(a, ROOT).unwrap();
    world.settle();
    world.close(peer);
    // The liar is a clone of the client's store behind a station of its own.
    let copy = world.snapshot(a);
    let forger = world.clone_of(a, copy, 0);
    stay_connected(&mut world, station, HOME);
    let mine = named("mine", 10);
    write(&mut world, a, &mine);
    stay_connected(&mut world, forger, station);
    let forged = named("forged", 45);
    write(&mut world, forger, &forged);
    world.settle();
    world.pass(Duration::from_secs(3));
    world.crash(forger, 0);
    assert_all_there(&mut world, HOME, &forged);
    stay_connected(&mut world, a, HOME);
    assert_eq!(world.wait(a, Level::Visible), Ok(Answer::Reached));
    for host in [HOME, a] {
        assert_all_there(&mut world, host, &mine);
    }
    assert!(was_renewed(&world, a).is_some(), "it is noticed and told");
}

/// What a station called safe is not lost when its writer is gone and the home has other records of it.
#[test]
fn a_station_writes_again_what_the_home_has_otherwise() {
    let mut world = World::new();
    let (a, station) = (world.add(Role::Client, "ann@a"), world.add(Role::Station, "st@s"));
    life(&mut world, a, 5);
    let up = stay_connected(&mut world, station, HOME);
    let peer = stay_connected(&mut world, a, station);
    write(&mut world, a, &named("early", 3));
    world.settle();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    world.close(up);
    let safe = named("safe", 5);
    write(&mut world, a, &safe);
    world.settle();
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    world.close(peer);
    let clone = world.clone_of(a, copy, 300_000);
    // The writer never comes back.
    world.crash(a, 0);
    stay_connected(&mut world, clone, HOME);
    let others = named("others", 5);
    write(&mut world, clone, &others);
    world.settle();
    stay_connected(&mut world, station, HOME);
    world.pass(Duration::from_secs(3));
    for host in [HOME, station] {
        assert_all_there(&mut world, host, &safe);
        assert_all_there(&mut world, host, &others);
    }
    assert!(world.hosts[station].events.iter().any(|event| matches!(event, Output::Rescued { .. })));
    world.check_tree(HOME);
    world.assert_agrees(station);
}

/// [S-duty] A machine that goes on under another origin answers for what it wrote under the former.
#[test]
fn the_duty_for_contents_outlives_the_origin_under_which_they_were_written() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    let peer = stay_connected(&mut world, a, station);
    let file = world.create(a, ROOT, "film");
    let version = world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Visible), Ok(Answer::Reached));
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(2));
    let copy = world.snapshot(a);
    write(&mut world, a, &named("gone", 100));
    assert_eq!(world.wait(a, Level::Visible), Ok(Answer::Reached));
    world.close(peer);
    world.restore(a, copy, 77);
    write(&mut world, a, &named("fresh", 1));
    stay_connected(&mut world, a, station);
    world.pass(Duration::from_secs(5));
    assert!(was_renewed(&world, a).is_some(), "the copy goes on as another");
    stay_connected(&mut world, a, station);
    world.pass(Duration::from_secs(2));
    assert!(world.hosts[a].replica.lent_to(version).unwrap().is_some(), "still kept");
    world.destroy(station);
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(60));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()), "the home asked for it");
    world.pass(Duration::from_secs(2));
    assert_eq!(world.hosts[a].replica.lent_to(version).unwrap(), None, "and said so");
}

/// A home that is put back to an older copy while a station and a client know later changes.
fn home_put_back(with_station: bool) {
    let mut world = World::new();
    // The copy is of a life of its own, as every opening is.
    let copy = world.snapshot(HOME);
    world.restore(HOME, copy, 3);
    let a = world.add(Role::Client, "ann@a");
    let station = world.add(Role::Station, "st@s");
    let parent = if with_station { station } else { HOME };
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, parent);
    write(&mut world, a, &named("early", 3));
    let edited = world.create(a, ROOT, "edited");
    world.store(a, edited, small("before"));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let lost = named("lost", 5);
    write(&mut world, a, &lost);
    let directory = world.mkdir(a, ROOT, "folder");
    let inside = world.create(a, directory, "inside");
    world.store(a, inside, small("inside"));
    world.store(a, edited, small("after"));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.wait(a, Level::Visible), Ok(Answer::Reached));
    world.restore(HOME, copy, 4);
    // Somebody else writes before those come back who know better, and reaches numbers that were told before.
    let other = world.add(Role::Client, "new@n");
    stay_connected(&mut world, other, HOME);
    let fresh = named("fresh", 30);
    write(&mut world, other, &fresh);
    world.settle();
    for _ in 0..4 {
        for (host, parent) in [(station, HOME), (a, parent)] {
            if !world.has_session(host) {
                stay_connected(&mut world, host, parent);
            }
        }
        world.pass(Duration::from_secs(3));
    }
    assert!(world.hosts[HOME].events.iter().any(|event| matches!(event, Output::WentBack { .. })), "it sees that");
    for host in [HOME, station, a, other] {
        assert_all_there(&mut world, host, &named("early", 3));
        assert_all_there(&mut world, host, &lost);
        assert_all_there(&mut world, host, &fresh);
        let (folder, _) = world.lookup(host, ROOT, "folder").unwrap();
        assert_eq!(world.lookup(host, folder, "inside").unwrap().1.content, small("inside"));
    }
    assert_eq!(world.lookup(HOME, ROOT, "edited").unwrap().1.content, small("after"), "the newer contents stand");
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 40, "and no copies beside what was written again");
    world.check_tree(HOME);
    world.assert_agrees(station);
    // And it goes on.
    write(&mut world, a, &named("later", 2));
    world.pass(Duration::from_secs(3));
    assert_all_there(&mut world, HOME, &named("later", 2));
}

/// [S-home-put-back] What the home lost is written again by those who have it; nobody goes on beside it in silence, and
/// nothing stands still.
#[test]
fn a_home_that_was_put_back_learns_from_its_station() {
    home_put_back(true);
}

#[test]
fn a_home_that_was_put_back_learns_from_its_stations_and_clients() {
    home_put_back(false);
}

/// [S-home-put-back] A station has records of a client that follow others, which the home had and lost.
#[test]
fn a_station_writes_again_what_follows_records_that_its_home_lost() {
    let mut world = World::new();
    let copy = world.snapshot(HOME);
    world.restore(HOME, copy, 3);
    let a = world.add(Role::Client, "ann@a");
    let station = world.add(Role::Station, "st@s");
    stay_connected(&mut world, station, HOME);
    let direct = stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("early", 3));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    write(&mut world, a, &named("lost", 5));
    world.pass(Duration::from_secs(3));
    world.close(direct);
    let line = world.line_of(station);
    world.close(line);
    stay_connected(&mut world, a, station);
    write(&mut world, a, &named("late", 4));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    world.destroy(a);
    world.restore(HOME, copy, 4);
    for _ in 0..4 {
        if !world.has_session(station) {
            stay_connected(&mut world, station, HOME);
        }
        world.pass(Duration::from_secs(3));
    }
    for host in [HOME, station] {
        for prefix in [("early", 3), ("lost", 5), ("late", 4)] {
            assert_all_there(&mut world, host, &named(prefix.0, prefix.1));
        }
    }
    world.assert_agrees(station);
}

/// The simulator found it (seeds 14, 341, 610, 821): the welcome does not speak of an origin that the greeting did not name,
/// and the station took that for a home that had lost its records.
#[test]
fn what_comes_while_a_station_greets_its_home_is_sent() {
    let mut world = World::new();
    let (station, client) = (world.add(Role::Station, "s@s"), world.add(Role::Client, "ann@a"));
    let upper = world.connect(station, HOME);
    world.settle();
    world.connect(client, station);
    world.create(client, FileId::ROOT, "before");
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[station].replica.is_settled(), "nothing is in the log when it greets");
    world.close(upper);
    let again = world.connect(station, HOME);
    world.stall(again, true);
    let file = world.create(client, FileId::ROOT, "meanwhile");
    world.settle();
    world.stall(again, false);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.hosts[HOME].replica.path_of(file).unwrap().as_deref(), Some("/meanwhile"));
    assert!(world.hosts[station].replica.is_settled());
}

/// Two copies of a store whose owner was away, and an older one that is told so only when it comes back.
fn outlived(before: impl FnOnce(&mut World, usize)) -> (World, usize, usize) {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    life(&mut world, a, 5);
    let peer = stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("common", 3));
    world.pass(Duration::from_secs(3));
    world.names(a, ROOT).unwrap();
    world.close(peer);
    before(&mut world, a);
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    let b = world.clone_of(a, copy, 200_003);
    stay_connected(&mut world, b, HOME);
    (world, a, b)
}

/// [S-clone] What an older copy sends before it hears that it is one it writes again, so nobody takes it twice.
#[test]
fn what_an_older_copy_sends_before_it_hears_of_the_other_is_not_taken() {
    let (mut world, a, _) = outlived(|_, _| {});
    let file = world.create(a, ROOT, "film");
    let former = world.store(a, file, big("film"));
    world.store(a, file, big("cut"));
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(5));
    let (_, own) = was_renewed(&world, a).expect("it gives way");
    let (_, inode) = world.lookup(HOME, ROOT, "film").unwrap();
    assert_eq!(inode.version.origin(), own, "not {former}, which it writes again");
    assert_eq!(inode.content, big("cut"));
    assert!(world.hosts[HOME].chunks.contains(&big("cut").root().unwrap()), "the bytes came, too");
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 4, "no copies");
}

/// [S-clone] A directory made before the copy, which the other copy sent, is itself by its name, not what was made again of it.
#[test]
fn what_the_other_copy_sent_keeps_its_name() {
    let mut made = ROOT;
    let (mut world, a, b) = outlived(|world, a| made = world.mkdir(a, ROOT, "album"));
    world.create(b, made, "theirs");
    world.rename(b, (ROOT, "album"), (ROOT, "moved")).unwrap();
    world.pass(Duration::from_secs(5));
    world.create(a, made, "mine");
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(5));
    assert!(was_renewed(&world, a).is_some(), "it gives way");
    world.names(a, ROOT).unwrap();
    assert_eq!(world.names(a, made), world.names(HOME, made), "one directory by one name");
    world.check_tree(HOME);
}

/// Seed 70009090: a client cancels what it wrote over, and is put back to before it did so when its parent has that and not yet what was
/// written over it.
#[test]
fn what_a_later_life_cancelled_is_written_again_by_the_copy_that_has_it() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    world.configure(a, |config| config.message_len_max = 1);
    let line = stay_connected(&mut world, a, HOME);
    world.names(a, ROOT).unwrap();
    let file = world.create(a, ROOT, "film");
    world.store(a, file, small("first"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.close(line);
    let second = world.store(a, file, small("second"));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    let other = world.create(a, ROOT, "other").maker();
    world.store(a, file, small("third"));
    let line = world.connect(a, HOME);
    let has = |world: &World| {
        let origins = world.hosts[HOME].replica.origins().unwrap();
        origins.into_iter().find(|(origin, _)| *origin == second.origin()).unwrap().1.applied
    };
    while has(&world) < other.sequence() {
        assert!(world.step(), "it is sent");
    }
    assert_eq!(has(&world), other.sequence());
    assert_eq!(world.hosts[HOME].replica.inode(file).unwrap().unwrap().content, small("first"));
    world.close(line);
    world.restore(a, copy, 77);
    rejoin(&mut world, &[(a, HOME)]);
    world.pass(Duration::from_secs(30));
    assert_eq!(
        world.lookup(HOME, ROOT, "film").unwrap().1.content,
        small("second"),
        "it is the newest that anybody has"
    );
    world.assert_agrees(a);
}

/// Seed 166307553 of `open-files`: a client built upon what was still on its way home by the station that it left, so that it became a copy
/// there, and a crash took what it had heard of that and a later record that the home has.
#[test]
fn what_became_a_copy_at_the_parent_tells_of_no_other_copy_of_the_store() {
    let mut world = World::new();
    let station = world.add(Role::Station, "s1@s");
    let [ann, ben, cat] = ["ann@a", "ben@b", "cat@c"].map(|label| world.add(Role::Client, label));
    let upper = world.connect(station, HOME);
    world.connect(cat, HOME);
    world.settle();
    let file = world.create(cat, ROOT, "film");
    assert_eq!(world.wait(cat, Level::Stable), Ok(Answer::Reached));
    let [_, line] = [ann, ben].map(|client| world.connect(client, station));
    world.settle();
    for client in [ann, ben] {
        world.names(client, ROOT).unwrap();
    }
    world.close(upper);
    world.store(ann, file, small("seen"));
    assert_eq!(world.wait(ann, Level::Safe), Ok(Answer::Reached));
    assert_eq!(world.lookup(ben, ROOT, "film").unwrap().1.content, small("seen"));
    world.close(line);
    world.store(ben, file, small("upon it"));
    world.pass(Duration::from_secs(3));
    let before = world.snapshot(ben);
    world.create(ben, ROOT, "other");
    let line = world.connect(ben, HOME);
    world.settle();
    world.close(line);
    world.connect(station, HOME);
    world.settle();
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, small("seen"));
    world.restore(ben, before, 77);
    rejoin(&mut world, &[(ben, HOME)]);
    world.pass(Duration::from_secs(30));
    assert_eq!(was_renewed(&world, ben), None);
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 3, "the film, its copy, and what a crash took");
    world.assert_agrees(ben);
}
