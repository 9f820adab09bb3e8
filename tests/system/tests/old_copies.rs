//! Caches that were put back to an older copy, and caches that are used twice: the copies go on as members of their
//! own, and nobody loses anything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

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

/// What every machine of a volume has, and what each says of itself.
struct Fleet {
    site: Site,
    _station: (Machine, Server),
    client: (Machine, Mount),
}

impl Fleet {
    /// A home, a station, and a client that uses the station.
    fn new() -> Self {
        let site = Site::new();
        let station = Machine::new("station");
        let served = station.serve(free_port(), &[]);
        let ticket = site.server.station_ticket(&site.machine, "work");
        served.wayfs(&station, &["station", "join", &ticket]).ok();
        let (machine, mount) = site.client("a");
        eventually("the client uses the station", SEEN, || {
            mount.wayfs(&machine, &["station", "use", &format!("127.0.0.1:{}", served.port)]).status.success()
                && mount.wayfs(&machine, &["status", "--json"]).out.contains(&served.port.to_string())
        });
        Self { site, _station: (station, served), client: (machine, mount) }
    }

    fn write(&self, prefix: &str, count: usize) -> BTreeSet<String> {
        write(&self.client.1, prefix, count)
    }

    fn sync(&self) {
        self.client.1.sync(&self.client.0, "stable");
    }

    /// The home's processes end; its data directory is what `change` makes of it; it starts again.
    fn restart_home(&mut self, more: &[&str], change: impl FnOnce(&Machine)) {
        self.site.server.process.kill();
        change(&self.site.machine);
        self.site.server = self.site.machine.serve(self.site.server.port, more);
    }

    /// A fresh client of the home sees all, so the home has all.
    fn assert_home_has(&self, names: &BTreeSet<String>) {
        let (_machine, reader) = self.site.client("reader");
        assert_has(&reader, names);
    }
}

/// [S-damage] Small files of a volume that are cut short.
#[test]
fn a_volume_whose_small_files_are_cut_short_stops_alone_or_goes_on() {
    let mut fleet = Fleet::new();
    fleet.site.server.wayfs(&fleet.site.machine, &["volume", "create", "other"]).ok();
    let all = fleet.write("file", 3);
    fleet.sync();
    let directory = fleet.site.machine.path("data").join("volumes").join(volume_id(&fleet, "work"));
    let cut = |name: &str| {
        let bytes = fs::read(directory.join(name)).unwrap();
        fs::write(directory.join(name), &bytes[..bytes.len() / 2]).unwrap();
    };
    fleet.restart_home(&[], |_| cut("volume.json"));
    fleet.assert_home_has(&all);
    fleet.restart_home(&[], |_| cut("tickets.json"));
    let said = fleet.site.server.wayfs(&fleet.site.machine, &["status", "--json"]).ok().out;
    assert!(said.contains("--accept-loss work"), "{said}");
    fleet.site.server.ticket(&fleet.site.machine, "other");
    fleet.restart_home(&["--accept-loss", "work"], |_| {});
    fleet.assert_home_has(&all);
}

fn volume_id(fleet: &Fleet, name: &str) -> String {
    let status = fleet.site.server.wayfs(&fleet.site.machine, &["status", "--json"]).ok().json();
    let found = find_volumes(&status).into_iter().find(|volume| volume["name"] == name);
    found.and_then(|volume| volume["id"].as_str().map(str::to_owned)).unwrap_or_else(|| panic!("{status}"))
}

/// The volumes of a report, be it of one daemon or of a list of them.
fn find_volumes(report: &serde_json::Value) -> Vec<serde_json::Value> {
    match report {
        serde_json::Value::Array(all) => all.iter().flat_map(find_volumes).collect(),
        serde_json::Value::Object(fields) => match fields.get("volumes").and_then(|volumes| volumes.as_array()) {
            Some(volumes) => volumes.clone(),
            None => fields.values().flat_map(find_volumes).collect(),
        },
        _ => Vec::new(),
    }
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

/// What stands beside these names are copies of them: whoever wrote what its station wrote again, too, may make one.
fn assert_no_others(mount: &Mount, names: &BTreeSet<String>) {
    for other in listed(mount).difference(names) {
        let of = other.split_once(".conflict-").map(|(of, _)| of);
        assert!(of.is_some_and(|of| names.contains(of)), "{other} was written by nobody");
        assert_eq!(fs::read(mount.path(other)).ok(), of.and_then(|of| fs::read(mount.path(of)).ok()), "{other}");
    }
}

/// [S-home-put-back] A home is put back to an older copy while two stations, each with a client, and a client of its own go on.
#[test]
fn a_home_that_was_put_back_among_stations_and_clients_has_all_again() {
    let mut fleet = Fleet::new();
    let far = Machine::new("far");
    let far_station = far.serve(free_port(), &[]);
    let ticket = fleet.site.server.station_ticket(&fleet.site.machine, "work");
    far_station.wayfs(&far, &["station", "join", &ticket]).ok();
    let (b_machine, b) = fleet.site.client("b");
    eventually("the second client uses the second station", SEEN, || {
        b.wayfs(&b_machine, &["station", "use", &format!("127.0.0.1:{}", far_station.port)]).status.success()
            && b.wayfs(&b_machine, &["status", "--json"]).out.contains(&far_station.port.to_string())
    });
    let (c_machine, c) = fleet.site.client("c");
    let mut all = fleet.write("early", 3);
    all.extend(write(&b, "early-b", 3));
    all.extend(write(&c, "early-c", 3));
    fleet.sync();
    b.sync(&b_machine, "stable");
    c.sync(&c_machine, "stable");
    fleet.restart_home(&[], |home| copy(home, "data", "copy"));
    all.extend(fleet.write("lost", 3));
    all.extend(write(&b, "lost-b", 3));
    all.extend(write(&c, "lost-c", 3));
    fleet.sync();
    b.sync(&b_machine, "stable");
    c.sync(&c_machine, "stable");
    fleet.restart_home(&[], |home| copy(home, "copy", "data"));
    all.extend(fleet.write("late", 2));
    all.extend(write(&b, "late-b", 2));
    all.extend(write(&c, "late-c", 2));
    for (machine, mount) in [(&fleet.client.0, &fleet.client.1), (&b_machine, &b), (&c_machine, &c)] {
        let synced = mount.wayfs(machine, &["sync", "--until", "stable", "--timeout", "80"]);
        assert!(
            synced.status.success(),
            "{} {} {}",
            synced.out,
            mount.wayfs(machine, &["queue"]).out,
            mount.process.log()
        );
    }
    fleet.assert_home_has(&all);
    for mount in [&fleet.client.1, &b, &c] {
        assert_has(mount, &all);
        assert_no_others(mount, &all);
    }
}
