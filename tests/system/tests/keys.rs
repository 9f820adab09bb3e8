//! Keys of machines: a home takes another, and keys lie sealed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use wayfs_system_tests::{Finished, Machine, Mount, Server, eventually, free_port};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(60);

/// `wayfs volume rotate-key` on a home's data.
fn rotate_key(home: &Machine, more: &[&str]) -> Finished {
    let data = home.path("data");
    home.wayfs(&[&["volume", "rotate-key", "--json", "--data", data.to_str().unwrap()], more].concat())
}

/// The key that a machine knows the home by.
fn key_of_home(mount: &Mount, machine: &Machine) -> String {
    let servers = mount.wayfs(machine, &["station", "list", "--json"]).ok().json();
    let all = servers["stations"].as_array().unwrap_or_else(|| panic!("no servers: {servers}")).clone();
    let home = all.iter().find(|server| server["role"] == "home").unwrap_or_else(|| panic!("no home: {servers}"));
    home["node"].as_str().unwrap().to_owned()
}

fn has(mount: &Mount, name: &str, text: &str) -> bool {
    fs::read(mount.path(name)).is_ok_and(|bytes| bytes == text.as_bytes())
}

/// Ends the server of a home, changes its key, and starts it again; answers the new key.
fn renewed(home: &Machine, server: &mut Server) -> String {
    server.process.kill();
    let report = rotate_key(home, &["--yes"]).ok().json();
    *server = home.serve(server.port, &[]);
    report["key"].as_str().unwrap().to_owned()
}

/// Proves [S-home-key]: a client, a station and a client behind it, one that was away and a ticket that nobody had used go on with a
/// home whose key was changed twice.
#[test]
fn a_home_with_another_key_is_followed_by_all_that_know_the_old_one() {
    let home = Machine::new("home");
    let mut server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let site = Machine::new("site");
    let station = site.serve(free_port(), &[]);
    station.wayfs(&site, &["station", "join", &server.station_ticket(&home, "work")]).ok();
    let (near, away, behind) = (Machine::new("near"), Machine::new("away"), Machine::new("behind"));
    let near_mount = near.mount(&server.ticket(&home, "work"), &[]);
    let away_ticket = server.ticket(&home, "work");
    let away_mount = away.mount(&away_ticket, &[]);
    let behind_mount = behind.mount(&server.ticket(&home, "work"), &[]);
    let unused = server.ticket(&home, "work");
    let refused = rotate_key(&home, &["--yes"]);
    assert!(!refused.status.success() && refused.err.contains("in use"), "it runs: {}", refused.err);
    away.wayfs(&["umount", away_mount.root().to_str().unwrap()]).ok();
    drop(away_mount);

    let first = renewed_first(&home, &mut server);
    fs::write(near_mount.path("meanwhile"), "written while the home was away").unwrap();
    let second = renewed(&home, &mut server);
    assert_ne!(first, second);
    for (mount, machine) in [(&near_mount, &near), (&behind_mount, &behind)] {
        eventually("the new key is known", SEEN, || key_of_home(mount, machine) == second);
    }
    near_mount.sync(&near, "stable");
    eventually("it came to the client behind the station", SEEN, || {
        has(&behind_mount, "meanwhile", "written while the home was away")
    });
    // The home's own word is known again, under the new key, without a new start.
    eventually("the home's word is heard", SEEN, || {
        near_mount.wayfs(&near, &["status", "--json"]).ok().out.contains("home_word_age_ms\":")
    });
    // The old ticket is the command that mounts it ever again.
    let away_mount = away.mount(&away_ticket, &[]);
    eventually("it follows the home", SEEN, || has(&away_mount, "meanwhile", "written while the home was away"));
    assert_eq!(key_of_home(&away_mount, &away), second);
    let newcomer = Machine::new("newcomer");
    let new_mount = newcomer.mount(&unused, &[]);
    eventually("a ticket of before admits", SEEN, || has(&new_mount, "meanwhile", "written while the home was away"));

    // A station's data is not its own to change.
    let station_key = station.data.clone();
    drop(station);
    let refused = site.wayfs(&["volume", "rotate-key", "--yes", "--data", station_key.to_str().unwrap()]);
    assert!(!refused.status.success() && refused.err.contains("is a station of work"), "{}", refused.err);
}

/// The same as [`renewed`], where the key was never changed before.
fn renewed_first(home: &Machine, server: &mut Server) -> String {
    server.process.kill();
    let before = rotate_key(home, &[]).ok().json();
    assert_eq!(before["former"].as_array().unwrap().len(), 0, "only looked at: {before}");
    let report = rotate_key(home, &["--yes"]).ok().json();
    assert_eq!(report["former"][0], before["key"]);
    *server = home.serve(server.port, &[]);
    report["key"].as_str().unwrap().to_owned()
}

