//! Ordinary users ask about their own files on a mount that root made, and hear of no others. Needs root, as mounts for all do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_system_tests::{Finished, Machine, World, eventually, run_for};

/// Longest wait for an answer.
const SOON: Duration = Duration::from_secs(30);
/// Ann's numbers.
const ANN: (u32, u32) = (1234, 4321);
/// Somebody else's.
const BOB: (u32, u32) = (999, 998);

/// Runs a tool as an ordinary user, without any group but his own.
fn asks(user: (u32, u32), machine: &Machine, arguments: &[&str]) -> Finished {
    let mut command = machine.command();
    command.args(arguments).current_dir("/").uid(user.0).gid(user.1);
    run_for(SOON, &mut command)
}

/// A mount to which all can walk, with a directory of Ann's, one of root's, and a file of root's that nobody else may read.
fn world() -> World {
    let world = World::default();
    fs::set_permissions(world.client.path(""), PermissionsExt::from_mode(0o711)).unwrap();
    for (name, owner, mode) in [("ann", ANN, 0o755), ("vault", (0, 0), 0o700)] {
        let directory = world.directory(name);
        chown(&directory, Some(owner.0), Some(owner.1)).unwrap();
        fs::set_permissions(&directory, PermissionsExt::from_mode(mode)).unwrap();
    }
    world
}

/// Writes a file as its owner would.
fn write(world: &World, name: &str, owner: (u32, u32), mode: u32) {
    let path = world.mount.path(name);
    fs::write(&path, name).unwrap();
    chown(&path, Some(owner.0), Some(owner.1)).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
}

fn paths(queue: &serde_json::Value) -> Vec<String> {
    let items = queue["items"].as_array().unwrap().iter();
    items.filter_map(|item| item["path"].as_str().map(str::to_owned)).collect()
}

/// Proves [S-asking].
#[test]
fn users_ask_about_their_own_files_and_hear_of_no_others() {
    let world = world();
    world.mount.sync(&world.client, "visible");
    world.mount.wayfs(&world.client, &["offline"]).ok();
    write(&world, "ann/hers", ANN, 0o600);
    write(&world, "vault/plans", ANN, 0o644);
    write(&world, "ann/roots", (0, 0), 0o600);
    let (root, at) = (world.mount.root().display(), world.mount.root().to_str().unwrap());
    let info = asks(ANN, &world.client, &["info", "--json", &format!("{root}/ann/hers")]).ok().json();
    assert_eq!((info["path"].as_str(), info["size_bytes"].as_u64()), (Some("ann/hers"), Some(8)));
    for hidden in ["vault/plans", "vault/nothing", "ann/roots"] {
        let refused = asks(ANN, &world.client, &["info", &format!("{root}/{hidden}")]);
        assert!(refused.code() == 5 && refused.err.contains("ermission denied"), "{hidden}: {refused:?}");
    }
    assert_ne!(asks(BOB, &world.client, &["info", &format!("{root}/ann/hers")]).code(), 0, "it is Ann's to read");

    let roots = world.mount.wayfs(&world.client, &["queue", "--json"]).ok().json();
    let hers = asks(ANN, &world.client, &["queue", "--json", "--at", at]).ok().json();
    let bobs = asks(BOB, &world.client, &["queue", "--json", "--at", at]).ok().json();
    assert!(paths(&roots).iter().any(|path| path == "vault/plans"), "{roots}");
    assert!(paths(&hers).iter().any(|path| path == "ann/hers"), "{hers}");
    for seen in [&hers, &bobs] {
        assert!(!seen.to_string().contains("vault/"), "no name of where she cannot walk: {seen}");
        assert_eq!(seen["items_total"], roots["items_total"], "sums are those of the volume");
    }
    assert!(paths(&bobs).iter().any(|path| path == "ann/roots"), "everybody may list that directory: {bobs}");

    let status = asks(ANN, &world.client, &["status", "--json"]).ok().json();
    assert_eq!(status[0]["volumes"][0]["name"], "work");
    let waits = asks(BOB, &world.client, &["sync", "--at", at, "--until", "visible", "--timeout", "5"]);
    assert_eq!(waits.code(), 0, "nothing is Bob's: {waits:?}");
}

/// Proves [S-asking].
#[test]
fn a_user_waits_for_what_he_wrote() {
    let world = world();
    let at = world.mount.root().to_str().unwrap();
    world.mount.sync(&world.client, "visible");
    world.mount.wayfs(&world.client, &["offline"]).ok();
    let mut write = std::process::Command::new("sh");
    write.args(["-c", "echo hers > ann/f"]).current_dir(world.mount.root()).uid(ANN.0).gid(ANN.1);
    assert!(write.status().unwrap().success());
    let path = format!("{at}/ann");
    let waits = |more: &[&str]| {
        let arguments = [&["sync", "--json", "--timeout", "2", "--until", "stable"], more].concat();
        asks(ANN, &world.client, &arguments)
    };
    for more in [&["--at", at][..], &[&path]] {
        let not_yet = waits(more);
        assert_eq!(not_yet.code(), 1, "{not_yet:?}");
        assert!(not_yet.json()["remaining_items"].as_u64() > Some(0), "{not_yet:?}");
    }
    world.mount.wayfs(&world.client, &["auto"]).ok();
    eventually("all of hers is stable", SOON, || {
        waits(&["--at", at]).status.success() && waits(&[&path]).status.success()
    });
}

