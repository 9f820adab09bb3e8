//! A home that was put back to an older copy: what it must not give twice, and who comes back to it by which way.

use super::forking::{assert_all_there, named, stay_connected, was_renewed, write};
use super::world::{HOME, World, big, name as path_name, small};
use crate::{Output, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level};
use wayfs_types::{FileId, Life, OriginId};

const ROOT: FileId = FileId::ROOT;

/// A world whose home is in its first life, as a new volume's is.
pub(super) fn first_life() -> World {
    let mut world = World::new();
    let fresh = crate::testing::MemoryStore::new();
    world.restore(HOME, fresh, 3);
    world.settle();
    world
}

fn admit(world: &mut World, label: &str) -> Vec<OriginId> {
    let mut origins = Vec::new();
    for number in 0..5 {
        let host = world.add(Role::Client, &format!("{label}@{number}"));
        origins.push(world.hosts[host].origin);
    }
    // Whoever was admitted is told so when it is durable.
    world.settle();
    origins
}

/// [S-home-put-back] The copy does not know whom the home admitted after it was made.
#[test]
fn a_home_put_back_gives_no_origin_a_second_time() {
    for life in 4..40 {
        let mut world = first_life();
        let early = world.add(Role::Client, "early@e");
        world.settle();
        let copy = world.snapshot(HOME);
        let later = admit(&mut world, "later");
        assert_eq!(later[0].raw(), world.hosts[early].origin.raw() + 1, "a first life counts");
        world.restore(HOME, copy, life);
        let fresh = admit(&mut world, "fresh");
        assert!(fresh.iter().all(|origin| !later.contains(origin)), "{later:?} {fresh:?}");
        let mut all = fresh.clone();
        all.dedup();
        assert_eq!(all.len(), 5, "nor one of them twice: {fresh:?}");
    }
}

/// A crash is a life more, and nothing of what was given is forgotten: what is given next is new, too.
#[test]
fn a_home_that_crashed_gives_no_origin_a_second_time() {
    let mut world = first_life();
    let mut given = vec![];
    for life in 4..30 {
        for _ in 0..3 {
            let host = world.add(Role::Client, &format!("l{life}@c"));
            given.push(world.hosts[host].origin);
        }
        world.settle();
        let store = world.snapshot(HOME);
        world.restore(HOME, store, life);
    }
    let count = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), count);
}

/// Claims 101: a client that was offline while its home was put back comes back by way of a station.
fn comes_back_by_way_of_a_station(was_connected: bool) {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("early", 3));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    write(&mut world, a, &named("lost", 5));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.names(a, FileId::ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    if !was_connected {
        world.close(line);
        write(&mut world, a, &named("offline", 2));
    }
    world.restore(HOME, copy, 4);
    stay_connected(&mut world, station, HOME);
    world.pass(Duration::from_secs(3));
    for _ in 0..6 {
        if !world.has_session(a) {
            world.connect(a, station);
        }
        world.pass(Duration::from_secs(3));
    }
    write(&mut world, a, &named("later", 2));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached), "it does not catch up for ever");
    let mut all = [named("early", 3), named("lost", 5), named("later", 2)].concat();
    if !was_connected {
        all.extend(named("offline", 2));
    }
    world.pass(Duration::from_secs(3));
    for host in [HOME, station, a] {
        assert_all_there(&mut world, host, &all);
        assert_eq!(world.names(host, FileId::ROOT).unwrap().len(), all.len(), "no copies at {host}");
    }
    world.check_tree(HOME);
    world.assert_agrees(a);
}

/// [S-home-put-back]
#[test]
fn a_client_that_was_offline_comes_back_by_way_of_a_station() {
    comes_back_by_way_of_a_station(false);
}

#[test]
fn a_client_that_was_connected_comes_back_by_way_of_a_station() {
    comes_back_by_way_of_a_station(true);
}

/// Lets sessions begin again whenever they end, each with the same parent.
pub(super) fn rejoin(world: &mut World, pairs: &[(usize, usize)]) {
    for _ in 0..6 {
        for (child, parent) in pairs {
            if !world.has_session(*child) {
                world.connect(*child, *parent);
            }
        }
        world.pass(Duration::from_secs(3));
    }
}

/// The same, and no contents go anywhere before `let_go`.
pub(super) fn rejoin_without_contents(world: &mut World, pairs: &[(usize, usize)]) {
    for _ in 0..6 {
        for (child, parent) in pairs {
            if !world.has_session(*child) {
                let line = world.connect(*child, *parent);
                world.hold_pushes(line, true);
            }
        }
        world.pass(Duration::from_secs(1));
    }
}

pub(super) fn let_go(world: &mut World, pairs: &[(usize, usize)]) {
    for (child, _) in pairs {
        let line = world.line_of(*child);
        world.hold_pushes(line, false);
    }
}

