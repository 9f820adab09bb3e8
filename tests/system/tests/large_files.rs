//! Large files that are written whole: by programs past the daemon, hashed after their close. Daemons are killed
//! at the worst moments, and another machine reads what is left.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, within};

/// Long enough that hashing it takes much longer than it takes to kill the daemon.
const LEN: usize = 96 << 20;
const VOLUME: &str = "work";
/// Longest time for the two machines to agree.
const CALM: Duration = Duration::from_secs(60);

/// A home and two clients.
struct World {
    home: Machine,
    server: Server,
    writer: Machine,
    reader: Machine,
}

impl World {
    fn new() -> Self {
        let home = Machine::new("home");
        let server = home.serve(free_port(), &[]);
        server.wayfs(&home, &["volume", "create", VOLUME]).ok();
        Self { home, server, writer: Machine::new("writer"), reader: Machine::new("reader") }
    }

    fn mount(&self, machine: &Machine) -> Mount {
        machine.mount(&self.server.ticket(&self.home, VOLUME), &[])
    }

    /// Plain files that the writer's daemon keeps: bodies, notes about bodies that no record holds yet, and the journal of what is open.
    fn kept(&self) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(self.writer.path("cache").join(VOLUME).join("files")).expect("a mount has body files");
        entries.flatten().map(|entry| entry.path()).collect()
    }

    /// Those of them that are not about another.
    fn bodies(&self) -> Vec<PathBuf> {
        let kept = self.kept();
        let is_note = |path: &PathBuf| kept.contains(&path.with_extension("")) && path.extension().is_some();
        let is_journal = |path: &PathBuf| path.to_string_lossy().contains("/journal-");
        kept.iter().filter(|path| !is_note(path) && !is_journal(path)).cloned().collect()
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len / 8)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect()
}

/// Says where bytes part that ought to be the same.
fn assert_same(found: &[u8], wanted: &[u8], what: &str) {
    let same = found.iter().zip(wanted).take_while(|(one, other)| one == other).count();
    assert!(found == wanted, "{what}: {} bytes of {}, the first {same} the same", found.len(), wanted.len());
}

/// Proves [S-kill], [S-close-large].
#[test]
fn what_was_closed_last_is_there_after_the_daemon_was_killed() {
    let world = World::new();
    let mut mount = world.mount(&world.writer);
    let first = noise(LEN, 1);
    fs::write(mount.path("first"), &first).unwrap();
    mount.kill();
    let mut mount = world.writer.mount(VOLUME, &[]);
    assert_same(&fs::read(mount.path("first")).unwrap(), &first, "closed, and killed before it was hashed");
    let second = noise(LEN, 2);
    fs::write(mount.path("fresh"), &second).unwrap();
    fs::rename(mount.path("fresh"), mount.path("first")).unwrap();
    // A group commit later the rename is durable, and what it names was so before.
    std::thread::sleep(Duration::from_millis(500));
    mount.kill();
    let mount = world.writer.mount(VOLUME, &[]);
    assert_same(&fs::read(mount.path("first")).unwrap(), &second, "replaced by what was closed and renamed");
    assert!(!mount.path("fresh").exists());
    mount.sync(&world.writer, "visible");
    let reader = world.mount(&world.reader);
    within("the reader reads", CALM, move || {
        assert_same(&fs::read(reader.path("first")).unwrap(), &second, "what the reader reads");
    });
}

/// Proves [S-kill]: when a program forks, copies of its handles are closed at any time, also while the daemon is
/// killed.
#[test]
fn what_was_closed_is_there_if_copies_of_its_handle_were_closed_again() {
    let world = World::new();
    let mut mount = world.mount(&world.writer);
    let bytes = noise(LEN / 12, 4);
    for round in 0..8 {
        let name = format!("f{round}");
        let mut file = File::create(mount.path(&name)).unwrap();
        // That the file exists is a record like any other: without it there is nothing to find.
        File::open(mount.root()).unwrap().sync_all().unwrap();
        file.write_all(&bytes).unwrap();
        drop(file.try_clone().unwrap());
        let is_killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_killed.load(Ordering::Relaxed) {
                    drop(file.try_clone().unwrap());
                }
            });
            std::thread::sleep(Duration::from_millis(20 + round));
            mount.kill();
            is_killed.store(true, Ordering::Relaxed);
        });
        mount = world.writer.mount(VOLUME, &[]);
        assert_same(&fs::read(mount.path(&name)).unwrap(), &bytes, &name);
    }
}

