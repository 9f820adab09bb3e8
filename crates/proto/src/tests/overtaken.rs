//! A version that comes home after what was built upon it, which came by another way.

use super::put_back_contents::ASKED;
use super::world::{HOME, World, big, small};
use crate::{PeerId, Role};
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Level};

struct Seen {
    world: World,
    stations: [usize; 2],
    clients: [usize; 2],
    /// The second client's session with the first station.
    line: PeerId,
    file: FileId,
}

/// Two clients of the first of two stations, which is cut off from the home: one wrote what the other has seen.
fn seen_below_a_station() -> Seen {
    let mut world = World::new();
    let stations @ [first, second] = ["s1@s", "s2@s"].map(|label| world.add(Role::Station, label));
    let clients @ [a, b] = ["ann@a", "ben@b"].map(|label| world.add(Role::Client, label));
    let [upper, _] = [first, second].map(|station| world.connect(station, HOME));
    world.settle();
    let [_, line] = [a, b].map(|client| world.connect(client, first));
    let file = world.create(a, FileId::ROOT, "film");
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.close(upper);
    world.store(a, file, big("seen"));
    assert_eq!(world.wait(a, Level::Safe), Ok(Answer::Reached));
    assert_eq!(world.lookup(b, FileId::ROOT, "film").unwrap().1.content, big("seen"));
    Seen { world, stations, clients, line, file }
}

/// [S-losses] As long as the bytes of the later one are at its writer only, those of the earlier one are what is left if they are lost.
#[test]
fn what_was_overtaken_comes_back_when_what_was_built_upon_it_is_lost() {
    let Seen { mut world, stations: [first, second], clients: [_, b], line, file } = seen_below_a_station();
    world.hold_pushes(line, true);
    world.store(b, file, big("upon it"));
    world.close(line);
    let line = world.connect(b, second);
    world.hold_pushes(line, true);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.lookup(HOME, FileId::ROOT, "film").unwrap().1.content, big("upon it"));
    world.connect(first, HOME);
    world.pass(Duration::from_secs(3));
    world.lose(b, &big("upon it"));
    world.close(line);
    world.connect(b, second);
    world.pass(ASKED);
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap(), ["film"], "no copies");
    assert_eq!(world.lookup(HOME, FileId::ROOT, "film").unwrap().1.content, big("seen"));
    assert!(world.can_read(b, file, &big("seen")));
}

/// [S-losses] What was built upon it is whole: that is the last content that is, when what was written after it is lost.
#[test]
fn what_was_overtaken_by_what_is_whole_is_not_shown_in_its_place() {
    let Seen { mut world, stations: [first, second], clients: [a, b], line, file } = seen_below_a_station();
    world.close(line);
    let line = world.connect(b, second);
    world.store(b, file, big("upon it"));
    assert_eq!(world.wait(b, Level::Stable), Ok(Answer::Reached));
    world.hold_pushes(line, true);
    world.store(b, file, big("at last"));
    world.pass(Duration::from_secs(3));
    world.connect(first, HOME);
    world.pass(Duration::from_secs(3));
    world.lose(b, &big("at last"));
    world.close(line);
    world.connect(b, second);
    world.pass(ASKED);
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap(), ["film"], "no copies");
    assert_eq!(world.lookup(HOME, FileId::ROOT, "film").unwrap().1.content, big("upon it"));
    assert!(world.can_read(a, file, &big("upon it")));
}

/// Seed 169032550: a station that had not heard of what a version was stored upon made a copy of it, and its writer went back to the home,
/// where it stands in its file. What it wrote next went into the copy, and its own machine did not show it in the file.
#[test]
fn a_copy_that_the_next_server_did_not_make_is_none() {
    let mut world = World::new();
    let station = world.add(Role::Station, "s1@s");
    let [ann, cat] = ["ann@a", "cat@c"].map(|label| world.add(Role::Client, label));
    let upper = world.connect(station, HOME);
    let [line, _] = [ann, cat].map(|client| world.connect(client, HOME));
    world.settle();
    let file = world.create(ann, FileId::ROOT, "x");
    world.pass(Duration::from_secs(3));
    assert!(world.lookup(cat, FileId::ROOT, "x").is_ok());
    world.close(upper);
    world.store(cat, file, small("before"));
    world.settle();
    assert_eq!(world.lookup(ann, FileId::ROOT, "x").unwrap().1.content, small("before"));
    world.stall(line, true);
    world.store(ann, file, small("mine"));
    world.pass(Duration::from_millis(100));
    while world.waits_up(line) {
        world.step_up(line, 1);
    }
    assert_eq!(world.lookup(HOME, FileId::ROOT, "x").unwrap().1.content, small("mine"));
    // It does not hear that the home has it.
    world.close(line);
    let line = world.connect(ann, station);
    world.settle();
    assert_eq!(world.names(ann, FileId::ROOT).unwrap().len(), 2, "a copy at the station");
    world.close(line);
    world.connect(ann, HOME);
    world.settle();
    assert_eq!(world.lookup(ann, FileId::ROOT, "x").unwrap().1.content, small("mine"));
    world.store(ann, file, small("next"));
    assert_eq!(
        world.lookup(ann, FileId::ROOT, "x").unwrap().1.content,
        small("next"),
        "also before the home has heard of it"
    );
    world.settle();
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap(), ["x"]);
    world.assert_agrees(ann);
}