/// What one member of a station makes of another's file while their home is away, which then is put back to before that file
/// was. The one who made it does not come back.
fn goes_on_with_a_lost_file(change: impl FnOnce(&mut World, usize, FileId)) -> World {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let up = stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, a, station);
    stay_connected(&mut world, b, station);
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let file = world.create(a, ROOT, "made");
    world.store(a, file, small("first"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.names(b, ROOT).unwrap();
    world.close(up);
    change(&mut world, b, file);
    world.pass(Duration::from_secs(3));
    world.close(line);
    world.restore(HOME, copy, 4);
    rejoin(&mut world, &[(station, HOME), (b, station)]);
    world.check_tree(HOME);
    world.assert_agrees(station);
    world
}

/// Claims 10103: the station wrote the rename again before the file that it is about.
#[test]
fn a_lost_file_that_was_renamed_meanwhile_has_its_new_name() {
    let mut world = goes_on_with_a_lost_file(|world, b, _| {
        world.rename(b, (ROOT, "made"), (ROOT, "renamed")).unwrap();
    });
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["renamed"]);
    assert_eq!(world.lookup(HOME, ROOT, "renamed").unwrap().1.content, small("first"));
}

/// Claims 10003.
#[test]
fn a_lost_file_that_was_written_over_meanwhile_has_its_newer_contents() {
    let mut world = goes_on_with_a_lost_file(|world, b, file| {
        world.store(b, file, small("second"));
    });
    assert_eq!(world.lookup(HOME, ROOT, "made").unwrap().1.content, small("second"));
}

/// Claims 10103: a client that saw at a station what the home lost, and goes to the home itself.
fn saw_what_is_lost_and_moves(wrote: bool) {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, station);
    stay_connected(&mut world, b, station);
    write(&mut world, a, &named("early", 3));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let (edited, _) = world.lookup(b, ROOT, "early-0").unwrap();
    world.store(a, edited, small("after"));
    write(&mut world, a, &named("lost", 3));
    if wrote {
        write(&mut world, b, &named("own", 2));
    }
    world.pass(Duration::from_secs(3));
    world.names(b, ROOT).unwrap();
    world.lookup(b, ROOT, "early-0").unwrap();
    world.restore(HOME, copy, 4);
    let line = world.line_of(b);
    world.close(line);
    rejoin(&mut world, &[(b, HOME), (station, HOME), (a, station)]);
    write(&mut world, a, &named("later", 2));
    rejoin(&mut world, &[(b, HOME), (station, HOME), (a, station)]);
    let mut all = [vec!["early-1".to_owned(), "early-2".to_owned()], named("lost", 3), named("later", 2)].concat();
    if wrote {
        all.extend(named("own", 2));
    }
    for host in [HOME, station, a, b] {
        assert_all_there(&mut world, host, &all);
        assert_eq!(world.lookup(host, ROOT, "early-0").unwrap().1.content, small("after"), "host {host}");
        assert_eq!(world.names(host, ROOT).unwrap().len(), all.len() + 1, "no copies at {host}");
    }
    world.assert_agrees(b);
}

#[test]
fn a_client_that_saw_what_is_lost_does_not_wait_for_it_elsewhere() {
    saw_what_is_lost_and_moves(false);
}

#[test]
fn a_client_that_lost_records_of_its_own_does_not_wait_for_those_of_others() {
    saw_what_is_lost_and_moves(true);
}

/// [S-home-put-back]: a client without a station knows what it removed itself.
#[test]
fn what_a_client_removed_goes_again() {
    let mut world = first_life();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("early", 4));
    let directory = world.mkdir(a, ROOT, "directory");
    world.create(a, directory, "within");
    let (edited, _) = world.lookup(a, ROOT, "early-2").unwrap();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    for name in ["early-0", "early-1", "early-2"] {
        world.change(a, Change::Unlink { parent: ROOT, name: path_name(name) }).unwrap();
    }
    world.change(a, Change::Unlink { parent: directory, name: path_name("within") }).unwrap();
    world.change(a, Change::Rmdir { parent: ROOT, name: path_name("directory") }).unwrap();
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    let line = world.line_of(a);
    world.close(line);
    world.restore(HOME, copy, 4);
    stay_connected(&mut world, b, HOME);
    world.names(b, ROOT).unwrap();
    world.store(b, edited, small("written since"));
    world.pass(Duration::from_secs(3));
    rejoin(&mut world, &[(a, HOME), (b, HOME)]);
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["early-2", "early-3"], "what was written since stays");
    world.check_tree(HOME);
    for host in [a, b] {
        world.assert_agrees(host);
    }
}

