//! Commands that wait: each names what holds it up and the way out, and its bar moves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(60);

struct Sites {
    home: (Machine, Server),
    station: (Machine, Server),
}

impl Sites {
    fn new() -> Self {
        let machine = Machine::new("home");
        let server = machine.serve(free_port(), &[]);
        server.wayfs(&machine, &["volume", "create", "work"]).ok();
        let near = Machine::new("near");
        let station = near.serve(free_port(), &[]);
        station.wayfs(&near, &["station", "join", &server.station_ticket(&machine, "work")]).ok();
        Self { home: (machine, server), station: (near, station) }
    }

    fn client(&self, name: &str) -> (Machine, Mount) {
        let machine = Machine::new(name);
        let mount = machine.mount(&self.home.1.ticket(&self.home.0, "work"), &[]);
        (machine, mount)
    }

    /// A client that was told by hand to use the station, and does.
    fn client_of_station(&self, name: &str) -> (Machine, Mount) {
        let (machine, mount) = self.client(name);
        let address = format!("127.0.0.1:{}", self.station.1.port);
        eventually("the client uses the station", SEEN, || {
            mount.wayfs(&machine, &["station", "use", &address]).status.success()
                && mount.wayfs(&machine, &["station", "why", "--json"]).json()["chosen"]
                    .as_str()
                    .is_some_and(|name| name.contains("near"))
        });
        (machine, mount)
    }
}

/// Proves [S-chosen-station]: a station that the user chose is dead. Everything that waits for it says so.
#[test]
fn a_dead_station_that_was_chosen_is_named_by_every_command_that_waits_for_it() {
    let mut sites = Sites::new();
    let (machine, mount) = sites.client_of_station("a");
    let why = mount.wayfs(&machine, &["station", "why"]).ok().out;
    assert!(why.contains("You chose it") && why.contains("station use auto"), "{why}");
    sites.station.1.process.kill();
    fs::write(mount.path("note"), "waits").unwrap();
    let names_it = |text: &str| {
        text.contains("the station that you chose, cannot be reached") && text.contains("wayfs station use auto")
    };
    eventually("status names it", SEEN, || names_it(&mount.wayfs(&machine, &["status"]).out));
    for command in [&["station", "why"][..], &["queue"], &["sync", "--timeout", "2"], &["doctor"], &["online"]] {
        let said = mount.wayfs(&machine, command);
        assert!(names_it(&format!("{}{}", said.out, said.err)), "{command:?}: {} {}", said.out, said.err);
    }
    let root = mount.root().to_str().unwrap().to_owned();
    let flush = machine.wayfs(&["umount", "--flush", "--timeout", "2", &root]);
    assert!(!flush.status.success());
    assert!(names_it(&format!("{}{}", flush.out, flush.err)), "{} {}", flush.out, flush.err);
    // The way out that they name leads out.
    mount.wayfs(&machine, &["station", "use", "auto"]).ok();
    mount.sync(&machine, "stable");
}

/// `station why` says when a nearer one is looked for, and `use auto` looks at once.
#[test]
fn a_client_that_was_told_to_choose_by_itself_says_when_it_looks_again() {
    let sites = Sites::new();
    let (machine, mount) = sites.client_of_station("a");
    mount.wayfs(&machine, &["station", "use", "auto"]).ok();
    eventually("it says when it looks again", SEEN, || {
        let why = mount.wayfs(&machine, &["station", "why", "--json"]).ok().json();
        let reasons = why["reasons"].to_string();
        assert_eq!(why["candidates"].as_array().map(Vec::len), Some(2), "{why}");
        reasons.contains("It looks for a nearer one again in")
            && reasons.contains("wayfs station use auto")
            && !reasons.contains("You chose")
    });
}

/// The states of a wait, as its bar gets them, until it is over.
fn progress(machine: &Machine, command: &str) -> Vec<(u64, u64)> {
    let socket = machine.cache_of("work").join("control.sock");
    let mut stream = UnixStream::connect(&socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
    stream.set_read_timeout(Some(SEEN)).unwrap();
    stream.write_all(format!("{command}\n").as_bytes()).unwrap();
    let mut states = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line["progress"]["done_bytes"].as_u64().zip(line["progress"]["total_bytes"].as_u64()) {
            Some(state) => states.push(state),
            None => return states,
        }
    }
    panic!("no end: {states:?}");
}

/// Proves [S-bar]: the bar of a wait for *stable* moves while contents go from the station to the home.
#[test]
fn the_bar_of_a_wait_for_stable_moves() {
    let sites = Sites::new();
    let (machine, mount) = sites.client_of_station("a");
    let len = 160 << 20;
    let bytes: Vec<u8> = (0..len / 8_u64).flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect();
    fs::write(mount.path("film"), bytes).unwrap();
    mount.sync(&machine, "safe");
    // A home that runs for a part of the time only is a slow one.
    let is_over = AtomicBool::new(false);
    let states = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                sites.home.1.process.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(180));
                sites.home.1.process.signal(Signal::CONT);
                std::thread::sleep(Duration::from_millis(30));
            }
        });
        let states = progress(&machine, r#"{"command":"sync","until":"stable"}"#);
        is_over.store(true, Ordering::SeqCst);
        states
    });
    assert!(states.windows(2).all(|two| two[0].0 <= two[1].0), "it never goes back: {states:?}");
    let between = states.iter().filter(|(done, total)| *done > 0 && done < total).count();
    assert!(between >= 1, "it moved between nothing and all: {states:?}");
    assert!(mount.wayfs(&machine, &["sync", "--until", "stable", "--timeout", "1"]).status.success());
}

/// Proves [S-sync-path]: a wait for a path covers what others wrote there, and says so where it cannot know.
#[test]
fn a_wait_for_a_path_covers_what_others_wrote_or_says_that_it_is_unknown() {
    let mut sites = Sites::new();
    let (a_machine, a) = sites.client_of_station("a");
    let (b_machine, b) = sites.client_of_station("b");
    fs::create_dir(a.path("dir")).unwrap();
    fs::write(a.path("dir/first"), "one").unwrap();
    a.sync(&a_machine, "visible");
    eventually("B sees it", SEEN, || fs::read_to_string(b.path("dir/first")).is_ok_and(|text| text == "one"));
    let sync = |until: &str, seconds: &str| {
        let path = b.path("dir").to_str().unwrap().to_owned();
        b.wayfs(&b_machine, &["sync", &path, "--until", until, "--timeout", seconds])
    };
    sync("stable", "40").ok();
    // Without the home nothing new becomes visible, and B knows it of its station.
    sites.home.1.process.kill();
    fs::write(a.path("dir/second"), "two").unwrap();
    a.sync(&a_machine, "safe");
    eventually("B sees it, too", SEEN, || fs::read_to_string(b.path("dir/second")).is_ok_and(|text| text == "two"));
    sync("safe", "40").ok();
    let refused = sync("visible", "3");
    assert_eq!(refused.code(), 1, "{} {}", refused.out, refused.err);
    assert!(refused.out.contains("that others wrote"), "{} {}", refused.out, refused.err);
    // Without its station it cannot know.
    b.wayfs(&b_machine, &["offline"]).ok();
    let unknown = sync("visible", "60");
    assert_eq!(unknown.code(), 1, "{} {}", unknown.out, unknown.err);
    assert!(unknown.out.contains("unknown here"), "{} {}", unknown.out, unknown.err);
    b.wayfs(&b_machine, &["auto"]).ok();
    sites.home.1 = sites.home.0.serve(sites.home.1.port, &[]);
    sync("visible", "80").ok();
}
