//! A home that was put back to an older copy: who is asked for the bytes of what it names, and when it says that nobody has them.

use super::forking::stay_connected;
use super::put_back::{first_life, rejoin};
use super::world::{HOME, World, big, small};
use crate::{Input, Ledger, Output, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, Level};
use wayfs_types::{Content, FileId, RecordId};
use wayfs_wire::{HeldVersion, LentVersion, Message, Up, encode};

const ROOT: FileId = FileId::ROOT;
/// Long enough for all who are there to be asked.
pub(super) const ASKED: Duration = Duration::from_secs(150);

pub(super) fn let_go(world: &mut World, host: usize, content: &Content) {
    assert!(world.hosts[host].chunks.remove(&content.root().unwrap()), "its cache needed the room");
}

pub(super) fn is_declared(world: &World) -> bool {
    world.hosts[HOME].events.iter().any(|event| matches!(event, Output::Lost { .. }))
}

/// Seed 30 of `home-back`: the copy has a record whose contents came after it was made. Their writer had let them go, since they were
/// stable, and goes on as another member: its former number has them on record, and nobody will ever come under that.
#[test]
fn what_a_writer_has_let_go_is_not_waited_for_under_its_former_number() {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    let line = stay_connected(&mut world, a, HOME);
    world.hold_pushes(line, true);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("first"));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    world.hold_pushes(line, false);
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    let other = world.create(a, ROOT, "other");
    world.store(a, other, big("second"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    let_go(&mut world, a, &big("first"));
    world.restore(HOME, copy, 4);
    world.hosts[HOME].chunks.clear();
    rejoin(&mut world, &[(a, HOME)]);
    world.pass(ASKED);
    assert!(world.hosts[HOME].chunks.contains(&big("second").root().unwrap()), "it is written again");
    assert!(is_declared(&world), "what nobody has is said to be lost");
    assert!(world.hosts[HOME].replica.ledger().unwrap().home_lacks.is_nothing(), "and nobody waits for it");
}

/// A station writes a lost file again whose bytes it never had.
fn written_again_by_its_station(is_read: bool) -> World {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let (a, reader) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "ben@b"));
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, HOME);
    let line = stay_connected(&mut world, reader, HOME);
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    if is_read {
        world.hosts[reader].chunks.insert(big("film").root().unwrap());
    }
    world.destroy(a);
    world.close(line);
    world.restore(HOME, copy, 4);
    world.hosts[HOME].chunks.clear();
    rejoin(&mut world, &[(station, HOME), (reader, HOME)]);
    world.pass(ASKED);
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("film"));
    world
}

/// Seed 349 of `home-back`.
#[test]
fn what_a_station_wrote_again_and_only_a_reader_has_comes_home() {
    let world = written_again_by_its_station(true);
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()), "the reader gives it");
    assert!(!is_declared(&world));
}

#[test]
fn what_a_station_wrote_again_and_nobody_has_is_declared_lost() {
    let world = written_again_by_its_station(false);
    assert!(is_declared(&world));
    assert!(world.hosts[HOME].replica.ledger().unwrap().home_lacks.is_nothing());
}

