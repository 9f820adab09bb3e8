//! A station that takes over the state of a home which was put back, and is interrupted when it has applied a part of it.

use super::forking::stay_connected;
use super::put_back::{first_life, rejoin};
use super::world::{HOME, World, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, Level};
use wayfs_types::{Content, FileId};

const ROOT: FileId = FileId::ROOT;
const FILES: usize = 8;

fn newest(number: usize) -> Content {
    small(&format!("new {number}"))
}

fn content(world: &World, host: usize, file: FileId) -> Content {
    world.hosts[host].replica.inode(file).unwrap().unwrap().content.clone()
}

/// Only the station knows what the home lost. It is interrupted when it shows an older content of one of the files, which is named to
/// the caller; answers all of them.
fn interrupted(by: impl FnOnce(&mut World, usize, FileId)) -> (World, Vec<FileId>) {
    let mut world = first_life();
    let station = world.add(Role::Station, "st@s");
    let a = world.add(Role::Client, "ann@a");
    for host in [HOME, station] {
        world.configure(host, |config| (config.images_per_message, config.images_gathered_max) = (2, 2));
    }
    stay_connected(&mut world, station, HOME);
    stay_connected(&mut world, a, HOME);
    let files: Vec<FileId> = (0..FILES).map(|number| world.create(a, ROOT, &format!("f-{number}"))).collect();
    for file in &files {
        world.store(a, *file, small("old"));
    }
    world.pass(Duration::from_secs(3));
    let copy = world.snapshot(HOME);
    for (number, file) in files.iter().enumerate() {
        world.store(a, *file, newest(number));
    }
    world.rename(a, (ROOT, "f-0"), (ROOT, "moved")).unwrap();
    assert_eq!(world.wait(a, Level::Stable), Ok(Answer::Reached));
    world.pass(Duration::from_secs(3));
    world.destroy(a);
    world.restore(HOME, copy, 4);
    world.connect(station, HOME);
    let old = loop {
        assert!(world.step(), "it takes over a part before the rest");
        if let Some(file) = files.iter().find(|file| content(&world, station, **file) == small("old")) {
            break *file;
        }
    };
    let left = files.iter().filter(|file| content(&world, station, **file) != small("old")).count();
    assert!(left > 0, "the rest is not there yet");
    by(&mut world, station, old);
    rejoin(&mut world, &[(station, HOME)]);
    world.assert_agrees(station);
    (world, files)
}

/// It crashes: what it had found is in its store with the part that it had applied.
#[test]
fn a_station_that_crashes_in_a_takeover_forgets_nothing_that_its_home_lost() {
    let (mut world, files) = interrupted(|world, station, _| world.crash(station, 1000));
    for (number, file) in files.iter().enumerate() {
        assert_eq!(content(&world, HOME, *file), newest(number), "file {number}");
    }
    assert!(world.lookup(HOME, ROOT, "moved").is_ok(), "nor what was renamed");
    assert_eq!(world.names(HOME, ROOT).unwrap().len(), FILES, "no copies");
}

/// Its session ends, and somebody writes into a file of which it has taken over the older content.
#[test]
fn what_a_home_lost_is_not_forgotten_when_something_is_written_before_a_takeover_ends() {
    let (mut world, files) = interrupted(|world, station, file| {
        let line = world.line_of(station);
        world.close(line);
        let b = world.add(Role::Client, "bob@b");
        stay_connected(world, b, HOME);
        world.names(b, ROOT).unwrap();
        world.store(b, file, small("since"));
        world.pass(Duration::from_secs(3));
    });
    let mut shown = Vec::new();
    for name in world.names(HOME, ROOT).unwrap() {
        shown.push(world.lookup(HOME, ROOT, &name).unwrap().1.content.clone());
    }
    assert!(shown.contains(&small("since")), "{shown:?}");
    for number in 0..files.len() {
        assert!(shown.contains(&newest(number)), "{number}: {shown:?}");
    }
}