/// Proves [S-asking].
#[test]
fn conflicts_are_shown_to_those_who_may_see_the_files() {
    let world = world();
    for name in ["ann/f", "vault/f"] {
        write(&world, name, ANN, 0o644);
    }
    let (there, other) = world.other("other");
    world.mount.sync(&world.client, "visible");
    eventually("the other sees them", SOON, || fs::read(other.path("vault/f")).is_ok_and(|found| found == b"vault/f"));
    fs::read(other.path("ann/f")).unwrap();
    world.mount.wayfs(&world.client, &["offline"]).ok();
    for (mount, text) in [(&world.mount, "here"), (&other, "there")] {
        fs::write(mount.path("ann/f"), text).unwrap();
        fs::write(mount.path("vault/f"), text).unwrap();
    }
    other.sync(&there, "visible");
    world.mount.wayfs(&world.client, &["auto"]).ok();
    let at = world.mount.root().to_str().unwrap();
    let open = || world.mount.wayfs(&world.client, &["conflicts", "list", "--json"]).ok().json();
    eventually("both are in conflict", SOON, || open()["conflicts"].as_array().unwrap().len() == 2);
    let seen = asks(ANN, &world.client, &["conflicts", "list", "--json", "--at", at]).ok().json();
    assert_eq!(seen["conflicts"].as_array().unwrap().len(), 1, "{seen}");
    assert!(!seen.to_string().contains("vault"), "{seen}");
    for conflict in open()["conflicts"].as_array().unwrap() {
        let id = conflict["id"].as_str().unwrap();
        let shown = asks(ANN, &world.client, &["conflicts", "show", id, "--at", at]);
        assert_eq!(shown.status.success(), conflict["winner"]["path"] == "ann/f", "{conflict}: {shown:?}");
    }
}

/// Proves [S-asking].
#[test]
fn users_change_nothing() {
    let world = world();
    write(&world, "ann/f", ANN, 0o644);
    let at = world.mount.root().to_str().unwrap();
    let file = format!("{at}/ann/f");
    for arguments in [
        &["offline"][..],
        &["online"],
        &["auto"],
        &["pins"],
        &["pin", &file],
        &["unpin", &file],
        &["station", "list"],
        &["station", "use", "auto"],
        &["events"],
        &["metrics"],
        &["scrub"],
        &["refresh", &file],
        &["umount", at],
        &["conflicts", "resolve", "--all", "--keep", "both"],
    ] {
        let arguments: Vec<&str> = ["--at", at].iter().chain(arguments).copied().collect();
        let refused = asks(ANN, &world.client, &arguments);
        assert!(refused.code() == 5 && refused.err.contains("who started the daemon"), "{arguments:?}: {refused:?}");
    }
    assert_eq!(fs::read(world.mount.path("ann/f")).unwrap(), b"ann/f");
}

/// The socket that the mount has for all.
fn socket(machine: &Machine) -> PathBuf {
    let entries = fs::read_dir(machine.path("run/wayfs")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "sock")).find(|path| path.exists()).unwrap()
}

/// Proves [S-asking].
#[test]
fn a_user_who_takes_all_places_takes_only_his_own() {
    let world = world();
    let socket = socket(&world.client);
    // As the same user: the places are counted by user, and a test is one.
    let held: Vec<UnixStream> = (0..100).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    let mut long = UnixStream::connect(&socket).unwrap();
    long.set_write_timeout(Some(SOON)).unwrap();
    long.set_read_timeout(Some(SOON)).unwrap();
    let _ = long.write_all(&vec![b'{'; 8 << 20]);
    let _ = long.read_to_end(&mut Vec::new());
    let at = world.mount.root().to_str().unwrap();
    asks(ANN, &world.client, &["status", "--at", at]).ok();
    world.mount.wayfs(&world.client, &["status"]).ok();
    drop(held);
}

/// Lays an entry into the directory of daemons, whose owner is another than root.
fn plant(machine: &Machine, place: &Path, socket: &Path, owner: u32) {
    let entry = serde_json::json!({
        "kind": "mount", "place": place, "socket": machine.path("none"), "pid": 1, "volume": "work", "for_all": socket,
    });
    let path = machine.path("run/wayfs/mount-1-9.json");
    fs::write(&path, entry.to_string()).unwrap();
    chown(&path, Some(owner), None).unwrap();
}

/// Proves [S-asking].
#[test]
fn what_another_user_plants_is_not_believed() {
    let world = world();
    let (place, planted) = (world.client.path("elsewhere"), world.client.path("run/planted.sock"));
    let _listener = UnixListener::bind(&planted).unwrap();
    fs::set_permissions(&planted, PermissionsExt::from_mode(0o666)).unwrap();
    chown(&planted, Some(BOB.0), None).unwrap();
    for owner in [BOB.0, 0] {
        plant(&world.client, &place, &planted, owner);
        let asked = asks(ANN, &world.client, &["status", "--at", place.to_str().unwrap()]);
        assert!(asked.code() == 3 && asked.err.contains("no daemon runs"), "an entry of {owner}: {asked:?}");
    }
}
