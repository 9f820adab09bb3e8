//! A home of which two copies run: a backup that was restored beside it, a data directory that was copied. Members of one do
//! not see what is written at the other, so the second does not serve, or both say so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, Server, eventually, free_port, run};

/// Longest wait for two copies to hear of each other: they look each 30 s.
const HEARD: Duration = Duration::from_secs(100);

/// What a server says of its only volume.
fn cause(server: &Server, machine: &Machine) -> String {
    let status = server.wayfs(machine, &["status", "--json"]).ok().json();
    let text = &status[0]["volumes"][0]["cause"];
    text.as_str().unwrap_or_else(|| panic!("no volume: {status}")).to_owned()
}

/// A machine whose data directory is a copy of another's, whose server does not run.
fn copy_of(home: &Machine, name: &str) -> Machine {
    let copy = Machine::new(name);
    run(Command::new("cp").arg("-a").arg(home.path("data")).arg(copy.path("data"))).ok();
    let _ = std::fs::remove_file(copy.path("data/control.sock"));
    copy
}

/// [S-home-copies]
#[test]
fn a_copy_of_a_home_that_runs_does_not_serve() {
    let home = Machine::new("home");
    let port = free_port();
    let mut server = home.serve(port, &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let backup = home.path("backup");
    server.wayfs(&home, &["volume", "backup", "work", backup.to_str().expect("a path is text")]).ok();
    server.process.kill();
    let copied = copy_of(&home, "copied");
    let server = home.serve(port, &[]);

    let restored = Machine::new("restored");
    restored
        .wayfs(&[
            "volume",
            "restore",
            backup.to_str().expect("a path is text"),
            "--data",
            restored.path("data").to_str().expect("a path is text"),
        ])
        .ok();
    for other in [&copied, &restored] {
        let second = other.serve(free_port(), &[]);
        let said = cause(&second, other);
        assert!(said.contains("another copy of this home answers"), "{said}");
        let ticket = second.wayfs(other, &["volume", "ticket", "work"]);
        assert!(!ticket.status.success() && ticket.err.contains("another copy"), "{}{}", ticket.out, ticket.err);
    }
    // It serves whoever comes, as before.
    let client = Machine::new("client");
    let mount = client.mount(&server.ticket(&home, "work"), &[]);
    std::fs::write(mount.path("file"), "kept").expect("write a file");
    mount.sync(&client, "stable");
    drop(server);

    // The other is gone: the copy is the home.
    let second = restored.serve(free_port(), &[]);
    let said = cause(&second, &restored);
    assert!(!said.contains("another copy"), "{said}");
}

/// [S-home-copies]
#[test]
fn two_copies_of_a_home_that_began_apart_say_so() {
    let home = Machine::new("home");
    let port = free_port();
    let mut server = home.serve(port, &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    server.process.kill();
    let copied = copy_of(&home, "copied");
    // Nobody answers where the home was: the copy serves. Then the home comes back.
    let second = copied.serve(free_port(), &[]);
    second.ticket(&copied, "work");
    let server = home.serve(port, &[]);
    for (server, machine) in [(&second, &copied), (&server, &home)] {
        eventually("a home knows of its copy", HEARD, || {
            cause(server, machine).contains("another copy of this home runs")
        });
    }
}