/// Seed 2789 of `home-back`: what a client had moved, and then removed, stands under its first name in the copy, and came back.
#[test]
fn what_a_client_moved_and_removed_goes_again() {
    let mut world = first_life();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("early", 4));
    let (edited, _) = world.lookup(a, ROOT, "early-0").unwrap();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    for number in [0, 1, 3] {
        world.rename(a, (ROOT, &format!("early-{number}")), (ROOT, &format!("moved-{number}"))).unwrap();
    }
    world.store(a, edited, small("later"));
    for number in [0, 1, 3] {
        world.change(a, Change::Unlink { parent: ROOT, name: path_name(&format!("moved-{number}")) }).unwrap();
    }
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    let line = world.line_of(a);
    world.close(line);
    world.restore(HOME, copy, 4);
    stay_connected(&mut world, b, HOME);
    world.names(b, ROOT).unwrap();
    world.rename(b, (ROOT, "early-3"), (ROOT, "of-bob")).unwrap();
    world.pass(Duration::from_secs(3));
    rejoin(&mut world, &[(a, HOME), (b, HOME)]);
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["early-2", "of-bob"], "what was moved since stays");
    world.check_tree(HOME);
    for host in [a, b] {
        world.assert_agrees(host);
    }
}

fn is_seek(output: &Output) -> bool {
    matches!(output, Output::Seek { .. })
}

/// Seed 84 of `home-back`: the home lost a record whose contents its writer had let go.
#[test]
fn a_client_answers_again_only_for_contents_that_it_has() {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    for text in ["kept", "let go"] {
        let file = world.create(a, ROOT, text);
        world.store(a, file, big(text));
    }
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    let root = big("let go").root().unwrap();
    assert!(world.hosts[a].chunks.remove(&root), "its cache needed the room");
    world.restore(HOME, copy, 4);
    world.hosts[HOME].chunks.clear();
    // Seed 125: sessions begin before its driver has looked.
    world.hosts[a].holds_seeks = true;
    rejoin(&mut world, &[(a, HOME)]);
    world.hosts[a].holds_seeks = false;
    let (held, events): (Vec<Output>, Vec<Output>) =
        std::mem::take(&mut world.hosts[a].events).into_iter().partition(is_seek);
    world.hosts[a].events = events;
    for output in held {
        world.output(a, output);
    }
    world.pass(Duration::from_secs(150));
    assert!(world.hosts[HOME].chunks.contains(&big("kept").root().unwrap()));
    assert_eq!(world.lookup(HOME, ROOT, "kept").unwrap().1.content, big("kept"));
    let is_declared = |event: &Output| matches!(event, Output::Lost { .. });
    assert!(world.hosts[HOME].events.iter().any(is_declared), "nobody has it, and that is said");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached), "nothing waits for it");
}

/// Seed 26 of `home-back`: a member that took another number after the copy was made goes on by itself.
#[test]
fn a_member_whose_number_the_home_forgot_has_it_again() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    world.configure(a, |config| config.life = Life(5));
    stay_connected(&mut world, a, HOME);
    let former = world.hosts[a].origin;
    write(&mut world, a, &named("early", 2));
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let (copy, store) = (world.snapshot(HOME), world.snapshot(a));
    // A second one of it runs, and one of the two takes a number of which the copy knows nothing.
    let twin = world.clone_of(a, store, 9);
    rejoin(&mut world, &[(twin, HOME), (station, HOME)]);
    write(&mut world, twin, &named("again", 2));
    rejoin(&mut world, &[(a, HOME)]);
    rejoin(&mut world, &[(twin, HOME)]);
    let origin = |world: &World, host: usize| world.hosts[host].replica.config().origin;
    let renewed: Vec<usize> = [a, twin].into_iter().filter(|host| origin(&world, *host) != former).collect();
    assert_eq!(renewed.len(), 1, "one of them is another member now");
    let (member, now) = (renewed[0], origin(&world, renewed[0]));
    write(&mut world, member, &named("lost", 2));
    world.pass(Duration::from_secs(3));
    world.restore(HOME, copy, 4);
    assert!(!world.admit_again(HOME, HOME, now), "under the home's own key there is no other member");
    let shown = world.hosts[member].replica.admission().unwrap();
    assert!(shown.is_some(), "it keeps what the home signed");
    for shown in [None, shown] {
        let (time, wall, node) = (world.now, world.wall(), world.hosts[station].replica.config().node);
        let done = world.hosts[HOME].replica.admit_again(time, wall, node, now, shown);
        assert_eq!(done, Ok(false), "another member does not get it");
    }
    assert!(world.admit_again(HOME, member, now));
    assert!(!world.admit_again(HOME, member, now), "it has it");
    rejoin(&mut world, &[(member, HOME), (station, HOME)]);
    write(&mut world, member, &named("later", 2));
    rejoin(&mut world, &[(member, HOME), (station, HOME)]);
    let all = [named("early", 2), named("again", 2), named("lost", 2), named("later", 2)].concat();
    assert_all_there(&mut world, HOME, &all);
    assert_eq!(world.wait(member, Level::Stable), Ok(Answer::Reached));
}

