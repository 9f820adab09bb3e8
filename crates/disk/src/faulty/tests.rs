//! What is synced stays, and what is not comes as a cut says.

use super::*;

fn disk(seed: u64) -> FaultyDisk {
    FaultyDisk::new(Path::new("/d"), seed)
}

fn path(name: &str) -> PathBuf {
    Path::new("/d").join(name)
}

fn read(disk: &FaultyDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(&path(name)).ok()?;
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

/// A file with a durable name and durable bytes.
fn synced(disk: &FaultyDisk, name: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.create(&path(name)).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_directory(Path::new("/d")).unwrap();
    file
}

#[test]
fn a_cut_takes_what_was_not_synced_and_nothing_else() {
    let disk = disk(1);
    let file = synced(&disk, "a", b"durable");
    file.write_at(b"DURABLE and more", 0).unwrap();
    disk.create(&path("b")).unwrap();
    disk.rename(&path("a"), &path("c")).unwrap();
    assert_eq!(read(&disk, "c").as_deref(), Some(&b"DURABLE and more"[..]));
    disk.cut(Cut::Nothing);
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"durable"[..]));
    assert_eq!((read(&disk, "b"), read(&disk, "c")), (None, None));
    assert!(file.write_at(b"x", 0).is_err(), "whoever had it open has it no more");
}

#[test]
fn the_power_fails_at_the_step_that_was_said_and_what_it_began_is_there_or_not() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let disk = disk(seed);
        let file = synced(&disk, "a", &[1; 1024]);
        disk.fail_after(2);
        file.write_at(&[2; 10], 0).unwrap();
        assert!(file.write_at(&[3; 1024], 0).is_err() && disk.is_off());
        assert!(file.sync().is_err() && disk.create(&path("b")).is_err(), "nothing goes any more");
        disk.cut(Cut::Ordered);
        let bytes = read(&disk, "a").unwrap();
        outcomes.insert((bytes[0], bytes[1023]));
    }
    // Before both, between them, in the second in either order of its sectors, after both.
    assert_eq!(outcomes, [(1, 1), (2, 1), (2, 3), (3, 1), (3, 3)].into());
}

#[test]
fn a_sync_that_the_power_fails_at_has_synced_nothing() {
    let disk = disk(3);
    let file = synced(&disk, "a", b"1");
    file.write_at(b"2", 0).unwrap();
    disk.fail_after(1);
    assert!(file.sync().is_err());
    disk.cut(Cut::Nothing);
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn scattered_sectors_of_a_write_come_without_the_others() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let disk = disk(seed);
        let file = synced(&disk, "a", &[0; 1536]);
        file.write_at(&[1; 1536], 0).unwrap();
        disk.cut(Cut::Scattered);
        let bytes = read(&disk, "a").unwrap();
        seen.insert([bytes[0], bytes[512], bytes[1024]]);
    }
    assert!(seen.contains(&[0, 0, 0]) && seen.contains(&[1, 1, 1]), "{seen:?}");
    assert!(seen.contains(&[0, 1, 0]) || seen.contains(&[1, 0, 1]), "{seen:?}");
}

#[test]
fn a_killed_process_leaves_what_it_wrote() {
    let disk = disk(4);
    let file = synced(&disk, "a", b"1");
    file.write_at(b"2", 0).unwrap();
    disk.kill();
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"2"[..]));
    assert!(file.sync().is_err());
    disk.cut(Cut::Nothing);
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"1"[..]), "and it is not durable by that");
}

#[test]
fn a_full_disk_takes_no_byte_more_and_those_in_place() {
    let disk = disk(5);
    let file = synced(&disk, "a", b"12");
    let room = disk.watch_room(Path::new("/d")).unwrap();
    disk.set_room(Room::None);
    assert_eq!(room().unwrap(), 0);
    assert_eq!(file.write_at(b"345", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_at(b"34", 0).unwrap();
    assert_eq!(disk.create(&path("b")).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.set_room(Room::Plenty);
    file.write_at(b"345", 0).unwrap();
    assert!(room().unwrap() > 0);
}

#[test]
fn a_bit_that_rots_is_read_and_stays() {
    let disk = disk(6);
    synced(&disk, "a", b"some bytes");
    let found = disk.find(b"bytes");
    assert_eq!(found, [Position { path: path("a"), at: 5 }]);
    assert!(disk.rot(&found[0]));
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"some rytes"[..]));
    disk.cut(Cut::Nothing);
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"some rytes"[..]));
    assert!(disk.find(b"bytes").is_empty());
}

#[test]
fn a_copy_is_another_disk() {
    let disk = disk(7);
    let file = synced(&disk, "a", b"1");
    file.write_at(b"2", 0).unwrap();
    let copy = disk.cut_copy(Path::new("/e"), Cut::Nothing, 8);
    file.sync().unwrap();
    let there = copy.open(Path::new("/e/a")).unwrap();
    let mut byte = [0];
    there.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, *b"1");
    assert_eq!(copy.list(Path::new("/e")).unwrap(), [Path::new("/e/a")]);
}