/// Seed 125 of `home-back`: what a client wrote again is found in its cache when contents of later records are on their way.
#[test]
fn what_is_found_after_later_contents_went_is_pushed_too() {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    world.configure(a, |config| (config.records_per_message, config.records_in_flight_max) = (1, 1));
    let line = stay_connected(&mut world, a, HOME);
    let copy = world.snapshot(HOME);
    for (name, content) in [("one", big("first")), ("two", big("second")), ("three", big("third"))] {
        let file = world.create(a, ROOT, name);
        world.store(a, file, content);
    }
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.close(line);
    world.restore(HOME, copy, 4);
    world.hosts[HOME].chunks.clear();
    world.hosts[a].holds_seeks = true;
    world.connect(a, HOME);
    world.settle();
    assert!(!world.has_session(a), "it goes on as another member");
    let events = std::mem::take(&mut world.hosts[a].events);
    let mut looks: Vec<_> = events.into_iter().filter(|event| matches!(event, Output::Seek { .. })).collect();
    let (last, second, first) = (looks.pop().unwrap(), looks.pop().unwrap(), looks.pop().unwrap());
    assert!(looks.is_empty(), "three files were lost");
    let found = |world: &mut World, look: Output| {
        let Output::Seek { file, version, content } = look else { panic!("{look:?}") };
        world.input(a, Input::Sought { file, version, content, is_here: true });
    };
    found(&mut world, last);
    let line = world.connect(a, HOME);
    world.hold_pushes(line, true);
    while !world.hosts[a].replica.contents.is_pushing() {
        assert!(world.step(), "the later contents go");
    }
    found(&mut world, second);
    found(&mut world, first);
    world.hold_pushes(line, false);
    world.pass(Duration::from_secs(3));
    for content in [big("first"), big("second"), big("third")] {
        assert!(world.hosts[HOME].chunks.contains(&content.root().unwrap()), "{content:?}");
    }
}

/// Claims 36007: the home is put back once more while the driver of a writer still looks for what was lost the first time.
#[test]
fn what_is_found_by_a_name_that_was_lost_again_is_waited_for_by_its_newest_name_only() {
    let mut world = first_life();
    let a = world.add(Role::Client, "ann@a");
    let line = stay_connected(&mut world, a, HOME);
    let copy = world.snapshot(HOME);
    let file = world.create(a, ROOT, "film");
    world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.close(line);
    world.hosts[a].holds_seeks = true;
    let mut looks = Vec::new();
    for life in [4, 5] {
        world.restore(HOME, copy.clone(), life);
        world.hosts[HOME].chunks.clear();
        if life == 5 {
            // The copy does not know the number that it has now.
            let number = world.hosts[a].replica.config().origin;
            assert!(world.admit_again(HOME, a, number));
        }
        super::put_back::rejoin(&mut world, &[(a, HOME)]);
        assert!(world.names(HOME, ROOT).unwrap().iter().any(|name| name == "film"), "it was written again");
        let events = std::mem::take(&mut world.hosts[a].events);
        looks.extend(events.into_iter().filter(|event| matches!(event, Output::Seek { .. })));
        if life == 4 {
            let line = world.line_of(a);
            world.close(line);
        }
    }
    assert!(looks.len() > 1, "by two names");
    world.hosts[a].holds_seeks = false;
    for look in looks {
        let Output::Seek { file, version, content } = look else { panic!("{look:?}") };
        world.input(a, Input::Sought { file, version, content, is_here: true });
    }
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(60));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()));
    let ledger = world.hosts[a].replica.ledger().unwrap();
    assert!(ledger.home_lacks.is_nothing(), "{ledger:?}");
}

/// Seed 297 of `home-back`: the copy names a content that its writer had replaced since, and whose bytes a station had that is gone
/// for good. What the writer stores again takes its place, and nobody waits for those bytes.
#[test]
fn what_a_writer_stores_again_replaces_what_the_copy_has_of_its_own() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    let up = stay_connected(&mut world, station, HOME);
    world.hold_pushes(up, true);
    let line = stay_connected(&mut world, a, station);
    let film = world.create(a, ROOT, "film");
    world.store(a, film, small("small"));
    world.store(a, film, big("first"));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    world.close(line);
    world.destroy(station);
    stay_connected(&mut world, a, HOME);
    world.store(a, film, big("second"));
    let gone = world.create(a, ROOT, "gone");
    world.store(a, gone, big("gone"));
    world.store(a, film, big("third"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    let_go(&mut world, a, &big("first"));
    world.restore(HOME, copy, 4);
    world.hosts[HOME].chunks.clear();
    rejoin(&mut world, &[(a, HOME)]);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.names(HOME, ROOT).unwrap(), ["film", "gone"], "no copies");
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("third"));
    assert!(world.hosts[HOME].replica.ledger().unwrap().home_lacks.is_nothing(), "nobody waits for the first");
}