/// Proves [S-home-key], its end: who has followed stays, who has not is told, and goes on with a ticket of the new key.
#[test]
fn when_the_old_key_is_ended_only_those_who_have_not_heard_need_a_ticket() {
    let home = Machine::new("home");
    let mut server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let (near, away) = (Machine::new("near"), Machine::new("away"));
    let near_ticket = server.ticket(&home, "work");
    let near_mount = near.mount(&near_ticket, &[]);
    let away_mount = away.mount(&server.ticket(&home, "work"), &[]);
    fs::write(away_mount.path("before"), "before").unwrap();
    away_mount.sync(&away, "stable");
    away.wayfs(&["umount", away_mount.root().to_str().unwrap()]).ok();
    drop(away_mount);
    let key = renewed(&home, &mut server);
    eventually("the new key is known", SEEN, || key_of_home(&near_mount, &near) == key);

    server.process.kill();
    let ended = rotate_key(&home, &["--end"]).ok().json();
    assert_eq!((&ended["key"], ended["former"].as_array().unwrap().len()), (&key.clone().into(), 0));
    server = home.serve(server.port, &[]);
    fs::write(near_mount.path("after"), "after").unwrap();
    // What is stable may not be called safe yet: an unmount would count it as here only.
    near_mount.sync(&near, "safe");
    // Its old ticket still stands for this home: it knows that the key followed.
    near.wayfs(&["umount", near_mount.root().to_str().unwrap()]).ok();
    drop(near_mount);
    let near_mount = near.mount(&near_ticket, &[]);
    fs::write(near_mount.path("again"), "again").unwrap();
    near_mount.sync(&near, "stable");

    let away_mount = away.mount("work", &["--offline"]);
    fs::write(away_mount.path("waits"), "waits").unwrap();
    away_mount.wayfs(&away, &["auto"]).ok();
    eventually("it is told why it has no server", SEEN, || {
        away_mount.wayfs(&away, &["status"]).out.contains("new key")
            || away_mount.wayfs(&away, &["station", "list", "--json"]).out.contains("new key")
    });
    away.wayfs(&["umount", away_mount.root().to_str().unwrap()]);
    drop(away_mount);
    let away_mount = away.mount(&server.ticket(&home, "work"), &[]);
    away_mount.sync(&away, "stable");
    eventually("what waited is there", SEEN, || {
        has(&near_mount, "waits", "waits") && has(&away_mount, "again", "again")
    });
}

/// Proves [S-sealed-keys] at a server and a mount: without its passphrase neither starts, and the key is nowhere in the clear.
#[test]
fn a_sealed_key_opens_with_its_passphrase_only() {
    let home = Machine::new("home");
    let mut server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let ticket = server.ticket(&home, "work");
    server.process.kill();
    let passphrase = home.path("passphrase");
    fs::write(&passphrase, "correct horse battery staple\n").unwrap();
    fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o600)).unwrap();
    let key = rotate_key(&home, &[]).ok().json()["key"].clone();
    let by_file = ["--passphrase-file", passphrase.to_str().unwrap()];
    let mut server = home.serve(server.port, &by_file);
    assert!(fs::read_to_string(home.path("data/identity")).unwrap().starts_with("wayfs-identity-sealed-1\n"));
    let client = Machine::new("client");
    let mount = client.mount(&ticket, &by_file);
    fs::write(mount.path("file"), "kept").unwrap();
    mount.sync(&client, "stable");
    assert!(
        fs::read_to_string(client.cache_of("work").join("identity")).unwrap().starts_with("wayfs-identity-sealed-1\n")
    );
    client.wayfs(&["umount", mount.root().to_str().unwrap()]).ok();
    drop(mount);
    server.process.kill();

    let data = home.path("data");
    let refused = home.wayfs(&["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
    assert!(!refused.status.success() && refused.err.contains("is sealed"), "{}", refused.err);
    let other = home.path("other");
    fs::write(&other, "another\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    let refused = rotate_key(&home, &["--passphrase-file", other.to_str().unwrap()]);
    assert!(!refused.status.success() && refused.err.contains("does not open"), "{}", refused.err);
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = rotate_key(&home, &["--passphrase-file", other.to_str().unwrap()]);
    assert!(!refused.status.success() && refused.err.contains("can be read by others"), "{}", refused.err);
    // A sealed key is no damage.
    home.wayfs(&["doctor", "--repair", data.to_str().unwrap()]).ok();
    // As a unit of systemd gives it.
    let credentials = home.path("credentials");
    fs::create_dir(&credentials).unwrap();
    fs::copy(&passphrase, credentials.join("wayfs-passphrase")).unwrap();
    let shown = home
        .command()
        .env("CREDENTIALS_DIRECTORY", &credentials)
        .args(["volume", "rotate-key", "--json", "--data", data.to_str().unwrap()])
        .output()
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["key"], key, "it is the key that it was");
    let renewed = rotate_key(&home, &["--yes", by_file[0], by_file[1]]).ok().json();
    assert_ne!(renewed["key"], key);
    assert!(fs::read_to_string(home.path("data/identity")).unwrap().starts_with("wayfs-identity-sealed-1\n"));
    let _server = home.serve(server.port, &by_file);
    let mount = client.mount("work", &by_file);
    eventually("it is the member that it was", SEEN, || has(&mount, "file", "kept"));
}