/// [S-home-put-back] [S-one-account]: contents that a client had handed to a station, of a version that the home lost, come home by the name
/// under which it is written again, and nobody waits for them by the one that is lost.
#[test]
fn what_was_lent_and_is_lost_is_waited_for_by_its_new_name_only() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, station);
    world.names(a, ROOT).unwrap();
    write(&mut world, a, &named("early", 3));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("rough cut"));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    assert!(!world.hosts[HOME].chunks.contains(&big("film").root().unwrap()), "it is at the station only");
    world.restore(HOME, copy, 9);
    rejoin(&mut world, &[(station, HOME), (a, station)]);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()));
    for host in [HOME, station, a] {
        let ledger = world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "host {host}: {ledger:?}");
    }
}

/// Seed 9000233: a server's store has no name before its first child comes. One that is put back to before that gives itself
/// another, and its children come with the one that it had.
fn put_back_to_before_anybody_came(has_station: bool) {
    let mut world = first_life();
    let (station, a) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    world.settle();
    let copy = world.snapshot(HOME);
    world.pass(Duration::from_secs(1));
    let parent = if has_station { station } else { HOME };
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, parent);
    write(&mut world, a, &named("lost", 3));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.restore(HOME, copy, 4);
    world.pass(Duration::from_secs(1));
    rejoin(&mut world, &[(station, HOME), (a, parent)]);
    let says_so = |event: &Output| matches!(event, Output::WentBack { .. });
    assert!(world.hosts[HOME].events.iter().any(says_so), "it is told that it was put back");
    for host in [HOME, station, a] {
        assert!(host == HOME || world.has_session(host), "host {host} goes on");
        assert_all_there(&mut world, host, &named("lost", 3));
        assert_eq!(world.names(host, ROOT).unwrap().len(), 3, "no copies at {host}");
    }
    world.assert_agrees(a);
}

#[test]
fn a_home_put_back_to_before_anybody_came_hears_so_from_a_station() {
    put_back_to_before_anybody_came(true);
}

#[test]
fn a_home_put_back_to_before_anybody_came_hears_so_from_a_client() {
    put_back_to_before_anybody_came(false);
}

/// Seed 9606932: a home was put back, and another copy of a client's store wrote there before that client was back. It heard of its
/// fork, and wrote again what nobody had confirmed only, not what the home had lost.
#[test]
fn a_client_that_forks_writes_what_a_home_that_was_put_back_lost_again() {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    world.configure(a, |config| config.life = Life(5));
    let line = stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("common", 3));
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    write(&mut world, a, &named("kept", 2));
    world.pass(Duration::from_secs(3));
    let homes = world.snapshot(HOME);
    write(&mut world, a, &named("lost", 2));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.close(line);
    world.restore(HOME, homes, 4);
    let b = world.clone_of(a, copy, 200_003);
    stay_connected(&mut world, b, HOME);
    write(&mut world, b, &named("theirs", 2));
    world.pass(Duration::from_secs(3));
    assert_eq!(was_renewed(&world, b), None, "nobody has told it of the other");
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(30));
    for names in [named("common", 3), named("kept", 2), named("lost", 2), named("theirs", 2)] {
        assert_all_there(&mut world, HOME, &names);
    }
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 9, "nothing beside them");
}

/// Seeds 9301139 and 9400216: a station has to give up its own number for what it wrote since the copy that it was put back to, and
/// hears by the same welcome that the home was put back, too.
#[test]
fn a_station_that_was_put_back_takes_over_the_state_of_a_home_that_was_put_back() {
    let mut world = first_life();
    let (station, a) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, HOME);
    write(&mut world, a, &named("early", 2));
    world.pass(Duration::from_secs(3));
    let older = world.snapshot(HOME);
    write(&mut world, a, &named("lost", 3));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    let old = world.snapshot(station);
    world.destroy(a);
    world.restore(HOME, older, 4);
    rejoin(&mut world, &[(station, HOME)]);
    let all = [named("early", 2), named("lost", 3)].concat();
    assert_all_there(&mut world, HOME, &all);
    world.restore(station, old, 5);
    rejoin(&mut world, &[(station, HOME)]);
    assert!(world.has_session(station), "its session stays");
    for host in [HOME, station] {
        assert_all_there(&mut world, host, &all);
        assert_eq!(world.names(host, ROOT).unwrap().len(), all.len(), "no copies at {host}");
    }
    world.assert_agrees(station);
}
