//! A disk that is full of metadata, not of contents: names that do not compress. The disks are small tmpfs mounts, so this
//! needs root; without it the tests say so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_system_tests::{Finished, Machine, SmallDisk, eventually, free_port, within};

/// Room of the disk, in MiB.
const SIZE: u32 = SmallDisk::TINY;
/// What somebody else has on it at first, in MiB: so much is to be made room.
const BALLAST: usize = 48;
/// Names of one directory.
const NAMES: usize = 1000;

/// A name of 240 bytes that does not compress.
fn name(number: usize) -> String {
    let mut state = number as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = format!("{number:08}-");
    while text.len() < 240 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let letter = b'a' + ((state >> 40) % 26) as u8;
        text.push(if state >> 63 == 0 { letter.into() } else { letter.to_ascii_uppercase().into() });
    }
    text
}

fn ballast(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("ballast");
    fs::write(&path, vec![1; BALLAST << 20]).expect("the disk has room for it");
    path
}

/// Makes names until one is refused, or the daemon says that a disk is full; how many there are.
fn fill(root: &Path, most: usize, mut is_full: impl FnMut() -> bool) -> (usize, Option<std::io::Error>) {
    for number in 0..most {
        let directory = root.join(format!("d{}", number / NAMES));
        let made = if number % NAMES == 0 { fs::create_dir(&directory) } else { Ok(()) };
        let outcome = made.and_then(|()| fs::write(directory.join(name(number)), ""));
        if let Err(error) = outcome {
            return (number, Some(error));
        }
        if number % NAMES == NAMES - 1 && is_full() {
            return (number + 1, None);
        }
    }
    (most, None)
}

/// Takes all room of a disk.
fn fill_up(directory: &Path) -> std::path::PathBuf {
    use std::io::Write;
    let path = directory.join("filler");
    let mut file = fs::File::create(&path).expect("a new file takes no room");
    while file.write_all(&[0x55; 1 << 16]).is_ok() {}
    path
}

/// What a mount shows in a directory.
fn names(directory: &Path) -> std::io::Result<BTreeSet<String>> {
    let directory = directory.to_owned();
    within("list a directory", Duration::from_secs(60), move || {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    })
}

fn says_full_home(finished: &Finished) -> bool {
    let said = format!("{}{}", finished.out, finished.err);
    said.contains("full: home disk (") && said.contains("for metadata")
}

/// Proves [S-full] and [S-full-disk] where it is metadata that have no room.
#[test]
fn a_home_full_of_names_keeps_its_sessions_and_goes_on_when_there_is_room() {
    let home = Machine::new("home");
    let Some(_disk) = SmallDisk::sized(&home.path("data"), SIZE) else { return };
    let ballast = ballast(&home.path("data"));
    let mut server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    fs::write(mount.path("letter"), vec![7; 300_000]).unwrap();
    mount.sync(&client, "stable");
    let reader = Machine::new("reader");
    let other = reader.mount(&server.ticket(&home, "work"), &[]);
    assert!(other.path("letter").exists());

    let begun = Instant::now();
    let (count, refusal) = fill(mount.root(), 200_000, || says_full_home(&mount.wayfs(&client, &["status"])));
    println!("{count} names in {:?}, then {refusal:?}", begun.elapsed());
    assert!(refusal.is_none(), "the client's disk has room: {refusal:?}");
    let more = (count..count + 500).try_for_each(|number| fs::write(mount.path(&name(number)), ""));
    assert!(more.is_ok(), "work goes on beside a full home: {more:?}");

    let is_connected = |mount: &wayfs_system_tests::Mount, machine: &Machine| {
        let status = mount.wayfs(machine, &["status", "--json"]).ok().json();
        status[0]["volumes"][0]["parent"]["connected"].as_bool() == Some(true)
    };
    // It is looked at for a while: sessions that end come back, and end again.
    let logs = || [&mount, &other].map(|mount| mount.process.log().matches("no space left").count());
    for _ in 0..20 {
        assert!(server.process.ended().is_none(), "the home ended: {}", server.process.log());
        assert!(is_connected(&mount, &client), "{}", mount.process.log());
        assert!(is_connected(&other, &reader), "{}", other.process.log());
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(logs(), [0, 0], "no session ended for want of room: {}", mount.process.log());
    for (mount, machine) in [(&mount, &client), (&other, &reader)] {
        assert!(says_full_home(&mount.wayfs(machine, &["status"])), "{}", mount.wayfs(machine, &["status"]).out);
    }
    let path = other.path("letter");
    let read = within("read what is not cached", Duration::from_secs(40), move || fs::read(path));
    assert!(read.as_ref().is_ok_and(|bytes| *bytes == vec![7; 300_000]), "reading needs no room: {:?}", read.err());

    fs::remove_file(ballast).unwrap();
    eventually("all names are at the home", Duration::from_secs(120), || {
        mount.wayfs(&client, &["sync", "--until", "stable", "--timeout", "30"]).status.success()
    });
    assert!(server.process.ended().is_none(), "the home ended: {}", server.process.log());
    let fresh = Machine::new("fresh");
    let third = fresh.mount(&server.ticket(&home, "work"), &[]);
    for number in (0..count).step_by(997) {
        let path = third.path(&format!("d{}/{}", number / NAMES, name(number)));
        assert!(fs::symlink_metadata(&path).is_ok(), "name {number} of {count}");
    }
}

/// Proves [S-full-disk] where it is the cache that has no room: it says nothing that is not so, and shows what it missed when it
/// has room.
#[test]
fn a_cache_without_room_for_names_shows_them_when_it_has_room() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let writer = Machine::new("writer");
    let source = writer.mount(&server.ticket(&home, "work"), &[]);
    for directory in ["a", "b"] {
        fs::create_dir(source.path(directory)).unwrap();
        (0..40).for_each(|number| fs::write(source.path(directory).join(name(number)), "text").unwrap());
    }
    std::os::unix::fs::symlink("target", source.path("a/link")).unwrap();
    source.sync(&writer, "stable");
    let reader = Machine::new("reader");
    let Some(_disk) = SmallDisk::sized(&reader.path("cache"), SIZE) else { return };
    let mut mount = reader.mount(&server.ticket(&home, "work"), &[]);
    assert_eq!(names(mount.root()).unwrap().len(), 2);
    assert_eq!(names(&mount.path("a")).unwrap().len(), 41);

    let filler = fill_up(&reader.path("cache"));
    for round in 0..10 {
        fs::write(source.path("a").join(format!("more-{round}")), "more").unwrap();
        fs::write(source.path("b").join(format!("more-{round}")), "more").unwrap();
        // `b` was never listed here: it is all there, or it is an error.
        if let Ok(found) = names(&mount.path("b")) {
            assert!(found.len() >= 40, "round {round}: {} names of 40 and more", found.len());
        }
        let link = mount.path("a/link");
        match within("read a link", Duration::from_secs(60), move || fs::read_link(link)) {
            Ok(target) => assert_eq!(target, Path::new("target")),
            Err(error) => assert_ne!(error.raw_os_error(), Some(libc::EIO), "round {round}"),
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(mount.process.ended().is_none(), "a full disk is no broken disk: {}", mount.process.log());
    fs::remove_file(filler).unwrap();
    for directory in ["a", "b"] {
        let truth = names(&source.path(directory)).unwrap();
        eventually("all names are seen", Duration::from_secs(60), || {
            names(&mount.path(directory)).is_ok_and(|found| found == truth)
        });
    }
    eventually("work goes on", Duration::from_secs(60), || fs::write(mount.path("after"), "after").is_ok());
    mount.sync(&reader, "stable");
}
