//! Contents over slow paths. Loopback is none, so the machines are told to take it for one.

use crate::ChildRole;
use crate::ContentPacking;
use crate::testing::{Machine, PATIENCE, Plan, eventually, name, text};
use std::path::Path;
use wayfs_proto::Role;
use wayfs_types::request::{Change, Level, RenameTarget};
use wayfs_types::{Content, Digest, FileId, Inode, OriginId};

const LEN: usize = 100_000;

fn home(directory: &Path, content_packing: ContentPacking) -> Machine {
    let origin = OriginId::new(1).unwrap();
    Machine::start(Plan { content_packing, ..Plan::new(directory, Role::Home, origin) })
}

fn client(home: &Machine, directory: &Path, content_packing: ContentPacking) -> Machine {
    let plan = Machine::plan_below(home, directory, ChildRole::Client, &[home]);
    Machine::start(Plan { content_packing, ..plan })
}

/// A home and two clients.
fn volume(directory: &Path, packing: ContentPacking) -> [Machine; 3] {
    let home = home(&directory.join("home"), packing);
    let clients = ["a", "b"].map(|name| client(&home, &directory.join(name), packing));
    let [a, b] = clients;
    [home, a, b]
}

fn seen(machine: &Machine, name: &str, content: &Content) -> (FileId, Inode) {
    eventually("the new version is seen", || {
        machine.find(FileId::ROOT, name).is_some_and(|(_, inode)| inode.content == *content)
    });
    machine.find(FileId::ROOT, name).unwrap()
}

fn edited(mut bytes: Vec<u8>) -> Vec<u8> {
    let middle = bytes.len() / 2;
    bytes.splice(middle..middle, b"a line that was not there\n".iter().copied());
    bytes
}

fn lose(machine: &Machine, digest: &Digest) {
    machine.volume.contents().store().unwrap().remove(digest).unwrap();
}

#[test]
fn an_edit_crosses_a_slow_path_as_a_difference_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let [home, a, b] = volume(dir.path(), ContentPacking::AsFar);
    let before = text(LEN, 1);
    let (_, inode) = a.write("source", &before);
    a.wait(Level::Stable);
    seen(&b, "source", &inode.content);
    assert!(b.read("source").unwrap() == before);
    let (up, down) = (a.volume.metrics().bytes_up.value(), b.volume.metrics().bytes_down.value());
    assert!(up > 10_000 && down > 10_000, "{up} and {down} bytes for all of it");

    let after = edited(before);
    let (_, inode) = a.write("source", &after);
    a.wait(Level::Stable);
    seen(&b, "source", &inode.content);
    assert!(b.read("source").unwrap() == after);
    let (up_edit, down_edit) = (a.volume.metrics().bytes_up.value() - up, b.volume.metrics().bytes_down.value() - down);
    assert!(up_edit < 500 && down_edit < 500, "{up_edit} and {down_edit} bytes for a line");
    let metrics = b.volume.metrics();
    assert_eq!((metrics.differences_in.value(), metrics.bases_lost.value()), (1, 0));
    assert_eq!(metrics.bytes_down_unpacked.value(), (2 * LEN + 26) as u64);
    assert_eq!(home.volume.metrics().differences_in.value(), 1);
}

#[test]
fn an_edit_of_a_large_file_crosses_as_a_difference_to_the_chunk_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let [_home, a, b] = volume(dir.path(), ContentPacking::AsFar);
    let before = crate::testing::noise(4 << 20, 3);
    let (_, inode) = a.write("film", &before);
    a.wait(Level::Stable);
    seen(&b, "film", &inode.content);
    assert!(b.read("film").unwrap() == before);
    let (up, down) = (a.volume.metrics().bytes_up.value(), b.volume.metrics().bytes_down.value());

    let after = edited(before);
    let (_, inode) = a.write("film", &after);
    a.wait(Level::Stable);
    seen(&b, "film", &inode.content);
    assert!(b.read("film").unwrap() == after);
    let (up_edit, down_edit) = (a.volume.metrics().bytes_up.value() - up, b.volume.metrics().bytes_down.value() - down);
    assert!(up_edit < 5000 && down_edit < 5000, "{up_edit} and {down_edit} bytes for a line of 4 MiB");
}

