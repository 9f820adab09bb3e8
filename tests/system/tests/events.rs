//! What `wayfs events` tells of files: who, what, where, at whichever machine one asks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use wayfs_system_tests::{Finished, Site, eventually};

/// Longest time for news to travel.
const SOON: Duration = Duration::from_secs(20);

/// What was told of files: kind, path, former path, bytes, and whose record did it. (All are called alike: they are one host.)
fn told(finished: Finished) -> Vec<[String; 5]> {
    let lines = finished.ok().out;
    let events = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let fields = |event: serde_json::Value| {
        let origin = event["record"].as_str().and_then(|record| record.split('.').next()).unwrap_or("-").to_owned();
        assert!(origin == "-" || event["by"].as_str().is_some_and(|by| by.contains('@')), "{event}");
        [text(&event["kind"]), text(&event["path"]), text(&event["from"]), text(&event["size_bytes"]), origin]
    };
    let mut told: Vec<[String; 5]> = Vec::new();
    for event in events.map(fields) {
        match told.last_mut() {
            // What is written before the new file is in the log anywhere is told with it.
            Some(last) if last[0] == "created" && last[3] == "0" && event[0] == "edited" && event[1] == last[1] => {
                last[3].clone_from(&event[3]);
            }
            _ => told.push(event),
        }
    }
    told
}

/// Proves [S-events].
#[test]
fn each_machine_tells_who_did_what_to_which_file() {
    let site = Site::new();
    let [ann, bob] = [0, 1].map(|client| site.root(client));
    // Both look where it happens, and each step is seen before the next, so that none is told as one with another.
    fs::create_dir(ann.join("d")).unwrap();
    let see = |name: &str, there: bool| {
        let path = bob.join(name);
        eventually("the other sees it", SOON, || path.symlink_metadata().is_ok() == there);
    };
    see("d", true);
    assert_eq!(fs::read_dir(bob.join("d")).unwrap().count(), 0, "it looks into it");
    fs::write(ann.join("d/f"), "hello").unwrap();
    see("d/f", true);
    fs::write(bob.join("d/f"), "hello you").unwrap();
    eventually("the other sees it", SOON, || fs::read(ann.join("d/f")).is_ok_and(|bytes| bytes == b"hello you"));
    fs::rename(ann.join("d/f"), ann.join("d/g")).unwrap();
    see("d/f", false);
    fs::set_permissions(ann.join("d/g"), fs::Permissions::from_mode(0o600)).unwrap();
    eventually("the other sees it", SOON, || bob.join("d/g").metadata().unwrap().permissions().mode() & 0o777 == 0o600);
    fs::remove_file(bob.join("d/g")).unwrap();
    eventually("the other sees it", SOON, || !ann.join("d/g").exists());
    fs::write(ann.join("elsewhere"), "x").unwrap();
    see("elsewhere", true);

    let expected = |ann: &str, bob: &str| {
        [
            ["created", "d", "-", "-", ann],
            ["created", "d/f", "-", "5", ann],
            ["edited", "d/f", "-", "9", bob],
            ["renamed", "d/g", "d/f", "9", ann],
            ["attributes", "d/g", "-", "9", ann],
            ["removed", "d/g", "-", "-", bob],
        ]
        .map(|event| event.map(str::to_owned))
        .to_vec()
    };
    // Numbers of members: the home has the first.
    let (first, second) = ("2", "3");
    let asked = ["events", "--since", "1h", "--kept-only", "--at"];
    let (home, server) = &site.home;
    let at_home = asked.iter().copied().chain([server.data.to_str().unwrap(), "d"]);
    let of_home: Vec<&str> = at_home.collect();
    for (machine, mount) in &site.clients {
        mount.sync(machine, "visible");
    }
    let of_home = told(server.wayfs(home, &of_home));
    assert_eq!(of_home[0][0], "lost", "the daemon began after that hour did, and says so");
    assert_eq!(of_home[1..], expected(first, second), "at the home");
    for (client, (machine, mount)) in site.clients.iter().enumerate() {
        let path = site.root(client).join("d");
        let told = told(mount.wayfs(machine, &["events", "--since", "1h", "--kept-only", path.to_str().unwrap()]));
        let told: Vec<_> = told.into_iter().filter(|event| event[0] != "lost").collect();
        assert_eq!(told, expected(first, second), "at client {client}");
    }
}

/// Proves [S-events]: it was told as `removed`.
#[test]
fn a_file_that_goes_where_a_mount_has_never_looked_is_told_as_renamed() {
    let site = Site::new();
    let [ann, bob] = [0, 1].map(|client| site.root(client));
    fs::create_dir(ann.join("here")).unwrap();
    fs::create_dir(ann.join("there")).unwrap();
    fs::write(ann.join("here/f"), "hello").unwrap();
    eventually("the other sees it", SOON, || bob.join("here/f").exists() && fs::read_dir(&bob).unwrap().count() == 2);
    fs::rename(ann.join("here/f"), ann.join("there/g")).unwrap();
    eventually("the other sees it", SOON, || !bob.join("here/f").exists());
    let (machine, mount) = &site.clients[1];
    let told = told(mount.wayfs(machine, &["events", "--since", "1h", "--kept-only"]));
    let last = told.last().unwrap();
    assert_eq!(last[..4], ["renamed", "there/g", "here/f", "5"], "{told:?}");
}
