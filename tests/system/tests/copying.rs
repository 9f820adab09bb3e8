//! Copies inside a mount: they share their contents where they can, and hold the right bytes in any case.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rustix::fs::copy_file_range;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, run, within};

const VOLUME: &str = "work";
/// Long beside everything else that a volume keeps.
const LEN: usize = 24 << 20;
/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(60);

/// A home and two clients.
struct World {
    _home: Machine,
    server: Server,
    writer: Machine,
    mount: Mount,
    _reader: Machine,
    other: Mount,
}

impl World {
    fn new() -> Self {
        let home = Machine::new("home");
        let server = home.serve(free_port(), &[]);
        server.wayfs(&home, &["volume", "create", VOLUME]).ok();
        let (writer, reader) = (Machine::new("writer"), Machine::new("reader"));
        let mount = writer.mount(&server.ticket(&home, VOLUME), &[]);
        let other = reader.mount(&server.ticket(&home, VOLUME), &[]);
        Self { _home: home, server, writer, mount, _reader: reader, other }
    }

    /// What the disks of the home and of the writer hold: chunks, and at the writer plain files as well.
    fn kept(&self) -> [u64; 2] {
        [self.server.data.join("volumes"), self.writer.path("cache")].map(|place| len_below(&place))
    }

    /// Waits until the other machine reads these bytes.
    fn seen(&self, name: &str, bytes: &[u8]) {
        let path = self.other.path(name);
        eventually("the other machine reads the same", SEEN, || {
            let path = path.clone();
            within("read a file", SEEN, move || fs::read(path)).is_ok_and(|read| read == bytes)
        });
    }
}

/// Bytes that the files below a directory take. Some come and go.
fn len_below(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let len = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => len_below(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(len).sum()
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).to_le_bytes()
    });
    words.take(len / 8).flatten().collect()
}

fn same(found: &[u8], wanted: &[u8], what: &str) {
    let same = found.iter().zip(wanted).take_while(|(one, other)| one == other).count();
    assert!(found == wanted, "{what}: {} bytes of {}, the first {same} the same", found.len(), wanted.len());
}

/// [S-copy] Many copies, by `cp` and by a program that opens both files, take no room on any disk. What is written to one
/// later is in no other.
#[test]
fn copies_are_the_same_everywhere_and_stored_once() {
    let world = World::new();
    let bytes = noise(LEN, 3);
    fs::write(world.mount.path("one"), &bytes).unwrap();
    world.mount.sync(&world.writer, "stable");
    let before = world.kept();
    for number in 0..4 {
        let (from, to) = (world.mount.path("one"), world.mount.path(&format!("copy-{number}")));
        if number % 2 == 0 {
            run(Command::new("cp").arg(from).arg(to)).ok();
        } else {
            assert_eq!(fs::copy(from, to).unwrap(), LEN as u64);
        }
    }
    world.mount.sync(&world.writer, "stable");
    for (before, after) in before.iter().zip(world.kept()) {
        assert!(after < before + LEN as u64, "four copies of {LEN} bytes took {} bytes", after - before);
    }
    for number in 0..4 {
        same(&fs::read(world.mount.path(&format!("copy-{number}"))).unwrap(), &bytes, "the copy here");
    }
    world.seen("copy-0", &bytes);
    let mut edited = bytes.clone();
    edited[5_000_000..5_000_100].fill(1);
    let copy = OpenOptions::new().write(true).open(world.mount.path("copy-1")).unwrap();
    copy.write_all_at(&edited[5_000_000..5_000_100], 5_000_000).unwrap();
    drop(copy);
    world.seen("copy-1", &edited);
    for name in ["one", "copy-0", "copy-2"] {
        same(&fs::read(world.mount.path(name)).unwrap(), &bytes, name);
    }
    world.seen("copy-2", &bytes);
}

/// Copies so much as one call does, as a program that wants all of it; answers how much that was.
fn copy(from: (&File, u64), to: (&File, u64), len: usize) -> std::io::Result<usize> {
    let (mut from_at, mut to_at) = (from.1, to.1);
    Ok(copy_file_range(from.0, Some(&mut from_at), to.0, Some(&mut to_at), len)?)
}

/// [S-copy] Ranges, places, bounds, bytes that nobody committed yet, holes, and one file alone.
#[test]
fn ranges_of_files_are_copied_whatever_state_they_are_in() {
    let world = World::new();
    let bytes = noise(3 << 20, 5);
    let path = world.mount.path("one");
    fs::write(&path, &bytes).unwrap();
    // Not committed: it is open, and was just written to.
    let both = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    both.write_all_at(b"written a moment ago", 1_000_000).unwrap();
    let mut source = bytes.clone();
    source[1_000_000..1_000_020].copy_from_slice(b"written a moment ago");

    let make = |name: &str| {
        let path = world.mount.path(name);
        OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
    };
    let begin = make("begin");
    assert_eq!(copy((&both, 0), (&begin, 0), 1_234_567).unwrap(), 1_234_567);
    let (mut at, place) = (1_234_567, 1_234_567..source.len());
    while at < place.end {
        let copied = copy((&both, at as u64), (&begin, at as u64), 1 << 20).unwrap();
        assert!(copied > 0, "the file goes on");
        at += copied;
    }
    assert_eq!(copy((&both, source.len() as u64), (&begin, source.len() as u64), 10).unwrap(), 0, "it ends there");
    drop(begin);
    same(&fs::read(world.mount.path("begin")).unwrap(), &source, "a copy in steps");

    let elsewhere = make("elsewhere");
    let copied = copy((&both, 700_001), (&elsewhere, 9), 1 << 20).unwrap();
    drop(elsewhere);
    let mut expected = vec![0; 9];
    expected.extend(&source[700_001..700_001 + copied]);
    same(&fs::read(world.mount.path("elsewhere")).unwrap(), &expected, "a copy to another place");

    let copied = copy((&both, 0), (&both, 2 << 20), 1000).unwrap();
    source.copy_within(0..copied, 2 << 20);
    let overlapping = copy((&both, 0), (&both, 10), 1000).unwrap_err();
    assert_eq!(overlapping.kind(), ErrorKind::InvalidInput);
    same(&fs::read(&path).unwrap(), &source, "a copy within one file");

    let sparse = make("sparse");
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(b"end", (64 << 20) - 3).unwrap();
    drop(sparse);
    run(Command::new("cp").arg(world.mount.path("sparse")).arg(world.mount.path("sparse-copy"))).ok();
    run(Command::new("cmp").arg(world.mount.path("sparse")).arg(world.mount.path("sparse-copy"))).ok();
    drop(both);
    for (name, bytes) in [("elsewhere", &expected), ("one", &source)] {
        world.seen(name, bytes);
    }
}
