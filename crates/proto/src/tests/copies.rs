//! What two copies of one store say of what only one of them wrote.

use super::forking::{assert_all_there, named, stay_connected, was_renewed, write};
use super::put_back::{first_life, rejoin};
use super::world::{HOME, World, big, small};
use crate::testing::MemoryStore;
use crate::{Input, PeerId, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Request};
use wayfs_types::{Content, FileId, Life};

const ROOT: FileId = FileId::ROOT;
const LONG: Duration = Duration::from_secs(600);

/// A client that has written a little, and knows the root.
fn client(world: &mut World) -> (usize, PeerId) {
    let a = world.add(Role::Client, "ann@a");
    world.configure(a, |config| config.life = Life(5));
    let peer = stay_connected(world, a, HOME);
    write(world, a, &named("common", 3));
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    (a, peer)
}

/// Connects as a driver does, and lets no contents go.
fn connect_without_pushes(world: &mut World, host: usize) -> PeerId {
    let mut peer = world.connect(host, HOME);
    for _ in 0..12 {
        world.hold_pushes(peer, true);
        world.settle();
        world.pass(Duration::from_millis(100));
        if world.is_open(peer) {
            return peer;
        }
        peer = world.connect(host, HOME);
    }
    panic!("no session stays");
}

/// [S-clone] Whoever waits for a removal waits for all that was written before it, be it that nothing stands for the removal
/// where it is written again.
#[test]
fn a_wait_for_what_is_not_written_again_waits_for_what_was_before_it() {
    let mut world = World::new();
    let (a, peer) = client(&mut world);
    world.close(peer);
    let copy = world.snapshot(a);
    let b = world.clone_of(a, copy, 200_003);
    stay_connected(&mut world, b, HOME);
    let film = world.create(a, ROOT, "film");
    world.store(a, film, big("film"));
    let scratch = world.create(a, ROOT, "scratch");
    let removal = Change::Unlink { parent: ROOT, name: super::world::name("scratch") };
    let (last, ..) = world.change(a, removal).unwrap();
    assert!(last.sequence() > scratch.maker().sequence());
    let wait = world.request_within(a, Request::Wait { record: Some(last), until: Level::Safe }, LONG);
    let peer = connect_without_pushes(&mut world, a);
    assert_ne!(world.hosts[a].replica.config().origin, last.origin(), "it gave way");
    assert_eq!(world.answer(a, wait), None, "no server has the film");
    world.hold_pushes(peer, false);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.answer(a, wait), Some(Ok(Answer::Reached)));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()));
}

/// [S-clone] The numbers of another copy lie in a gap between two lives of this one: what was written before the gap is not
/// what the parent has.
#[test]
fn what_was_written_before_a_gap_is_not_taken_for_what_another_copy_wrote_in_it() {
    let mut world = World::new();
    let (a, peer) = client(&mut world);
    world.close(peer);
    let copy = world.snapshot(a);
    let mine = named("mine", 15);
    write(&mut world, a, &mine);
    world.pass(Duration::from_secs(3));
    let b = world.clone_of(a, copy, 20_003);
    stay_connected(&mut world, b, HOME);
    let theirs = named("theirs", 2);
    write(&mut world, b, &theirs);
    world.settle();
    world.destroy(b);
    // Its machine starts anew: it goes on far behind what the other copy wrote.
    let store = world.snapshot(a);
    world.restore(a, store, 250_001);
    let later = named("later", 1);
    write(&mut world, a, &later);
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(5));
    for names in [&mine, &theirs, &later] {
        assert_all_there(&mut world, HOME, names);
        assert_all_there(&mut world, a, names);
    }
}

/// [S-clone] A copy does not call safe what the other one wrote in its name.
#[test]
fn a_copy_does_not_vouch_for_what_only_the_other_wrote() {
    let mut world = World::new();
    let (a, peer) = client(&mut world);
    let copy = world.snapshot(a);
    world.hold_pushes(peer, true);
    let film = world.create(a, ROOT, "film");
    let version = world.store(a, film, big("film"));
    world.settle();
    let b = world.clone_of(a, copy, 200_003);
    connect_without_pushes(&mut world, b);
    write(&mut world, b, &named("theirs", 1));
    assert_eq!(world.wait(b, Level::Safe), Ok(Answer::Reached));
    world.lookup(b, ROOT, "film").unwrap();
    let state = world.hosts[b].replica.level(film).unwrap().expect("it was seen");
    assert_eq!(state.version, version);
    assert!(!state.facts.safe.holds(), "no server has it: {state:?}");
}

