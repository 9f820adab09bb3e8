//! Backups of a home's volume, and the way back from them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::process::Stdio;
use std::time::Duration;
use wayfs_system_tests::{Machine, World, eventually, within};

/// Longest wait for anything on one machine.
const DONE: Duration = Duration::from_secs(30);

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u64).wrapping_mul(2_654_435_761).to_le_bytes()[2] ^ seed).collect()
}

fn write(world: &World, name: &str, bytes: Vec<u8>) {
    let path = world.mount.path(name);
    within("write a file", DONE, move || fs::write(path, bytes).unwrap());
}

/// [S-backup]
#[test]
fn a_volume_comes_back_from_its_backup_on_another_machine() {
    let mut world = World::default();
    write(&world, "small", b"a note".to_vec());
    write(&world, "large", pattern(3 << 20, 1));
    world.mount.sync(&world.client, "stable");
    let copies = Machine::new("copies");
    let copy = copies.path("backup");
    let copy_text = copy.to_str().unwrap().to_owned();
    let backup = |world: &World| {
        let finished = world.server.wayfs(&world.home, &["--json", "volume", "backup", "work", &copy_text]).ok();
        serde_json::from_str::<serde_json::Value>(&finished.out).expect("a report")
    };
    let first = backup(&world);
    assert!(first["written_bytes"].as_u64().unwrap() >= 3 << 20, "{first}");

    // Again: only what is new is written, and what nothing needs goes once the home has swept it.
    write(&world, "second", pattern(1 << 20, 2));
    world.mount.sync(&world.client, "stable");
    let second = backup(&world);
    let written = second["written_bytes"].as_u64().unwrap();
    assert!((1 << 20..2 << 20).contains(&written), "{second}");
    assert_eq!(backup(&world)["written_chunks"], 0);

    // The home is gone for good. Its backup goes into a fresh data directory, and members find it at its address.
    world.server.process.kill();
    fs::remove_dir_all(&world.server.data).unwrap();
    let data = world.server.data.to_str().unwrap().to_owned();
    let restored = world.home.wayfs(&["--json", "volume", "restore", &copy_text, "--data", &data]).ok();
    let report: serde_json::Value = serde_json::from_str(&restored.out).expect("a report");
    assert_eq!(report["volume"], "work");
    assert_eq!(report["damaged_chunks"], 0);
    world.server = world.home.serve(world.server.port, &[]);

    let (_machine, other) = world.other("other");
    eventually("all files are back", DONE, || other.path("second").exists());
    for (name, bytes) in
        [("small", b"a note".to_vec()), ("large", pattern(3 << 20, 1)), ("second", pattern(1 << 20, 2))]
    {
        let path = other.path(name);
        assert!(within("read a file", DONE, move || fs::read(path).unwrap()) == bytes, "{name} differs");
    }
    // A member from before goes on.
    write(&world, "later", b"after".to_vec());
    world.mount.sync(&world.client, "stable");
    eventually("what is written now is seen", DONE, || other.path("later").exists());
}

/// [S-backup]
#[test]
fn an_archive_through_a_pipe_is_a_backup_and_half_of_it_is_none() {
    let world = World::default();
    write(&world, "file", pattern(600_000, 3));
    world.mount.sync(&world.client, "stable");
    let place = Machine::new("place");
    let archive = place.path("backup.tar");
    let made = world
        .home
        .command()
        .env("WAYFS_AT", &world.server.data)
        .args(["volume", "backup", "work", "-"])
        .stdout(fs::File::create(&archive).unwrap())
        .status()
        .unwrap();
    assert!(made.success());

    let restore = |from: &std::path::Path, data: &str| {
        let mut command = place.command();
        command.args(["volume", "restore", "-", "--data", place.path(data).to_str().unwrap()]);
        command.stdin(Stdio::from(fs::File::open(from).unwrap())).output().unwrap()
    };
    let bytes = fs::read(&archive).unwrap();
    let half = place.path("half.tar");
    fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
    let refused = restore(&half, "broken");
    assert!(!refused.status.success());
    assert!(!place.path("broken").join("identity").exists(), "nothing is restored of half a backup");

    assert!(restore(&archive, "data").status.success());
    let again = restore(&archive, "data");
    assert_eq!(again.status.code(), Some(5), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(String::from_utf8_lossy(&again.stderr).contains("already"));
}

/// [S-backup]
#[test]
fn a_backup_goes_into_no_directory_of_something_else() {
    let world = World::default();
    let place = Machine::new("place");
    let taken = place.path("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("diary"), "mine").unwrap();
    let refused = world.server.wayfs(&world.home, &["volume", "backup", "work", taken.to_str().unwrap()]);
    assert_eq!(refused.code(), 2, "{}", refused.err);
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
    // A server's data directory is not touched while the server runs.
    let good = place.path("good");
    world.server.wayfs(&world.home, &["volume", "backup", "work", good.to_str().unwrap()]).ok();
    let data = world.server.data.to_str().unwrap();
    let refused = world.home.wayfs(&["volume", "restore", good.to_str().unwrap(), "--data", data]);
    assert_eq!(refused.code(), 5, "{}", refused.err);
}
