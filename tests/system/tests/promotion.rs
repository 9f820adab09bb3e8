//! A home that is gone for good: one of its stations takes its place, and everybody goes on.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Finished, Machine, Mount, Server, eventually, free_port, run};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(90);

/// A home, two stations, and a client at each station.
struct Fleet {
    home: (Machine, Server),
    stations: Vec<(Machine, Server)>,
    clients: Vec<(Machine, Mount)>,
}

impl Fleet {
    fn new() -> Self {
        let machine = Machine::new("home");
        let server = machine.serve(free_port(), &[]);
        server.wayfs(&machine, &["volume", "create", "work"]).ok();
        let home = (machine, server);
        let mut stations = Vec::new();
        for name in ["one", "two"] {
            let machine = Machine::new(name);
            let station = machine.serve(free_port(), &[]);
            station.wayfs(&machine, &["station", "join", &home.1.station_ticket(&home.0, "work")]).ok();
            stations.push((machine, station));
        }
        let mut clients = Vec::new();
        for (name, (_, station)) in ["a", "b"].into_iter().zip(&stations) {
            let machine = Machine::new(name);
            let mount = machine.mount(&home.1.ticket(&home.0, "work"), &[]);
            uses(&machine, &mount, station);
            clients.push((machine, mount));
        }
        Self { home, stations, clients }
    }

    fn promote(&self, at: usize, more: &[&str]) -> Finished {
        let (machine, station) = &self.stations[at];
        station.wayfs(machine, &[&["volume", "promote", "work"][..], more].concat())
    }

    fn ticket(&self, at: usize) -> String {
        let (machine, station) = &self.stations[at];
        station.ticket(machine, "work")
    }
}

fn uses(machine: &Machine, mount: &Mount, station: &Server) {
    let address = format!("127.0.0.1:{}", station.port);
    eventually("the client uses the station", SEEN, || {
        mount.wayfs(machine, &["station", "use", &address]).status.success()
            && mount.wayfs(machine, &["status", "--json"]).out.contains(&station.port.to_string())
    });
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
    eventually(&format!("exactly {} names are seen, and read", names.len()), SEEN, || {
        *names == listed(mount)
            && names.iter().all(|name| fs::read_to_string(mount.path(name)).is_ok_and(|text| text == *name))
    });
}

/// [S-promotion] The home's disk is destroyed; a station takes its place; the other station and its client come with new
/// tickets. What was safe at either station is there.
#[test]
fn a_station_takes_the_place_of_a_home_that_is_gone_and_nothing_safe_is_lost() {
    let mut fleet = Fleet::new();
    let mut all = write(&fleet.clients[0].1, "early-a", 4);
    all.extend(write(&fleet.clients[1].1, "early-b", 4));
    for (machine, mount) in &fleet.clients {
        mount.sync(machine, "stable");
    }
    for (_, mount) in &fleet.clients {
        assert_has(mount, &all);
    }
    let refused = fleet.promote(0, &["--yes"]);
    assert_eq!(refused.code(), 5, "its home answers: {} {}", refused.out, refused.err);
    fleet.home.1.process.kill();
    let copy = fleet.home.0.path("copy");
    run(Command::new("cp").arg("-a").arg(&fleet.home.1.data).arg(&copy)).ok();
    fs::remove_dir_all(&fleet.home.1.data).unwrap();
    // Safe at two stations that cannot tell each other.
    for (at, prefix) in [(0, "late-a"), (1, "late-b")] {
        all.extend(write(&fleet.clients[at].1, prefix, 4));
        fleet.clients[at].1.sync(&fleet.clients[at].0, "safe");
    }
    eventually("the station knows that its home is gone", SEEN, || {
        let look = fleet.promote(0, &[]);
        assert!(matches!(look.code(), 1 | 5), "it asks for a yes: {} {}", look.out, look.err);
        look.code() == 1
    });
    let look = fleet.promote(0, &[]);
    assert!(look.out.contains("8 records") && look.err.contains("--yes"), "{} {}", look.out, look.err);
    let (machine, station) = &fleet.stations[0];
    assert!(station.wayfs(machine, &["volume", "list"]).ok().out.contains("station"), "nothing was changed");
    let done = fleet.promote(0, &["--yes"]);
    assert_eq!(done.code(), 0, "{} {}", done.out, done.err);
    assert!(done.out.contains("wayfs volume ticket work") && done.out.contains("wayfs station join"), "{}", done.out);
    // Its own client goes on by itself.
    let (a_machine, a) = &fleet.clients[0];
    let after = write(a, "after-a", 2);
    a.sync(a_machine, "stable");
    all.extend(after);
    // The other station and its client are told by tickets.
    let ticket = station.station_ticket(machine, "work");
    let (other_machine, other) = &fleet.stations[1];
    other.wayfs(other_machine, &["station", "join", &ticket]).ok();
    let ticket = fleet.ticket(0);
    let (b_machine, b) = fleet.clients.pop().expect("two clients");
    let root = b.root().to_str().unwrap().to_owned();
    b_machine.wayfs(&["umount", &root]);
    drop(b);
    let b = b_machine.mount(&ticket, &[]);
    b.sync(&b_machine, "stable");
    assert_has(&b, &all);
    assert_has(&fleet.clients[0].1, &all);
    let reader = Machine::new("reader");
    let fresh = reader.mount(&fleet.ticket(0), &[]);
    assert_has(&fresh, &all);
    // The old home comes back: nobody follows it, and the new home's volume goes on.
    fs::rename(&copy, &fleet.home.1.data).unwrap();
    fleet.home.1 = fleet.home.0.serve(fleet.home.1.port, &[]);
    for (word, (machine, server)) in [("took the place of this home", &fleet.home), ("former home", &fleet.stations[0])]
    {
        eventually("whoever is taken for the home knows of the other", SEEN, || {
            server.wayfs(machine, &["status"]).ok().out.contains(word)
        });
    }
    let more = write(&b, "last-b", 2);
    b.sync(&b_machine, "stable");
    all.extend(more);
    assert_has(&fresh, &all);
    assert_has(&fleet.clients[0].1, &all);
}

/// A home is not promoted, nor is what is no volume.
#[test]
fn only_a_station_is_promoted() {
    let machine = Machine::new("home");
    let server = machine.serve(free_port(), &[]);
    server.wayfs(&machine, &["volume", "create", "work"]).ok();
    let refused = server.wayfs(&machine, &["volume", "promote", "work", "--yes"]);
    assert_eq!(refused.code(), 5, "{}", refused.err);
    let unknown = server.wayfs(&machine, &["volume", "promote", "other", "--yes"]);
    assert_eq!(unknown.code(), 4, "{}", unknown.err);
}
