//! Clients of one site end at one server, though one of them came when that was away.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::thread::sleep;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port};

/// Longest time for a client to be where it is to be, on a busy machine: some times three rounds of measurements.
const THERE: Duration = Duration::from_secs(240);
/// So often a client is told to measure now, and would by itself each minute: with each word it begins anew, and three rounds take some
/// seconds on a busy machine.
const AGAIN: Duration = Duration::from_secs(10);
/// Pause between two looks where it is.
const LOOK: Duration = Duration::from_millis(200);

type Client = (Machine, Mount);

/// Whether a client is connected there, and sees from now on what the others there close.
fn is_at((machine, mount): &Client, server: &Server) -> bool {
    let status = mount.wayfs(machine, &["status", "--json"]).ok().json();
    let volume = &status[0]["volumes"][0];
    volume["sharing"] == "close-to-open"
        && volume["parent"]["addresses"].to_string().contains(&format!(":{}\"", server.port))
}

fn comes_to(client: &Client, server: &Server) {
    eventually("the client is at the server that all of its site take", THERE, || {
        client.1.wayfs(&client.0, &["auto"]).ok();
        let mut looks = 0..AGAIN.as_millis() / LOOK.as_millis();
        looks.any(|_| {
            sleep(LOOK);
            is_at(client, server)
        })
    });
}

/// Proves [S-same-server], and [S-close-open] from the first look of who moved.
#[test]
fn a_client_that_came_while_the_station_was_away_joins_it() {
    let machine = Machine::new("home");
    let home = machine.serve(free_port(), &[]);
    home.wayfs(&machine, &["volume", "create", "work"]).ok();
    let site = Machine::new("station");
    let mut station = site.serve(free_port(), &[]);
    station.wayfs(&site, &["station", "join", &home.station_ticket(&machine, "work")]).ok();
    let client = |name: &str| {
        let client = Machine::new(name);
        let mount = client.mount(&home.ticket(&machine, "work"), &["--sharing", "close-to-open", "--no-mdns"]);
        (client, mount)
    };
    station.process.kill();
    let bob = client("bob");
    eventually("who comes while it is away takes the home", THERE, || is_at(&bob, &home));
    assert!(!bob.1.path("note").exists());
    station = site.serve(station.port, &[]);
    let ann = client("ann");
    comes_to(&ann, &station);
    fs::write(ann.1.path("note"), "before bob comes").unwrap();
    comes_to(&bob, &station);
    assert_eq!(fs::read_to_string(bob.1.path("note")).unwrap(), "before bob comes");
    for turn in 0..20 {
        let (writer, reader) = if turn % 2 == 0 { (&ann, &bob) } else { (&bob, &ann) };
        fs::write(writer.1.path("note"), format!("turn {turn}")).unwrap();
        assert_eq!(fs::read_to_string(reader.1.path("note")).unwrap(), format!("turn {turn}"));
        fs::write(writer.1.path(&format!("made-{turn}")), "").unwrap();
        assert!(reader.1.path(&format!("made-{turn}")).exists(), "turn {turn}");
    }
}
