//! A member that its home does not know any more: the home was put back to a copy of before it joined.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, Server, eventually, free_port, run};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(60);

/// Proves [S-taken-in-again] where the home lost the member: with a new ticket it goes on with its cache, under an origin that
/// the home gives it, and what it had written is there again.
#[test]
fn a_member_that_the_home_lost_goes_on_with_a_new_ticket_and_loses_nothing() {
    let home = Machine::new("home");
    let mut server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    server.process.kill();
    run(Command::new("cp").arg("-a").arg(home.path("data")).arg(home.path("copy"))).ok();
    server = home.serve(server.port, &[]);
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    fs::create_dir(mount.path("dir")).unwrap();
    for number in 0..5 {
        fs::write(mount.path(&format!("dir/before-{number}")), format!("before {number}")).unwrap();
    }
    fs::write(mount.path("dir/film"), vec![9; 700_000]).unwrap();
    mount.sync(&client, "stable");
    server.process.kill();
    fs::remove_dir_all(home.path("data")).unwrap();
    fs::rename(home.path("copy"), home.path("data")).unwrap();
    let server = home.serve(server.port, &[]);
    let said = || mount.wayfs(&client, &["status", "--json"]).ok().out;
    eventually("it is told that it is no member", SEEN, || said().contains("needs-attention"));
    assert!(said().contains("ticket"), "and what to do: {}", said());
    fs::write(mount.path("dir/meanwhile"), "meanwhile").unwrap();
    let root = mount.root().to_str().unwrap().to_owned();
    client.wayfs(&["umount", &root]);
    drop(mount);

    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    fs::write(mount.path("dir/after"), "after").unwrap();
    let synced = mount.wayfs(&client, &["sync", "--until", "stable", "--timeout", "60"]);
    assert_eq!(synced.code(), 0, "{} {} {}", synced.out, mount.wayfs(&client, &["queue"]).out, mount.process.log());
    let reader = Machine::new("reader");
    let other = reader.mount(&server.ticket(&home, "work"), &[]);
    let has = |name: &str, text: &[u8]| fs::read(other.path(name)).is_ok_and(|bytes| bytes == text);
    eventually("a fresh client of the home has all of it", SEEN, || {
        (0..5).all(|number| has(&format!("dir/before-{number}"), format!("before {number}").as_bytes()))
            && has("dir/film", &vec![9; 700_000])
            && has("dir/meanwhile", b"meanwhile")
            && has("dir/after", b"after")
    });
    let mut names: Vec<String> = fs::read_dir(other.path("dir"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 8, "no copies beside them: {names:?}");
}

/// A server stops, something is done with its data, and it starts again.
fn restart(machine: &Machine, server: &mut Server, work: impl FnOnce()) {
    server.process.kill();
    work();
    *server = machine.serve(server.port, &[]);
}

fn set_aside(machine: &Machine) {
    run(Command::new("cp").arg("-a").arg(machine.path("data")).arg(machine.path("copy"))).ok();
}

fn put_back(machine: &Machine) {
    fs::remove_dir_all(machine.path("data")).unwrap();
    fs::rename(machine.path("copy"), machine.path("data")).unwrap();
}

/// Proves [S-taken-in-again] where the only server that the machine reaches is a station which has not heard of it either: the
/// ticket is presented at the home all the same.
#[test]
fn a_member_that_home_and_station_lost_is_taken_in_again_by_way_of_the_station() {
    let (home, station) = (Machine::new("home"), Machine::new("station"));
    let mut server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let mut near = station.serve(free_port(), &[]);
    near.wayfs(&station, &["station", "join", &server.station_ticket(&home, "work")]).ok();
    restart(&station, &mut near, || set_aside(&station));
    restart(&home, &mut server, || set_aside(&home));

    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    let address = format!("127.0.0.1:{}", near.port);
    eventually("the client knows the station", SEEN, || {
        mount.wayfs(&client, &["station", "use", &address]).status.success()
    });
    fs::create_dir(mount.path("dir")).unwrap();
    fs::write(mount.path("dir/before"), "before").unwrap();
    mount.sync(&client, "stable");
    mount.wayfs(&client, &["offline"]).ok();
    near.process.kill();
    restart(&home, &mut server, || put_back(&home));
    restart(&station, &mut near, || put_back(&station));
    let members = server.wayfs(&home, &["volume", "members", "work"]).ok().out;
    assert!(!members.contains("client"), "the home does not know it: {members}");
    fs::write(mount.path("dir/meanwhile"), "meanwhile").unwrap();
    let root = mount.root().to_str().unwrap().to_owned();
    client.wayfs(&["umount", &root]);
    drop(mount);

    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    // A choice ends with its mount; by it the station is the first to be asked.
    mount.wayfs(&client, &["station", "use", &address]);
    mount.wayfs(&client, &["auto"]).ok();
    let synced = mount.wayfs(&client, &["sync", "--until", "stable", "--timeout", "60"]);
    let said = || mount.wayfs(&client, &["status"]).out;
    assert_eq!(synced.code(), 0, "{} {} {}", synced.out, said(), mount.process.log());
    // It may have been at the home first: the station takes it when it has heard of it.
    eventually("it is at the station that was chosen", SEEN, || said().contains("@station"));
    let reader = Machine::new("reader");
    let other = reader.mount(&server.ticket(&home, "work"), &[]);
    let has = |name: &str| fs::read(other.path(&format!("dir/{name}"))).is_ok_and(|bytes| bytes == name.as_bytes());
    eventually("a fresh client has all of it", SEEN, || has("before") && has("meanwhile"));
}