/// [S-clone] A machine that joined and wrote nothing is copied: its store is empty or not there yet. The simulator found it (seeds 1932
/// and 9402197): both copies began with one number, so that one name stood for two files.
#[test]
fn two_copies_of_an_empty_store_give_no_number_twice() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    world.restore(a, MemoryStore::new(), 20_003);
    let b = world.clone_of(a, MemoryStore::new(), 200_003);
    for host in [a, b] {
        let peer = stay_connected(&mut world, host, HOME);
        world.names(host, ROOT).unwrap();
        world.close(peer);
    }
    let mine = world.create(a, ROOT, "mine");
    let theirs = world.create(b, ROOT, "theirs");
    assert_ne!(mine, theirs, "each its own");
    stay_connected(&mut world, b, HOME);
    assert_eq!(world.wait(b, Level::Stable), Ok(Answer::Reached));
    stay_connected(&mut world, a, HOME);
    // A program that has its file open.
    let mtime = world.wall();
    world.hosts[a].chunks.extend(small("mine").root());
    world.change(a, Change::Store { file: mine, base: mine.maker(), content: small("mine"), mtime }).unwrap();
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.lookup(HOME, ROOT, "mine").unwrap().1.content, small("mine"));
    assert_eq!(world.lookup(HOME, ROOT, "theirs").unwrap().1.content, Content::EMPTY);
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 2, "nothing beside them");
}

/// [S-clone] The simulator showed it (seed 9820825): a file was made, a copy taken that told the home of it, and the file removed where
/// it was made. Making and removing it were cancelled there, as if nobody had heard, and the file stayed.
#[test]
fn what_is_removed_is_not_cancelled_against_what_a_copy_sent() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let up = stay_connected(&mut world, station, HOME);
    let (a, peer) = client(&mut world);
    world.close(peer);
    let file = world.create(a, ROOT, "scratch");
    world.store(a, file, small("scratch"));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    world.change(a, Change::Unlink { parent: ROOT, name: super::world::name("scratch") }).unwrap();
    world.pass(Duration::from_secs(3));
    let b = world.clone_of(a, copy, 200_003);
    let line = stay_connected(&mut world, b, station);
    assert_eq!(world.wait(b, Level::Stable), Ok(Answer::Reached));
    assert_eq!(world.lookup(HOME, ROOT, "scratch").unwrap().0, file, "the copy told of it");
    for line in [line, up] {
        world.close(line);
    }
    world.destroy(b);
    stay_connected(&mut world, a, HOME);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert!(was_renewed(&world, a).is_none(), "the copy wrote nothing of its own");
    assert!(world.lookup(HOME, ROOT, "scratch").is_err(), "it was removed");
}

/// The simulator found it (seed 1040): a station sent what followed a gap in which the home had another copy's records, and wrote it
/// again when it saw those.
#[test]
fn a_station_sends_nothing_of_a_history_before_it_knows_whose_the_homes_is() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let up = stay_connected(&mut world, station, HOME);
    let a = world.add(Role::Client, "ann@a");
    world.configure(a, |config| config.life = Life(5));
    let peer = stay_connected(&mut world, a, station);
    write(&mut world, a, &named("common", 3));
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    world.close(up);
    write(&mut world, a, &named("early", 2));
    world.pass(Duration::from_secs(3));
    world.close(peer);
    let b = world.clone_of(a, copy, 20_003);
    stay_connected(&mut world, b, HOME);
    write(&mut world, b, &named("theirs", 2));
    world.pass(Duration::from_secs(3));
    world.destroy(b);
    // It goes on behind what the other copy wrote, and its station has both ends of the gap.
    let store = world.snapshot(a);
    world.restore(a, store, 250_001);
    stay_connected(&mut world, a, station);
    let long: Vec<String> = named("long", 3).into_iter().map(|text| text.repeat(20)).collect();
    write(&mut world, a, &long);
    world.pass(Duration::from_secs(3));
    let up = world.connect(station, HOME);
    world.stall(up, true);
    world.step_up(up, 1);
    world.pass(Duration::from_millis(10));
    world.step_down(up);
    world.pass(Duration::from_secs(3));
    world.stall(up, false);
    world.pass(Duration::from_secs(3));
    assert!(world.is_open(up), "{:?}", world.hosts[station].events);
    if !world.has_session(a) {
        stay_connected(&mut world, a, station);
    }
    world.pass(Duration::from_secs(3));
    for names in [named("early", 2), named("theirs", 2), long] {
        assert_all_there(&mut world, HOME, &names);
        assert_all_there(&mut world, station, &names);
    }
    let there = world.names(HOME, ROOT).unwrap();
    assert_eq!(there.len(), 10, "nothing beside them: {there:?}");
}

