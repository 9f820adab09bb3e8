//! A power cut left a record whose chunks never reached the disk.

use crate::ChildRole;
use crate::testing::{Machine, PATIENCE, Plan, noise};
use std::path::Path;
use wayfs_proto::Role;
use wayfs_types::FileId;
use wayfs_types::request::Level;

/// A client that writes while it is offline, and its file.
fn write_offline(home: &Machine, place: &Path, bytes: &[u8]) -> (Machine, FileId) {
    let client = Machine::below(home, place, ChildRole::Client, &[home]);
    client.learn_root();
    client.go_offline();
    let (file, _) = client.write("lost", bytes);
    client.write("small", b"inside its record");
    client.volume.sync(PATIENCE).unwrap();
    assert_eq!(client.volume.torn(), Ok(Vec::new()));
    (client, file)
}

/// The client as it comes back: what it has in tables is there, what it had in segments is not.
fn cut_power(client: Machine, home: &Machine, place: &Path) -> Machine {
    let (origin, chunks) = (client.origin(), client.store().join("chunks"));
    client.crash();
    for segment in std::fs::read_dir(chunks).unwrap() {
        std::fs::remove_file(segment.unwrap().path()).unwrap();
    }
    let mut plan = Plan::new(place, Role::Client, origin);
    plan.servers = vec![home.info()];
    Machine::start(plan)
}

#[test]
fn a_file_whose_bytes_are_lost_is_named_until_it_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let place = dir.path().join("c");
    let (client, file) = write_offline(&home, &place, &noise(3 << 20, 1));
    let client = cut_power(client, &home, &place);
    assert_eq!(client.volume.torn(), Ok(vec![file]));
    client.write("lost", &noise(3 << 20, 2));
    client.wait(Level::Safe);
    assert_eq!(client.volume.torn(), Ok(Vec::new()));
    assert!(home.read("lost").unwrap() == noise(3 << 20, 2));
    assert_eq!(home.read("small").unwrap(), b"inside its record");
}

#[test]
fn lost_bytes_that_the_parent_has_from_elsewhere_are_safe() {
    for len in [50_000, 3 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let home = Machine::home(&dir.path().join("home"));
        home.write("twin", &noise(len, 1));
        let place = dir.path().join("c");
        let (client, _) = write_offline(&home, &place, &noise(len, 1));
        let client = cut_power(client, &home, &place);
        client.wait(Level::Safe);
        assert_eq!(client.volume.torn(), Ok(Vec::new()));
        assert!(client.read("lost").unwrap() == noise(len, 1));
    }
}
