//! Caches that were put back to an older copy, and caches that are used twice: the copies go on as members of their
//! own, and nobody loses anything.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, run};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(40);

struct Site {
    machine: Machine,
    server: Server,
}

impl Site {
    fn new() -> Self {
        let machine = Machine::new("home");
        let server = machine.serve(free_port(), &[]);
        server.wayfs(&machine, &["volume", "create", "work"]).ok();
        Self { machine, server }
    }

    fn client(&self, name: &str) -> (Machine, Mount) {
        let machine = Machine::new(name);
        let mount = machine.mount(&self.server.ticket(&self.machine, "work"), &[]);
        (machine, mount)
    }
}

fn copy(machine: &Machine, from: &str, to: &str) {
    let _ = fs::remove_dir_all(machine.path(to));
    run(Command::new("cp").arg("-a").arg(machine.path(from)).arg(machine.path(to))).ok();
}

fn write(mount: &Mount, prefix: &str, count: usize) -> BTreeSet<String> {
    let names: BTreeSet<String> = (0..count).map(|number| format!("{prefix}-{number}")).collect();
    for name in &names {
        fs::write(mount.path(name), name).unwrap();
        fs::File::open(mount.path(name)).unwrap().sync_all().unwrap();
    }
    names
}

fn listed(mount: &Mount) -> BTreeSet<String> {
    fs::read_dir(mount.root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn assert_has(mount: &Mount, names: &BTreeSet<String>) {
    eventually(&format!("all of {} names are seen", names.len()), SEEN, || {
        names.is_subset(&listed(mount))
            && names.iter().all(|name| fs::read_to_string(mount.path(name)).is_ok_and(|text| text == *name))
    });
}

/// [S-old-copy] A cache is copied, 40 files are written, the copy is put back, and more are written offline.
#[test]
fn a_cache_that_was_put_back_loses_nothing() {
    let site = Site::new();
    let (machine, mut mount) = site.client("a");
    let (_reader_machine, reader) = site.client("reader");
    let early = write(&mount, "early", 3);
    assert_eq!(listed(&mount), early);
    mount.sync(&machine, "stable");
    mount.kill();
    copy(&machine, "cache", "copy");
    let mut mount = machine.mount("work", &[]);
    let gone = write(&mount, "gone", 40);
    mount.sync(&machine, "stable");
    mount.kill();
    copy(&machine, "copy", "cache");
    let mount = machine.mount("work", &["--offline"]);
    let fresh = write(&mount, "fresh", 15);
    mount.wayfs(&machine, &["auto"]).ok();
    mount.sync(&machine, "stable");
    let all: BTreeSet<String> = early.into_iter().chain(gone).chain(fresh).collect();
    assert_has(&mount, &all);
    assert_has(&reader, &all);
    assert_eq!(listed(&reader), all, "and no copies beside them");
}

/// [S-clone] Two clones of one cache, both mounted, each write.
#[test]
fn two_clones_of_a_cache_become_two_members() {
    let site = Site::new();
    let (machine, mut mount) = site.client("a");
    let common = write(&mount, "common", 3);
    mount.sync(&machine, "stable");
    mount.kill();
    let other = Machine::new("b");
    fs::remove_dir(other.path("cache")).unwrap();
    run(Command::new("cp").arg("-a").arg(machine.path("cache")).arg(other.path("cache"))).ok();
    let a = machine.mount("work", &[]);
    let b = other.mount("work", &[]);
    let mine = write(&a, "mine", 15);
    let theirs = write(&b, "theirs", 15);
    a.sync(&machine, "stable");
    b.sync(&other, "stable");
    let all: BTreeSet<String> = common.into_iter().chain(mine).chain(theirs).collect();
    assert_has(&a, &all);
    assert_has(&b, &all);
    let members = site.server.wayfs(&site.machine, &["volume", "members", "work", "--json"]).ok().json();
    let text = members.to_string();
    assert!(text.matches("\"client\"").count() >= 2, "two members: {text}");
}