/// Seed 9304948: a client saw its own records at a station, which wrote them again by its own name, since the home had another copy's.
/// The client forked and wrote them again, too, and its listings waited for those by its former name.
#[test]
fn nobody_waits_for_what_was_seen_by_a_name_that_was_given_up() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let up = stay_connected(&mut world, station, HOME);
    let a = world.add(Role::Client, "ann@a");
    world.configure(a, |config| config.life = Life(5));
    let peer = stay_connected(&mut world, a, station);
    write(&mut world, a, &named("common", 3));
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    world.close(up);
    write(&mut world, a, &named("mine", 2));
    world.pass(Duration::from_secs(3));
    world.close(peer);
    // It goes on behind what the other copy will write.
    let store = world.snapshot(a);
    world.restore(a, store, 250_001);
    let peer = stay_connected(&mut world, a, station);
    write(&mut world, a, &named("later", 2));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    world.names(a, ROOT).unwrap();
    world.close(peer);
    let b = world.clone_of(a, copy, 20_003);
    stay_connected(&mut world, b, HOME);
    write(&mut world, b, &named("theirs", 2));
    world.pass(Duration::from_secs(3));
    stay_connected(&mut world, station, HOME);
    world.pass(Duration::from_secs(3));
    stay_connected(&mut world, a, station);
    world.pass(Duration::from_secs(10));
    assert!(was_renewed(&world, a).is_some(), "it gave way");
    for host in [HOME, a] {
        for names in [named("mine", 2), named("later", 2), named("theirs", 2)] {
            assert_all_there(&mut world, host, &names);
        }
        assert_eq!(world.names(host, ROOT).unwrap().len(), 9, "host {host}");
    }
}

/// The simulator found it (seed 715): a home called stable what it had never heard of, since another copy had written numbers beyond.
#[test]
fn a_home_does_not_vouch_for_what_another_copy_left_out() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let up = stay_connected(&mut world, station, HOME);
    let a = world.add(Role::Client, "ann@a");
    world.configure(a, |config| config.life = Life(5));
    let peer = stay_connected(&mut world, a, station);
    write(&mut world, a, &named("common", 3));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    world.close(up);
    let film = world.create(a, ROOT, "film");
    let version = world.store(a, film, big("film"));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    world.close(peer);
    let b = world.clone_of(a, copy, 20_003);
    stay_connected(&mut world, b, HOME);
    write(&mut world, b, &named("theirs", 2));
    world.pass(Duration::from_secs(3));
    let up = world.connect(station, HOME);
    world.stall(up, true);
    world.step_up(up, 1);
    world.pass(Duration::from_millis(10));
    world.step_down(up);
    let state = world.hosts[station].replica.level(film).unwrap().expect("it is shown");
    assert_eq!(state.version, version);
    assert!(!state.facts.stable.holds(), "the mark is about what the other copy wrote: {state:?}");
    world.stall(up, false);
    world.settle();
    assert!(world.is_open(up));
    assert_eq!(world.hosts[station].replica.contents.stable_alone(version), None, "the home has nothing of it");
    let (file, inode) = world.lookup(HOME, ROOT, "film").unwrap();
    assert_eq!(inode.content, big("film"), "the station wrote it again");
    assert_eq!(world.hosts[station].replica.holder(file, inode.version), Ok(crate::Holder::Here), "and keeps it");
}

