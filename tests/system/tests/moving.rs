//! A home that moves to another machine and port: its station and clients find it, or are told where it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, run};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(90);

/// Stops a home, copies its data directory to another machine, and starts it there at another port.
fn move_away(machine: &Machine, mut server: Server) -> (Machine, Server) {
    server.wayfs(machine, &["stop"]).ok();
    eventually("the home has ended", SEEN, || server.process.ended().is_some());
    let elsewhere = Machine::new("elsewhere");
    run(Command::new("cp").arg("-a").arg(&server.data).arg(elsewhere.path("data"))).ok();
    fs::remove_dir_all(&server.data).unwrap();
    let moved = elsewhere.serve(free_port(), &[]);
    (elsewhere, moved)
}

fn client(machine: &Machine, server: &Server, name: &str) -> (Machine, Mount) {
    let laptop = Machine::new(name);
    let mount = laptop.mount(&server.ticket(machine, "work"), &[]);
    (laptop, mount)
}

/// Proves [S-moved]: the station is where it was, so nobody has to be told anything.
#[test]
fn a_home_that_moves_is_found_by_its_station_and_the_clients_of_that() {
    let machine = Machine::new("home");
    let server = machine.serve(free_port(), &[]);
    server.wayfs(&machine, &["volume", "create", "work"]).ok();
    let near = Machine::new("near");
    let station = near.serve(free_port(), &[]);
    station.wayfs(&near, &["station", "join", &server.station_ticket(&machine, "work")]).ok();
    let (laptop, mount) = client(&machine, &server, "laptop");
    let address = format!("127.0.0.1:{}", station.port);
    eventually("the client uses the station", SEEN, || {
        mount.wayfs(&laptop, &["station", "use", &address]).status.success()
            && mount.wayfs(&laptop, &["status", "--json"]).out.contains(&station.port.to_string())
    });
    fs::write(mount.path("before"), "before").unwrap();
    mount.sync(&laptop, "stable");
    let (elsewhere, moved) = move_away(&machine, server);
    fs::write(mount.path("meanwhile"), "meanwhile").unwrap();
    let synced = mount.wayfs(&laptop, &["sync", "--until", "stable", "--timeout", "80"]);
    assert!(synced.status.success(), "{} {}", synced.out, station.wayfs(&near, &["status"]).out);
    let (_reader, other) = client(&elsewhere, &moved, "reader");
    eventually("a fresh client of the home has all", SEEN, || {
        fs::read_to_string(other.path("before")).is_ok_and(|text| text == "before")
            && fs::read_to_string(other.path("meanwhile")).is_ok_and(|text| text == "meanwhile")
    });
}

/// Proves [S-moved]: nobody could tell the client, so a person does.
#[test]
fn a_client_without_a_station_is_told_by_hand_where_its_home_is() {
    let machine = Machine::new("home");
    let server = machine.serve(free_port(), &[]);
    server.wayfs(&machine, &["volume", "create", "work"]).ok();
    let (laptop, mount) = client(&machine, &server, "laptop");
    fs::write(mount.path("before"), "before").unwrap();
    mount.sync(&laptop, "stable");
    let (_elsewhere, moved) = move_away(&machine, server);
    fs::write(mount.path("meanwhile"), "meanwhile").unwrap();
    assert_eq!(mount.wayfs(&laptop, &["sync", "--timeout", "3"]).code(), 1, "nobody knows where the home is");
    mount.wayfs(&laptop, &["station", "address", "home", &format!("127.0.0.1:{}", moved.port)]).ok();
    let synced = mount.wayfs(&laptop, &["sync", "--until", "stable", "--timeout", "80"]);
    assert!(synced.status.success(), "{} {}", synced.out, mount.wayfs(&laptop, &["station", "list"]).out);
}
