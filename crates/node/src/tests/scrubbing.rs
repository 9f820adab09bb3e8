//! Damage that nobody reads is found, and healed from whoever has the bytes.

use super::contents::flip_a_bit;
use crate::ChildRole;
use crate::scrub::{ScrubCounts, ScrubPosition};
use crate::testing::{Machine, Plan, eventually, noise};
use std::time::Duration;
use wayfs_proto::Role;
use wayfs_types::request::Level;
use wayfs_types::{FileId, OriginId};

/// Reads everything at a machine now.
fn scrub(machine: &Machine) -> ScrubCounts {
    machine.volume.scrub(&mut |_| true).unwrap()
}

/// Whether every byte of a file is on the disk of a machine, and as it was written.
fn is_sound(machine: &Machine, bytes: &[u8]) -> bool {
    let content =
        wayfs_content::build(&bytes::Bytes::copy_from_slice(bytes), &mut wayfs_content::MemorySink::default());
    let content = content.unwrap();
    let nodes = |digest: &wayfs_types::Digest| machine.volume.contents().get_kept(digest).ok();
    let reader = wayfs_content::ContentReader::new(&content, &nodes).unwrap();
    reader
        .entries(0, 0)
        .all(|located| located.is_ok_and(|located| machine.volume.contents().get_kept(&located.entry.digest).is_ok()))
}

/// Proves [S-scrub]: at a home, a station whose home has nothing yet, the writer, and a reader.
#[test]
fn what_rots_is_fetched_anew_at_every_role() {
    for damaged in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let home = Machine::home(&dir.path().join("home"));
        let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
        let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&station]);
        let reader = Machine::below(&home, &dir.path().join("r"), ChildRole::Client, &[&station]);
        let photo = noise(900_000, 71);
        writer.write("photo", &photo);
        writer.wait(if damaged == 0 { Level::Stable } else { Level::Safe });
        eventually("the reader sees it", || reader.find(FileId::ROOT, "photo").is_some());
        assert!(reader.read("photo").unwrap() == photo);
        let machine = [&home, &station, &writer, &reader][damaged];
        let before = scrub(machine);
        assert_eq!((before.damaged, before.lost, before.waiting), (0, 0, 0), "{damaged}: {before:?}");
        assert!(before.bytes >= 900_000, "{damaged}: {before:?}");
        flip_a_bit(machine, &photo);
        let found = scrub(machine);
        assert_eq!((found.damaged, found.renewed, found.lost, found.waiting), (1, 1, 0, 0), "{damaged}: {found:?}");
        assert!(is_sound(machine, &photo), "{damaged}");
        assert_eq!(machine.volume.scrub_position().found_before, found);
    }
}

/// Nobody asks, nobody reads: the thread finds it within its period.
#[test]
fn the_daemon_finds_damage_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("home");
    let plan = Plan::new(&place, Role::Home, OriginId::new(1).unwrap());
    let home = Machine::start(Plan { scrub_period: Some(Duration::from_secs(2)), ..plan });
    let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&home]);
    let photo = noise(900_000, 72);
    writer.write("photo", &photo);
    writer.wait(Level::Stable);
    flip_a_bit(&home, &photo);
    eventually("it is renewed", || home.volume.metrics().chunks_repaired.value() == 1);
    assert!(is_sound(&home, &photo));
}

/// What nobody has is said once, whatever else is damaged, and a copy that nobody relies on is no loss.
#[test]
fn what_nobody_has_is_told_from_a_copy_that_others_have() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&home]);
    let reader = Machine::below(&home, &dir.path().join("r"), ChildRole::Client, &[&home]);
    let photo = noise(900_000, 73);
    let (file, inode) = writer.write("photo", &photo);
    writer.wait(Level::Stable);
    eventually("the reader sees it", || reader.find(FileId::ROOT, "photo").is_some());
    assert!(reader.read("photo").unwrap() == photo);
    reader.go_offline();
    flip_a_bit(&reader, &photo);
    let found = scrub(&reader);
    assert_eq!((found.damaged, found.renewed, found.lost, found.waiting), (1, 0, 0, 1), "{found:?}");
    flip_a_bit(&writer, &photo);
    flip_a_bit(&home, &photo);
    let found = scrub(&home);
    assert_eq!((found.damaged, found.renewed, found.lost), (1, 0, 1), "{found:?}");
    let is_missing = || home.volume.look(|replica| replica.holder(file, inode.version)).unwrap().unwrap();
    assert_ne!(is_missing(), wayfs_proto::Holder::Here, "the home looks for it");
    assert_eq!(scrub(&home).lost, 0, "it is said already");
    assert_eq!(home.volume.metrics().contents_gone.value(), 1);
}

/// A pass goes on where it was, chunk by chunk.
#[test]
fn a_pass_goes_on_after_a_restart_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&home]);
    for number in 0..3 {
        writer.write(&format!("film{number}"), &noise(6 << 20, 80 + number));
    }
    writer.wait(Level::Stable);
    let whole = scrub(&home);
    for cut in 1..whole.chunks {
        let mut at = ScrubPosition::default();
        let mut pass = crate::scrub::Pass::new(&at);
        for _ in 0..cut {
            pass.step(&home.volume, &mut at).unwrap().unwrap();
        }
        let mut pass = crate::scrub::Pass::new(&at);
        while pass.step(&home.volume, &mut at).unwrap().is_some() {}
        // List nodes of the file that was under way are read again.
        assert!((whole.chunks..whole.chunks + 3).contains(&at.found.chunks), "{cut}: {at:?} {whole:?}");
        assert!(at.after.is_some());
    }
}

/// Whoever asked for a pass may leave.
#[test]
fn a_pass_is_called_off_by_whoever_asked_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let writer = Machine::below(&home, &dir.path().join("w"), ChildRole::Client, &[&home]);
    writer.write("film", &noise(6 << 20, 90));
    writer.wait(Level::Stable);
    let mut heard = 0;
    let ended = home.volume.scrub(&mut |found| {
        heard += 1;
        found.chunks < 2
    });
    assert!(matches!(ended, Err(crate::scrub::ScrubError::CalledOff)) && heard == 2, "{ended:?} {heard}");
    assert_eq!(home.volume.scrub_position(), ScrubPosition::default(), "what was not read is not called read");
}