/// Proves [S-fsync], [S-kill].
#[test]
fn what_was_synced_in_the_middle_is_there_and_nothing_is_left_over() {
    let world = World::new();
    let mut mount = world.mount(&world.writer);
    let bytes = noise(LEN, 3);
    let mut file = File::create(mount.path("f")).unwrap();
    file.write_all(&bytes[..LEN / 2]).unwrap();
    file.sync_all().unwrap();
    file.write_all(&bytes[LEN / 2..]).unwrap();
    mount.kill();
    // A process that another test forks closes its copy of the file, so a note about the body may be left, too.
    // Whoever goes on writing learns at the latest from its close that nobody takes it; here it just ends.
    let is_taken = file.write_all(b"into the void").is_ok();
    drop(file);
    let mount = world.writer.mount(VOLUME, &[]);
    let found = fs::read(mount.path("f")).unwrap();
    // Of what goes past the daemon the kernel takes more when that is dead.
    let wanted = [&bytes[..], if is_taken { b"into the void" } else { b"" }].concat();
    assert!(found == wanted, "{} bytes of {}", found.len(), wanted.len());
    assert!(world.bodies().len() <= 1, "left over: {:?}", world.bodies());
    fs::remove_file(mount.path("f")).unwrap();
    eventually("bodies of removed files go", CALM, || world.kept().is_empty());
}

/// Proves [S-close-open], [S-edit-cost].
#[test]
fn another_machine_sees_each_version_whole() {
    let world = World::new();
    let (mount, reader) = (world.mount(&world.writer), world.mount(&world.reader));
    for round in 0..3 {
        let mut bytes = noise(LEN / 4, 10 + round);
        fs::write(mount.path("f"), &bytes).unwrap();
        mount.sync(&world.writer, "visible");
        let edit = fs::OpenOptions::new().write(true).open(mount.path("f")).unwrap();
        edit.write_all_at(b"edited in place", 1 << 20).unwrap();
        drop(edit);
        bytes[1 << 20..(1 << 20) + 15].copy_from_slice(b"edited in place");
        mount.sync(&world.writer, "visible");
        let path = reader.path("f");
        within("the reader sees it", CALM, move || {
            eventually("it is there", CALM, || fs::read(&path).is_ok_and(|found| found == bytes));
        });
    }
}

/// Proves [S-unlinked], [S-close-large]: a file that is removed, or replaced, right after its close is gone, and so is
/// the directory that it was in.
#[test]
fn what_is_removed_right_after_its_close_does_not_come_back() {
    let world = World::new();
    let mount = world.mount(&world.writer);
    let bytes = noise(4 << 20, 6);
    for round in 0..30 {
        let name = mount.path(&format!("f{round}"));
        fs::write(&name, &bytes).unwrap();
        fs::remove_file(&name).unwrap();
        let tree = mount.path("tree");
        fs::create_dir(&tree).unwrap_or_else(|error| panic!("round {round}: {error}"));
        fs::write(tree.join("large"), &bytes).unwrap();
        fs::remove_dir_all(&tree).unwrap();
        fs::write(mount.path("replaced"), &bytes).unwrap();
        fs::write(mount.path("small"), "small").unwrap();
        fs::rename(mount.path("small"), mount.path("replaced")).unwrap();
    }
    mount.sync(&world.writer, "visible");
    let names = |root: &std::path::Path| -> Vec<_> {
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(mount.root()), ["replaced"]);
    assert_eq!(fs::read_to_string(mount.path("replaced")).unwrap(), "small");
    let reader = world.mount(&world.reader);
    assert_eq!(names(reader.root()), ["replaced"]);
}