/// Somebody else stored into the file after the home was put back: then that stays, and what is stored again is a copy.
#[test]
fn what_a_writer_stores_again_does_not_replace_what_another_wrote_since() {
    let mut world = first_life();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let line = stay_connected(&mut world, a, HOME);
    let file = world.create(a, ROOT, "plan");
    world.store(a, file, small("zeroth"));
    world.store(a, file, small("first"));
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    world.store(a, file, small("second"));
    world.pass(Duration::from_secs(3));
    world.close(line);
    world.restore(HOME, copy, 4);
    stay_connected(&mut world, b, HOME);
    world.lookup(b, ROOT, "plan").unwrap();
    world.store(b, file, small("bob's"));
    world.settle();
    rejoin(&mut world, &[(a, HOME)]);
    assert_eq!(world.lookup(HOME, ROOT, "plan").unwrap().1.content, small("bob's"));
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), 2, "Ann's is beside it");
}

/// Seed 9302438 of `home-back`: the copy names a station that has contents, and another below which their writer was. Both were told
/// since that the home has them, and say nothing of them any more.
#[test]
fn who_is_on_record_by_an_old_copy_is_asked_whether_it_still_has_contents() {
    let mut world = first_life();
    let [s1, s2] = [world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s")];
    let a = world.add(Role::Client, "ann@a");
    for station in [s1, s2] {
        stay_connected(&mut world, station, HOME);
    }
    let line = stay_connected(&mut world, a, s1);
    world.pass(Duration::from_secs(3));
    let file = world.create(a, ROOT, "film");
    let version = world.store(a, file, big("film"));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    world.close(line);
    let line = stay_connected(&mut world, a, s2);
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    world.input(s1, Input::Propagate { file, version });
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()));
    assert!(world.hosts[s1].replica.ledger().unwrap().home_lacks.is_nothing(), "it was told that the home has it");
    world.close(line);
    world.destroy(a);
    world.restore(HOME, copy, 4);
    world.hosts[HOME].chunks.clear();
    rejoin(&mut world, &[(s1, HOME), (s2, HOME)]);
    world.pass(Duration::from_secs(120));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()), "it brought them again");
    let ledger = world.hosts[s1].replica.ledger().unwrap();
    assert!(ledger.home_lacks.is_nothing(), "{ledger:?}");
}

/// Seed 158500468 of `home-back`: a station looks whether it has what the home named, and the home is put back to before it meanwhile.
/// What the station finds then it has by a name that nobody asks for any more.
#[test]
fn what_is_found_by_a_name_that_the_home_has_forgotten_is_not_answered_for() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let writer = world.add(Role::Client, "ann@a");
    let up = stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, writer, HOME);
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    world.hold_pushes(line, true);
    world.hosts[station].chunks.insert(big("film").root().unwrap());
    world.hosts[station].holds_seeks = true;
    let file = world.create(writer, ROOT, "film");
    let version = world.store(writer, file, big("film"));
    world.pass(Duration::from_secs(3));
    world.destroy(writer);
    world.close(up);
    world.restore(HOME, copy, 4);
    rejoin(&mut world, &[(station, HOME)]);
    let looks = world.hosts[station].events.iter();
    assert!(
        looks.clone().any(|look| matches!(look, Output::LookHere { version: of, .. } if *of == version)),
        "it looks"
    );
    world.hosts[station].holds_seeks = false;
    world.input(station, Input::LookedHere { here: vec![version], not_here: Vec::new() });
    world.pass(ASKED);
    let (_, inode) = world.lookup(HOME, ROOT, "film").expect("it is written again");
    assert_eq!(inode.content, big("film"));
    let owed = world.hosts[station].replica.contents_in_use(None, 100).unwrap().contents;
    for (file, version) in owed.iter().filter_map(|kept| Some((kept.file, kept.version?))) {
        world.input(station, Input::Propagate { file, version });
    }
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()), "and comes home by its new name");
    for host in [HOME, station] {
        let ledger = world.hosts[host].replica.ledger().unwrap();
        assert!(ledger.home_lacks.is_nothing(), "nobody waits for anything: {ledger:?}");
    }
}

