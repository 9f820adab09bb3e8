//! What programs that watch a mount with inotify are told of changes by another machine.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use wayfs_system_tests::{Process, World, eventually, within};

/// Longest wait for an event.
const HEARD: Duration = Duration::from_secs(20);
/// Pause between changes whose events are to be told apart.
const QUIET: Duration = Duration::from_millis(100);

/// How much longer one pause is than another.
const LONGER: Duration = Duration::from_millis(50);

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

    /// As [`Watcher::hears`], looking all the time.
    fn hears_at_once(&mut self, word: &str, name: &str) {
        let (wanted, begin) = ((word.to_owned(), name.to_owned()), Instant::now());
        while !self.seen.contains(&wanted) {
            assert!(begin.elapsed() < HEARD, "{word} of {name} is not told");
            std::thread::sleep(Duration::from_millis(1));
            self.read();
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
    // That may have been told of the first bytes. A change of mode that comes along with new bytes is told as one of bytes.
    assert_eq!(fs::read_to_string(away.join("new")).unwrap(), "second");
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

/// What is told, of what, and what does it.
type Step<'a> = (&'a str, &'a str, &'a dyn Fn(&Path));

/// Proves [S-watch], and prints how long it takes from the return of a change at one machine to the event at the other; `WAYFS_PROGRAM_ROUNDS`
/// says how many files are made, changed, renamed and removed.
#[test]
fn each_change_of_another_machine_is_told_and_how_soon_is_printed() {
    let world = World::default();
    let (_machine, other) = world.other("there");
    let (here, away) = (world.directory("d"), other.path("d"));
    eventually("the directory is seen", HEARD, || away.is_dir());
    assert_eq!(fs::read_dir(&away).unwrap().count(), 0);
    let mut watcher = Watcher::of(&away);
    let mut taken: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for number in 0..wayfs_system_tests::turns(10) {
        let (name, other_name) = (format!("file-{number}"), format!("renamed-{number}"));
        let steps: [Step<'_>; 4] = [
            ("create", &name, &|here| fs::write(here.join(&name), "text").unwrap()),
            // The bytes of the first write are told, too, perhaps later than its name.
            ("modify", &name, &|here| fs::write(here.join(&name), "other text").unwrap()),
            ("create", &other_name, &|here| fs::rename(here.join(&name), here.join(&other_name)).unwrap()),
            ("delete", &other_name, &|here| fs::remove_file(here.join(&other_name)).unwrap()),
        ];
        for (at, (word, of, change)) in steps.into_iter().enumerate() {
            // What came before has been told by then. Pauses of several lengths keep no step with what the daemon does twice a second.
            std::thread::sleep(QUIET + LONGER * ((7 * number + at as u32) % 11));
            watcher.read();
            watcher.seen.clear();
            change(&here);
            let begin = Instant::now();
            watcher.hears_at_once(word, of);
            taken.entry(["made", "written", "renamed", "removed"][at]).or_default().push(begin.elapsed());
        }
    }
    for (what, mut taken) in taken {
        taken.sort();
        let part = |percent: usize| taken[(taken.len() - 1) * percent / 100].as_millis();
        let count = taken.len();
        println!(
            "{what}, {count} times: half within {} ms, 90 % {}, 99 % {}, all {}",
            part(50),
            part(90),
            part(99),
            part(100)
        );
    }
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

/// Whether a program is on this machine; a missing one is said aloud.
fn have(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {program} is not installed here");
    }
    found
}

/// What is waited for in the end.
enum Then {
    Changed(String),
    Removed(String),
}

/// What bundlers and editors have on Linux: `fs.watch` of node, which walks a tree and watches each directory.
const NODE: &str = r#"
const fs = require("fs");
fs.watch(process.argv[1], { recursive: true }, (event, name) => console.log(event + " " + name));
console.log("ready");
"#;

/// Proves [S-watch] with the programs that people watch trees with: a file that another machine makes, changes and removes below
/// the watched directory.
#[test]
fn programs_that_watch_trees_hear_what_another_machine_does_below() {
    let world = World::default();
    let (_there, other) = world.other("there");
    let here = world.directory("tree");
    fs::create_dir_all(here.join("src/deep")).unwrap();
    fs::write(here.join("src/deep/main.c"), "1").unwrap();
    world.mount.sync(&world.client, "visible");
    let away = other.path("tree");
    eventually("the tree is seen", HEARD, || away.join("src/deep/main.c").exists());
    let mut node = Command::new("node");
    node.args(["-e", NODE]).arg(&away);
    let mut inotifywait = Command::new("inotifywait");
    inotifywait.args(["-m", "-r", "--format", "%e %w%f"]).arg(&away);
    let (changed, made) = ("src/deep/main.c", "src/deep/made.c");
    // What each says of the change, of what is made, and of what is changed and removed after that: removals are the same word as
    // what is made to node.
    let named = |word: &str, name: &str| format!("{word} {}", away.join(name).display());
    let watching: Vec<(Process, [String; 2], Then)> = [
        (
            "node",
            node,
            "ready",
            [format!("change {changed}"), format!("rename {made}")],
            Then::Changed(format!("change {made}")),
        ),
        (
            "inotifywait",
            inotifywait,
            "Watches established",
            [named("MODIFY", changed), named("CREATE", made)],
            Then::Removed(named("DELETE", made)),
        ),
    ]
    .into_iter()
    .filter(|(program, ..)| have(program))
    .map(|(program, mut command, ready, first, then)| {
        let process = Process::start(&mut command, &world.home.path(&format!("{program}.log")));
        eventually(&format!("{program} watches"), HEARD, || process.has_said(ready));
        (process, first, then)
    })
    .collect();
    fs::write(here.join(changed), "two").unwrap();
    fs::write(here.join(made), "new").unwrap();
    for (process, words, _) in &watching {
        words.iter().for_each(|word| eventually(word, HEARD, || process.has_said(word)));
    }
    fs::write(here.join(made), "newer").unwrap();
    for (process, _, then) in &watching {
        if let Then::Changed(word) = then {
            eventually(word, HEARD, || process.has_said(word));
        }
    }
    fs::remove_file(here.join(made)).unwrap();
    for (process, _, then) in &watching {
        if let Then::Removed(word) = then {
            eventually(word, HEARD, || process.has_said(word));
        }
    }
}