/// The simulator found it (seed 2011296): a client was put back, and crashed before it met anybody, so that it left out numbers twice.
/// What it had made before, and a station had that was away, lies in the first gap, and was taken for what the home has.
#[test]
fn what_lies_in_an_older_gap_of_numbers_is_not_the_homes() {
    let mut world = World::new();
    let station = world.add(Role::Station, "st@s");
    let up = stay_connected(&mut world, station, HOME);
    let a = world.add(Role::Client, "ann@a");
    world.configure(a, |config| config.life = Life(5));
    let peer = stay_connected(&mut world, a, station);
    write(&mut world, a, &named("common", 3));
    world.names(a, ROOT).unwrap();
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(a);
    world.close(up);
    write(&mut world, a, &named("early", 2));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached), "its station has them");
    world.close(peer);
    world.restore(a, copy, 20_003);
    write(&mut world, a, &named("second", 1));
    world.pass(Duration::from_secs(3));
    let store = world.snapshot(a);
    world.restore(a, store, 30_001);
    write(&mut world, a, &named("third", 1));
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(3));
    world.connect(station, HOME);
    world.pass(Duration::from_secs(3));
    stay_connected(&mut world, station, HOME);
    world.pass(Duration::from_secs(3));
    for host in [HOME, station] {
        for names in [named("early", 2), named("second", 1), named("third", 1)] {
            assert_all_there(&mut world, host, &names);
        }
        assert_eq!(world.names(host, ROOT).unwrap().len(), 7, "nothing beside them");
    }
}

/// The original is offline and alone has what it wrote; its copy never had it. A copy that is far behind goes on as another member
/// at once; one that is only a few numbers behind takes these for what a crash took from it, and keeps the number.
///
/// ```text
///   original 4   record 4.9, and its bytes not yet ─▶ offline ……………………………………………… comes back
///   copy 4 or 5  hears of 4.9, does not have it ─▶ asked: gone ─┐                        │
///   home         nobody comes under 4 who has it ◀──────────────┘─ 20 s ─▶ declared lost ─▶ taken back
/// ```
///
/// The home cannot tell this copy from a store that was put back, whose former disk is no more: then nobody would ever come
/// under the former number, so its word counts.
fn is_taken_back_when_the_original_comes(behind: usize) {
    let mut world = World::new();
    let (a, _) = client(&mut world);
    let copy = world.snapshot(a);
    let line = world.line_of(a);
    write(&mut world, a, &named("more", behind));
    world.hold_pushes(line, true);
    let film = world.create(a, ROOT, "film");
    world.store(a, film, big("film"));
    world.pass(Duration::from_secs(3));
    world.close(line);
    let other = world.clone_of(a, copy, 200_003);
    world.hosts[other].chunks.clear();
    stay_connected(&mut world, other, HOME);
    world.pass(Duration::from_secs(150));
    let lost = world.hosts[HOME].replica.lost_contents(10).unwrap();
    assert_eq!(lost.len(), 1, "nobody who will come by that number has it: {lost:?}");
    assert!(world.hosts[a].chunks.contains(&big("film").root().unwrap()), "the original keeps it");
    stay_connected(&mut world, a, HOME);
    world.pass(Duration::from_secs(30));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()), "it brings it");
    assert_eq!(world.hosts[HOME].replica.lost_contents(10).unwrap(), [], "and nothing is said to be lost");
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("film"));
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 4 + behind, "there is no copy beside it");
}

#[test]
fn what_a_copy_that_goes_on_as_another_says_is_gone_is_taken_back() {
    is_taken_back_when_the_original_comes(100);
}

#[test]
fn what_a_copy_has_less_than_its_number_had_is_looked_for_and_taken_back() {
    is_taken_back_when_the_original_comes(0);
}

/// [S-clone] Seed 174340133 with `clone`: a copy at a station was a few records behind, took these for what a crash had taken from it, and said
/// of contents that it never had that they are gone. The home called them safe while their writer, which it had on record, was bringing them.
#[test]
fn a_copy_does_not_end_the_wait_for_what_the_other_is_bringing() {
    let mut world = World::new();
    let (a, _) = client(&mut world);
    let station = world.add(Role::Station, "s@s");
    stay_connected(&mut world, station, HOME);
    let copy = world.snapshot(a);
    let line = world.line_of(a);
    world.hold_pushes(line, true);
    let film = world.create(a, ROOT, "film");
    let version = world.store(a, film, big("film"));
    world.pass(Duration::from_secs(3));
    let other = world.clone_of(a, copy, 200_003);
    world.hosts[other].chunks.clear();
    stay_connected(&mut world, other, station);
    assert_eq!(world.hosts[other].replica.config().origin, version.origin(), "it does not know yet that it is a copy");
    world.input(other, Input::Sought { file: film, version, content: big("film"), is_here: false });
    world.pass(Duration::from_secs(3));
    let is_safe = |world: &World| world.hosts[a].replica.progress().safe_through >= version.sequence();
    assert!(!is_safe(&world), "no server has it");
    world.hold_pushes(line, false);
    world.pass(Duration::from_secs(3));
    assert!(is_safe(&world));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()));
    assert_eq!(world.hosts[HOME].replica.lost_contents(10).unwrap(), []);
}