/// Seed 174500311 of `home-back`: the home and the writer are put back to before what a station has, and the writer goes on behind a gap in
/// which its number lies. The home is as far as that, and has not got it: nobody would ever say that it is stable.
#[test]
fn what_a_station_has_by_a_number_in_a_gap_of_its_writer_is_not_answered_for() {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    let up = stay_connected(&mut world, station, HOME);
    let line = stay_connected(&mut world, a, station);
    world.pass(Duration::from_secs(3));
    let film = world.create(a, ROOT, "film");
    world.store(a, film, small("first"));
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    let (copy, mine) = (world.snapshot(HOME), world.snapshot(a));
    let version = world.store(a, film, big("between"));
    world.store(a, film, big("film"));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached), "the station has it");
    world.close(line);
    world.close(up);
    world.restore(HOME, copy, 4);
    world.restore(a, mine, 20_003);
    stay_connected(&mut world, a, HOME);
    let later = world.create(a, ROOT, "later");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    assert_eq!(later.maker().origin(), version.origin(), "it goes on under its number");
    assert!(later.maker().sequence() > version.sequence());
    rejoin(&mut world, &[(station, HOME), (a, HOME)]);
    world.pass(ASKED);
    assert_eq!(world.lookup(HOME, ROOT, "film").unwrap().1.content, big("film"), "the station writes it again");
    let owed = world.hosts[station].replica.contents_in_use(None, 100).unwrap().contents;
    for (file, version) in owed.iter().filter_map(|kept| Some((kept.file, kept.version?))) {
        world.input(station, Input::Propagate { file, version });
    }
    world.pass(Duration::from_secs(3));
    assert!(world.hosts[HOME].chunks.contains(&big("film").root().unwrap()), "and it comes home by its new name");
    for host in [HOME, station] {
        let Ledger { at_station, home_lacks, .. } = world.hosts[host].replica.ledger().unwrap();
        let left = at_station.is_some_and(|amount| !amount.is_nothing());
        assert!(!left && home_lacks.is_nothing(), "nobody answers for anything: {at_station:?}, {home_lacks:?}");
    }
}

/// Seed 179206139: a station took a client's word for contents of a record of a former life, which its home never takes, and owed them for
/// ever.
#[test]
fn contents_of_a_number_that_the_home_never_takes_are_not_counted() {
    let mut world = World::new();
    let (station, writer) = (world.add(Role::Station, "st@s"), world.add(Role::Client, "ann@a"));
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, writer, station);
    let file = world.create(writer, ROOT, "film");
    assert_eq!(world.wait(writer, Level::Stable), Ok(Answer::Reached));
    let copy = world.snapshot(writer);
    world.restore(writer, copy, 9);
    rejoin(&mut world, &[(writer, station)]);
    let line = world.line_of(station);
    world.close(line);
    world.store(writer, file, big("kept"));
    assert_eq!(world.wait(writer, Level::Safe), Ok(Answer::Reached));
    let kept = world.hosts[writer].replica.inode(file).unwrap().unwrap().version;
    let version = RecordId::new(kept.origin(), kept.sequence() - 10).unwrap();
    let content = big("of another life");
    let held = HeldVersion { version, file, content };
    let peer = world.line_of(writer);
    let lent = Up::Lent { versions: vec![LentVersion { held, to: None }] };
    world.input(station, Input::Message { peer, bytes: encode(&Message::Up(lent)) });
    world.settle();
    assert!(world.has_session(writer));
    assert_eq!(world.hosts[station].replica.ledger().unwrap().home_lacks.versions, 1, "what is kept, and nothing else");
}
