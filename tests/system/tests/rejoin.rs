//! A member that its home does not know any more: the home was put back to a copy of before it joined.

use std::fs;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, eventually, free_port, run};

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