/// Proves [S-holes].
#[test]
fn a_terabyte_of_nothing_is_made_sent_and_removed_like_a_small_file() {
    let world = World::new();
    let mut mount = world.mount(&world.writer);
    let (here, work) = (mount.path("sparse"), mount.path("work"));
    let end = 1u64 << 40;
    within("make, grow and remove files of holes", CALM, move || {
        File::create(&here).unwrap().set_len(end).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&here).unwrap();
        file.write_all_at(b"end", end - 3).unwrap();
        file.sync_all().unwrap();
        for _ in 0..10 {
            let file = File::create(&work).unwrap();
            file.set_len(end).unwrap();
            drop(file);
            fs::remove_file(&work).unwrap();
        }
    });
    mount.sync(&world.writer, "stable");
    let reader = world.mount(&world.reader);
    within("the reader reads its end", CALM, move || {
        let file = File::open(reader.path("sparse")).unwrap();
        let mut bytes = [9; 5];
        file.read_exact_at(&mut bytes, end - 5).unwrap();
        assert_eq!((file.metadata().unwrap().len(), &bytes), (end, b"\0\0end"));
        drop(file);
        fs::remove_file(reader.path("sparse")).unwrap();
    });
    world.writer.wayfs(&["umount", "--force", mount.root().to_str().unwrap()]).ok();
    wayfs_system_tests::eventually("the daemon ends", CALM, || mount.process.ended().is_some());
}

/// Proves [S-facts]: "here" means every byte. Who edits a part of a file answers for the whole, and has the rest of it elsewhere ([S-edit-cost]).
#[test]
fn who_edits_a_part_of_a_file_does_not_say_that_all_of_it_is_here() {
    let mut world = World::new();
    let mut mount = world.mount(&world.writer);
    let film = mount.path("film");
    within("write it", CALM, move || fs::write(film, noise(48 << 20, 5)).unwrap());
    mount.sync(&world.writer, "stable");
    let reader = world.mount(&world.reader);
    let path = reader.path("film");
    let holder = |path: &Path| {
        let mut value = [0_u8; 64];
        let len = rustix::fs::getxattr(path, "user.wayfs.holder", &mut value).unwrap();
        String::from_utf8(value[..len].to_vec()).unwrap()
    };
    within("read a part of it", CALM, {
        let path = path.clone();
        move || File::open(path).unwrap().read_exact_at(&mut vec![0; 8 << 20], 0).unwrap()
    });
    world.server.process.kill();
    within("edit what is here", CALM, {
        let path = path.clone();
        move || {
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(b"edited", 3 << 20).unwrap();
            file.sync_all().unwrap();
        }
    });
    assert_ne!(holder(&path), "here", "most of it is at the home");
    world.writer.wayfs(&["umount", "--force", mount.root().to_str().unwrap()]).ok();
    eventually("the daemon ends", CALM, || mount.process.ended().is_some());
}

/// What a machine shows of a file's holes: units of 512 bytes that it takes, and where its data begins and ends from a
/// place on.
fn holes_of(path: &Path, from: u64) -> (u64, u64, u64) {
    use rustix::fs::{SeekFrom, seek};
    let file = File::open(path).unwrap();
    let data = seek(&file, SeekFrom::Data(from)).unwrap();
    let hole = seek(&file, SeekFrom::Hole(data)).unwrap();
    (file.metadata().unwrap().blocks(), data, hole)
}

/// Proves [S-holes].
#[test]
fn holes_are_told_here_and_elsewhere() {
    const MIB: u64 = 1 << 20;
    let world = World::new();
    let mut mount = world.mount(&world.writer);
    let here = mount.path("image");
    within("write a sparse file", CALM, {
        let here = here.clone();
        move || {
            let file = File::create(here).unwrap();
            file.write_all_at(&noise(MIB as usize, 7), 0).unwrap();
            file.write_all_at(b"island", 100 * MIB).unwrap();
            file.set_len(300 * MIB).unwrap();
            file.sync_all().unwrap();
        }
    });
    mount.sync(&world.writer, "stable");
    let reader = world.mount(&world.reader);
    let there = reader.path("image");
    within("both see the holes", CALM, move || {
        let copy = there.parent().unwrap().join("copy");
        for path in [&here, &there] {
            let (blocks, data, hole) = holes_of(path, 50 * MIB);
            assert!((MIB / 512..8 * MIB / 512).contains(&blocks), "{blocks} blocks");
            assert!(data > 98 * MIB && data <= 100 * MIB && hole < 103 * MIB, "data from {data} to {hole}");
        }
        // What copies only data copies all of it.
        let status = Command::new("cp").arg("--sparse=auto").args([&there, &copy]).status().unwrap();
        assert!(status.success());
        assert!(fs::read(&copy).unwrap() == fs::read(&here).unwrap(), "the copy is the file");
        assert!(holes_of(&copy, 0).0 < 8 * MIB / 512);
    });
    world.writer.wayfs(&["umount", "--force", mount.root().to_str().unwrap()]).ok();
    eventually("the daemon ends", CALM, || mount.process.ended().is_some());
}
