//! A member that is removed with a fence, in the real program: what only a station has of it is dropped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, eventually, free_port};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(60);

fn holds(mount: &Mount, name: &str, text: &str) -> bool {
    fs::read(mount.path(name)).is_ok_and(|bytes| bytes == text.as_bytes())
}

fn uses_station(mount: &Mount, machine: &Machine) -> bool {
    mount.wayfs(machine, &["status"]).out.contains("(station), connected")
}

/// Proves [S-fence]: a lost laptop wrote by way of a station while the home was away. It is removed with a fence before the station comes
/// back: its late file and its late contents are nowhere, what it had written before stays, and what others wrote at that station comes.
#[test]
fn what_a_station_brings_of_a_fenced_member_is_dropped_and_all_else_stays() {
    let home = Machine::new("home");
    let mut server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let site = Machine::new("site");
    let mut station = site.serve(free_port(), &[]);
    station.wayfs(&site, &["station", "join", &server.station_ticket(&home, "work")]).ok();
    let (ann, bob) = (Machine::new("ann"), Machine::new("bob"));
    let ann_mount = ann.mount(&server.ticket(&home, "work"), &[]);
    let bob_mount = bob.mount(&server.ticket(&home, "work"), &[]);
    fs::write(ann_mount.path("early"), "early").unwrap();
    ann_mount.sync(&ann, "stable");
    eventually("bob sees it", SEEN, || holds(&bob_mount, "early", "early"));
    for (mount, machine) in [(&ann_mount, &ann), (&bob_mount, &bob)] {
        eventually("the station is known", SEEN, || {
            mount.wayfs(machine, &["station", "list", "--json"]).out.contains("\"role\":\"station\"")
        });
    }
    server.process.kill();
    for (mount, machine) in [(&ann_mount, &ann), (&bob_mount, &bob)] {
        eventually("the station is used", SEEN, || uses_station(mount, machine));
    }
    fs::write(ann_mount.path("late"), "late").unwrap();
    fs::write(ann_mount.path("early"), "changed").unwrap();
    fs::write(bob_mount.path("of bob"), "bob").unwrap();
    ann_mount.sync(&ann, "safe");
    bob_mount.sync(&bob, "safe");
    eventually("bob sees it at the station", SEEN, || {
        holds(&bob_mount, "late", "late") && holds(&bob_mount, "early", "changed")
    });
    // Ann's machine is gone, and the station away when the home hears of that.
    drop(ann_mount);
    station.process.kill();
    let server = home.serve(server.port, &[]);
    let members = server.wayfs(&home, &["volume", "members", "work", "--json"]).ok().json();
    let list = members["members"].as_array().unwrap();
    let is_ann = |member: &&serde_json::Value| member["label"].as_str().is_some_and(|label| label.ends_with("@ann"));
    let origin = list.iter().find(is_ann).unwrap_or_else(|| panic!("{members}"))["origin"].to_string();
    server.wayfs(&home, &["volume", "revoke", "--fence", "work", &origin]).ok();
    station = site.serve(station.port, &[]);

    let ask_at = |mount: &Mount| {
        mount.wayfs(&bob, &["refresh"]);
        holds(mount, "of bob", "bob") && holds(mount, "early", "early") && !mount.path("late").exists()
    };
    eventually("bob's work is there, and of ann's what the home had", SEEN, || ask_at(&bob_mount));
    bob_mount.sync(&bob, "stable");
    let said = || station.wayfs(&site, &["queue"]).out;
    eventually("nothing waits at the station", SEEN, || said().contains("Nothing is waiting"));
    let cara = Machine::new("cara");
    let cara_mount = cara.mount(&server.ticket(&home, "work"), &[]);
    eventually("a fresh client has the same", SEEN, || ask_at(&cara_mount));
    let shown = server.wayfs(&home, &["volume", "members", "work"]).ok().out;
    assert!(shown.contains("fenced"), "{shown}");
    drop(cara_mount);
    // Whoever has the key of the lost laptop is nobody.
    let ann_mount = ann.mount("work", &["--offline"]);
    ann_mount.wayfs(&ann, &["auto"]).ok();
    eventually("it is turned away", SEEN, || ann_mount.wayfs(&ann, &["status"]).out.contains("needs-attention"));
    assert!(!bob_mount.path("late").exists());
}
