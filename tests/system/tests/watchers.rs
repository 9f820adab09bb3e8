//! What programs that watch a mount with inotify are told of changes by another machine.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use wayfs_system_tests::{World, eventually, within};

/// Longest wait for an event.
const HEARD: Duration = Duration::from_secs(20);

/// A program that watches one directory.
struct Watcher {
    inotify: OwnedFd,
    seen: BTreeSet<(String, String)>,
}

impl Watcher {
    fn of(directory: &Path) -> Self {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
        inotify::add_watch(&inotify, directory, WatchFlags::ALL_EVENTS).expect("watch the directory");
        Self { inotify, seen: BTreeSet::new() }
    }

    fn read(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            for (flag, word) in [
                (ReadFlags::CREATE, "create"),
                (ReadFlags::MODIFY, "modify"),
                (ReadFlags::CLOSE_WRITE, "close_write"),
                (ReadFlags::ATTRIB, "attrib"),
                (ReadFlags::DELETE, "delete"),
            ] {
                if event.events().contains(flag) {
                    self.seen.insert((word.to_owned(), name.clone()));
                }
            }
        }
    }

    fn hears(&mut self, word: &str, name: &str) {
        let wanted = (word.to_owned(), name.to_owned());
        eventually(&format!("{word} of {name}"), HEARD, || {
            self.read();
            self.seen.contains(&wanted)
        });
    }
}

/// [S-watch]
#[test]
fn a_program_that_watches_a_directory_hears_what_another_machine_does_in_it() {
    let world = World::default();
    let (there, other) = world.other("there");
    let (here, away) = (world.mount.path("d"), other.path("d"));
    within("make a directory", HEARD, {
        let here = here.clone();
        move || fs::create_dir(here).unwrap()
    });
    world.mount.sync(&world.client, "visible");
    eventually("the directory is seen", HEARD, || away.is_dir());
    assert_eq!(fs::read_dir(&away).unwrap().count(), 0);
    let mut watcher = Watcher::of(&away);

    fs::write(here.join("new"), "first").unwrap();
    fs::create_dir(here.join("sub")).unwrap();
    std::os::unix::fs::symlink("new", here.join("link")).unwrap();
    for (word, name) in [("create", "new"), ("close_write", "new"), ("create", "sub"), ("create", "link")] {
        watcher.hears(word, name);
    }
    assert_eq!(fs::read_to_string(away.join("new")).unwrap(), "first");

    watcher.seen.clear();
    fs::write(here.join("new"), "second").unwrap();
    watcher.hears("modify", "new");
    fs::set_permissions(here.join("new"), fs::Permissions::from_mode(0o600)).unwrap();
    watcher.hears("attrib", "new");
    fs::rename(here.join("new"), here.join("renamed")).unwrap();
    watcher.hears("delete", "new");
    watcher.hears("create", "renamed");
    fs::remove_file(here.join("renamed")).unwrap();
    watcher.hears("delete", "renamed");
    fs::remove_dir(here.join("sub")).unwrap();
    watcher.hears("delete", "sub");

    // What the daemon did for the watchers changed nothing: both machines show the same, and nothing else.
    let names = |directory: &Path| -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&here), ["link"]);
    assert_eq!(names(&away), ["link"]);
    let status = other.wayfs(&there, &["status", "--json"]).ok().json().to_string();
    assert!(!status.contains("\"conflicts\":1"), "{status}");
    assert_eq!(other.wayfs(&there, &["queue"]).ok().code(), 0);
}

/// [S-watch]
#[test]
fn watching_can_be_switched_off() {
    let world = World::default();
    let there = wayfs_system_tests::Machine::new("there");
    let other = there.mount(&world.server.ticket(&world.home, "work"), &["-o", "watch=off"]);
    assert_eq!(fs::read_dir(other.root()).unwrap().count(), 0);
    let mut watcher = Watcher::of(other.root());
    let here = world.mount.path("new");
    within("write a file", HEARD, move || fs::write(here, "x").unwrap());
    eventually("the file is seen", HEARD, || other.path("new").exists());
    watcher.read();
    assert!(!watcher.seen.contains(&("create".to_owned(), "new".to_owned())), "{:?}", watcher.seen);
}