/// Seed 23200369 with `clone`: a station had heard of the records of one copy, whose numbers lie behind those of the other, and took that
/// one's for known as well. When the home was put back, and had got these first, it put in their place what it had had before.
#[test]
fn what_one_copy_wrote_is_not_known_since_the_other_wrote_later_numbers() {
    let mut world = first_life();
    let (a, peer) = client(&mut world);
    let (station, c) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "carl@c"));
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, c, HOME);
    let (file, _) = world.lookup(c, ROOT, "common-0").unwrap();
    world.pass(Duration::from_secs(3));
    let (store, copy) = (world.snapshot(a), world.snapshot(HOME));
    world.close(peer);
    let early = world.store(a, file, small("of one"));
    let b = world.clone_of(a, store, 200_003);
    stay_connected(&mut world, b, HOME);
    write(&mut world, b, &named("other", 1));
    world.store(c, file, small("of carl"));
    world.pass(Duration::from_secs(3));
    let known = world.hosts[station].replica.origins().unwrap();
    let (_, image) = known.into_iter().find(|(origin, _)| *origin == early.origin()).unwrap();
    assert!(image.applied > early.sequence() && !image.has(early.sequence()), "{image:?}");
    for gone in [b, c] {
        world.destroy(gone);
    }
    world.restore(HOME, copy, 7);
    rejoin(&mut world, &[(a, HOME)]);
    assert_eq!(world.lookup(HOME, ROOT, "common-0").unwrap().1.content, small("of one"));
    rejoin(&mut world, &[(a, HOME), (station, HOME)]);
    let names = world.names(HOME, ROOT).unwrap();
    let held: Vec<_> = names.iter().map(|name| world.lookup(HOME, ROOT, name).unwrap().1.content.clone()).collect();
    for text in ["of one", "of carl"] {
        assert!(held.contains(&small(text)), "{text} is lost: {names:?} {held:?}");
    }
    world.check_tree(HOME);
}

/// Two copies of a client's store wrote at the home, the first one gives way and has nothing to write again, and then the home is put
/// back to before both. Nobody else knows of what it had written.
fn gives_way_and_then_its_home_is_put_back(by_way_of_a_station: bool) {
    let mut world = first_life();
    let (a, peer) = client(&mut world);
    let station = world.add(Role::Station, "st@s");
    world.settle();
    let (store, copy) = (world.snapshot(a), world.snapshot(HOME));
    let mine = world.create(a, ROOT, "mine");
    world.store(a, mine, big("mine"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.close(peer);
    let b = world.clone_of(a, store, 200_003);
    stay_connected(&mut world, b, HOME);
    write(&mut world, b, &named("other", 1));
    world.pass(Duration::from_secs(3));
    let former = world.hosts[a].replica.config().origin;
    // Its line is gone as soon as it has another number: the home says nothing to it under that.
    let peer = world.connect(a, HOME);
    world.settle();
    let renewed = world.hosts[a].replica.config().origin;
    assert_ne!(renewed, former, "it gives way");
    assert!(!world.is_open(peer));
    world.destroy(b);
    world.restore(HOME, copy, 7);
    world.hosts[HOME].chunks.clear();
    assert!(world.admit_again(HOME, a, renewed));
    let parent = if by_way_of_a_station { station } else { HOME };
    rejoin(&mut world, &[(station, HOME), (a, parent)]);
    world.pass(Duration::from_secs(40));
    assert_eq!(world.lookup(HOME, ROOT, "mine").unwrap().1.content, big("mine"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert!(world.hosts[HOME].chunks.contains(&big("mine").root().unwrap()), "its bytes are there, too");
    world.check_tree(HOME);
    world.assert_agrees(a);
}

/// Seed 121000552 of `home-back` with `clone`.
#[test]
fn what_was_written_under_a_number_that_a_copy_goes_on_under_is_written_again() {
    gives_way_and_then_its_home_is_put_back(false);
}

#[test]
fn what_was_written_under_a_number_that_a_copy_goes_on_under_is_written_again_by_way_of_a_station() {
    gives_way_and_then_its_home_is_put_back(true);
}