#[test]
fn a_file_that_takes_the_place_of_another_is_its_next_version() {
    let dir = tempfile::tempdir().unwrap();
    let [_home, a, b] = volume(dir.path(), ContentPacking::AsFar);
    let before = text(LEN, 1);
    let (_, inode) = a.write("source", &before);
    a.wait(Level::Stable);
    seen(&b, "source", &inode.content);
    assert!(b.read("source").unwrap() == before);
    let down = b.volume.metrics().bytes_down.value();

    let after = edited(before);
    let (_, inode) = a.write("source.new", &after);
    a.change(Change::Rename {
        from_parent: FileId::ROOT,
        from_name: name("source.new"),
        to_parent: FileId::ROOT,
        to_name: name("source"),
        target: RenameTarget::Replace,
    });
    a.wait(Level::Stable);
    seen(&b, "source", &inode.content);
    assert!(b.read("source").unwrap() == after);
    let down = b.volume.metrics().bytes_down.value() - down;
    assert!(down < 500, "{down} bytes for a line");
}

/// Bytes that many small files cost a reader who asks for all at once, and how many came as differences.
fn read_many(packing: ContentPacking) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let [_home, a, b] = volume(dir.path(), packing);
    let written: Vec<_> = (0..12).map(|number| a.write(&format!("{number}.c"), &text(8000, number)).1).collect();
    a.wait(Level::Stable);
    let wanted: Vec<(FileId, Inode)> =
        written.iter().enumerate().map(|(number, inode)| seen(&b, &format!("{number}.c"), &inode.content)).collect();
    std::thread::scope(|scope| {
        for (file, inode) in &wanted {
            scope.spawn(|| {
                let root = inode.content.root().unwrap();
                b.volume.fetch(*file, inode.version, &[root], PATIENCE).unwrap();
            });
        }
    });
    for number in 0..12 {
        assert!(b.read(&format!("{number}.c")).unwrap() == text(8000, number));
    }
    let metrics = b.volume.metrics();
    assert_eq!(metrics.bases_lost.value(), 0);
    (metrics.bytes_down.value(), metrics.differences_in.value())
}

#[test]
fn files_that_are_asked_for_together_cross_a_slow_path_as_differences_to_each_other() {
    let (alone, no_differences) = read_many(ContentPacking::AsFast);
    assert_eq!(no_differences, 0, "a fast path is as it was");
    // How many are asked for before the first is here is up to the system's scheduler.
    let tries: Vec<(u64, u64)> = (0..5).map(|_| read_many(ContentPacking::AsFar)).collect();
    let is_so = |&(together, differences): &(u64, u64)| differences >= 8 && together * 10 < alone * 9;
    assert!(tries.iter().any(is_so), "bytes and differences of 12: {tries:?}, instead of {alone} bytes");
}

#[test]
fn a_base_that_the_asker_lost_costs_a_repetition() {
    let dir = tempfile::tempdir().unwrap();
    let [_home, a, b] = volume(dir.path(), ContentPacking::AsFar);
    let (first, second) = (text(60_000, 1), text(60_000, 2));
    // More than stays in memory stands between, so that what is removed from the store is gone.
    let (_, one) = a.write("one", &first);
    let (_, two) = a.write("two", &second);
    a.wait(Level::Stable);
    seen(&b, "one", &one.content);
    seen(&b, "two", &two.content);
    assert!(b.read("one").unwrap() == first);
    for number in 0..80 {
        b.keep(&crate::testing::noise(60_000, number));
    }
    lose(&b, &one.content.root().unwrap());
    assert!(b.read("two").unwrap() == second);
    assert_eq!(b.volume.metrics().bases_lost.value(), 1);
}

#[test]
fn a_base_that_the_parent_lost_costs_a_repetition() {
    let dir = tempfile::tempdir().unwrap();
    let [home, a, _b] = volume(dir.path(), ContentPacking::AsFar);
    let before = text(LEN, 1);
    let (_, inode) = a.write("source", &before);
    a.wait(Level::Stable);
    lose(&home, &inode.content.root().unwrap());
    let after = edited(before);
    a.write("source", &after);
    a.wait(Level::Stable);
    assert_eq!(a.volume.metrics().bases_lost.value(), 1);
    assert!(home.read("source").unwrap() == after);
}

#[test]
fn a_base_that_is_another_one_there_costs_a_repetition_and_never_wrong_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let [home, a, b] = volume(dir.path(), ContentPacking::AsFar);
    let (first, second) = (text(8000, 1), text(8000, 2));
    let (_, one) = a.write("one", &first);
    let (_, two) = a.write("two", &second);
    a.wait(Level::Stable);
    seen(&b, "one", &one.content);
    seen(&b, "two", &two.content);
    // The home takes the first question for one that it answered otherwise.
    let node = b.endpoint.id();
    let peer = home.volume.sessions().into_iter().find(|session| session.node == node).unwrap().peer;
    let session = home.volume.session(peer).unwrap();
    session.history.given().give(1, &bytes::Bytes::from(second.clone()));
    assert!(b.read("one").unwrap() == first);
    assert!(b.read("two").unwrap() == second);
    assert_eq!(b.volume.metrics().bases_lost.value(), 1);
}
