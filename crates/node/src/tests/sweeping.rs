use crate::ChildRole;
use crate::testing::{Machine, PATIENCE, eventually, noise};
use std::time::Duration;
use wayfs_types::request::{Change, Level};
use wayfs_types::{Digest, FileId};

#[test]
fn what_nobody_refers_to_is_swept_and_the_rest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let kept = noise(3 << 20, 1);
    home.write("kept", &kept);
    let stray = bytes::Bytes::from(noise(100_000, 2));
    home.volume.contents().put(Digest::of(&stray), stray.clone()).unwrap();
    assert!(home.volume.sweep(PATIENCE));
    assert!(home.volume.contents().has(&Digest::of(&stray)), "what was just put may still be named by a record");
    std::thread::sleep(Duration::from_millis(250));
    assert!(home.volume.sweep(PATIENCE));
    assert!(!home.volume.contents().has(&Digest::of(&stray)));
    assert!(home.read("kept").unwrap() == kept);
}

/// The home looks for contents that no record names here: they are found, and the sweep comes before the engine has heard of it.
#[test]
fn what_was_looked_for_and_found_stays_until_the_engine_has_heard_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let stray = bytes::Bytes::from(noise(100_000, 2));
    let mut sink = wayfs_content::MemorySink::default();
    let content = wayfs_content::build(&stray, &mut sink).unwrap();
    for (digest, chunk) in sink.chunks {
        home.volume.contents().put(digest, chunk).unwrap();
    }
    std::thread::sleep(Duration::from_millis(250));
    let (file, inode) = home.write("kept", b"so that there is a version to ask for");
    let found = home.volume.settings().runtime.block_on(home.volume.find_whole(file, inode.version, &content));
    assert_eq!(found, crate::contents::repair::Found::Whole);
    assert!(home.volume.sweep(PATIENCE));
    assert!(home.volume.contents().has(&content.root().unwrap()));
}

/// The bytes of the list node at the top of a file, as any reader of it can make them.
fn node_of(bytes: &[u8]) -> Vec<u8> {
    let mut sink = wayfs_content::MemorySink::default();
    let content = wayfs_content::build(&bytes::Bytes::copy_from_slice(bytes), &mut sink).unwrap();
    sink.chunks[&content.root().unwrap()].to_vec()
}

/// Whoever may read a large file can write another that consists of its list node: one chunk, under the same name.
#[test]
fn a_file_that_looks_like_the_list_of_another_takes_nothing_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let large = noise(40 << 20, 4);
    let node = node_of(&large);
    home.write("first", b"so that it is looked at before the large one");
    home.write("large", &large);
    let (_, inode) = home.write("first", &node);
    assert_eq!(inode.content.root(), home.find(FileId::ROOT, "large").unwrap().1.content.root(), "one name for both");
    std::thread::sleep(Duration::from_millis(250));
    assert!(home.volume.sweep(PATIENCE));
    assert!(home.read("first").unwrap() == node);
    assert!(home.read("large").unwrap() == large, "it is all there");
}

/// A reader that looked at the end of a film has its list nodes and no more: with these the home has the whole film again, if the
/// chunks are left that seem to belong to nothing meanwhile.
#[test]
fn what_is_below_a_damaged_list_node_is_not_swept() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let film = noise(16 << 20, 5);
    let (file, inode) = home.write("film", &film);
    let reader = Machine::below(&home, &dir.path().join("r"), ChildRole::Client, &[&home]);
    eventually("the reader sees it", || reader.find(FileId::ROOT, "film").is_some());
    let node = inode.content.root().unwrap();
    let want = crate::contents::Want { file, version: inode.version, digest: node };
    reader.volume.settings().runtime.block_on(reader.volume.fetch_chunk(want, None, PATIENCE)).unwrap();
    reader.go_offline();
    super::contents::flip_a_bit(&home, &node_of(&film)[..]);
    std::thread::sleep(Duration::from_millis(250));
    for _ in 0..3 {
        assert!(home.volume.sweep(PATIENCE));
    }
    assert!(home.read("film").is_err(), "its list is damaged");
    reader.link.as_ref().unwrap().go_online();
    eventually("the home has it all again", || home.volume.sweep(PATIENCE) && home.read("film").is_ok());
    assert!(home.read("film").unwrap() == film);
}

#[test]
fn contents_of_removed_files_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let (_, inode) = home.write("gone", &noise(200_000, 3));
    home.change(Change::Unlink { parent: FileId::ROOT, name: crate::testing::name("gone") });
    std::thread::sleep(Duration::from_millis(250));
    let root = inode.content.root().unwrap();
    eventually("its chunk is gone", || home.volume.sweep(PATIENCE) && !home.volume.contents().has(&root));
}

/// After a power cut the records would be back that name the chunk, and the bytes that `fsync` promised gone.
#[test]
fn a_chunk_goes_when_the_disk_has_the_record_by_which_nobody_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let mut gone = 0;
    for round in 0..8 {
        let (_, inode) = home.write("gone", &noise(200_000, 90 + round));
        home.volume.sync(PATIENCE).unwrap();
        std::thread::sleep(Duration::from_millis(250));
        home.change(Change::Unlink { parent: FileId::ROOT, name: crate::testing::name("gone") });
        let removed = home.volume.look(|replica| replica.store().committed()).unwrap();
        assert!(home.volume.sweep(PATIENCE));
        let durable = home.volume.syncs.durable();
        if !home.volume.contents().has(&inode.content.root().unwrap()) {
            gone += 1;
            assert!(durable >= removed, "its chunk is gone, and after a power cut the file would be back");
        }
    }
    assert!(gone > 0, "a sweep removes something");
}

/// Proves [S-cache].
#[test]
fn a_bounded_cache_drops_what_others_have_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let place = dir.path().join("c");
    let mut plan = Machine::plan_below(&home, &place, ChildRole::Client, &[&home]);
    plan.cache_bytes_max = Some(1 << 20);
    let client = Machine::start(plan);
    for i in 0..8 {
        client.write(&format!("f{i}"), &noise(250_000, 10 + i));
    }
    client.wait(Level::Stable);
    std::thread::sleep(Duration::from_millis(250));
    eventually("the cache is within its bound", || client.volume.contents().bytes() <= 1 << 20);
    client.learn_root();
    client.go_offline();
    for i in 0..3 {
        client.write(&format!("dirty{i}"), &noise(250_000, 30 + i));
    }
    std::thread::sleep(Duration::from_millis(250));
    client.volume.sweep(PATIENCE);
    for i in 0..3 {
        assert!(client.read(&format!("dirty{i}")).is_ok(), "dirty{i} is the last copy");
    }
    client.link.as_ref().unwrap().go_online();
    for i in 0..8 {
        assert!(client.read(&format!("f{i}")).unwrap() == noise(250_000, 10 + i));
    }
}

/// Proves [S-cache].
#[test]
fn a_cache_full_of_what_nobody_else_has_refuses_what_is_new_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let place = dir.path().join("c");
    let mut plan = Machine::plan_below(&home, &place, ChildRole::Client, &[&home]);
    plan.cache_bytes_max = Some(1 << 20);
    let client = Machine::start(plan);
    client.write("first", b"x");
    client.wait(Level::Stable);
    client.learn_root();
    client.go_offline();
    for i in 0..4 {
        client.write(&format!("dirty{i}"), &noise(250_000, 50 + i));
    }
    let late = bytes::Bytes::from(noise(250_000, 60));
    let refused = wayfs_content::build(&late, &mut client.volume.contents().sink());
    assert!(matches!(&refused, Err(error) if error.to_string().contains("no space")), "as a full disk: {refused:?}");
    for i in 0..4 {
        assert!(client.read(&format!("dirty{i}")).unwrap() == noise(250_000, 50 + i));
    }
    client.link.as_ref().unwrap().go_online();
    eventually("it goes on when the home has them", || {
        wayfs_content::build(&late, &mut client.volume.contents().sink()).is_ok()
    });
}

/// Proves [S-duty].
#[test]
fn a_full_cache_has_its_station_send_home_what_nobody_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let place = dir.path().join("c");
    let mut plan = Machine::plan_below(&home, &place, ChildRole::Client, &[&station]);
    plan.cache_bytes_max = Some(1 << 20);
    let client = Machine::start(plan);
    for i in 0..16 {
        client.write(&format!("f{i}"), &noise(250_000, 70 + i));
    }
    client.wait(Level::Safe);
    eventually("the cache is within its bound", || client.volume.contents().bytes() <= 1 << 20);
    for i in 0..16 {
        assert!(client.read(&format!("f{i}")).unwrap() == noise(250_000, 70 + i));
    }
}

/// Proves [S-cache].
#[test]
fn contents_of_a_removed_file_leave_home_station_and_writer() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&station]);
    let (_, inode) = client.write("gone", &noise(200_000, 3));
    client.wait(Level::Stable);
    let root = inode.content.root().unwrap();
    let machines = [&home, &station, &client];
    assert!(machines.iter().all(|machine| machine.volume.contents().has(&root)));
    client.change(Change::Unlink { parent: FileId::ROOT, name: crate::testing::name("gone") });
    client.wait(Level::Stable);
    for (machine, name) in machines.into_iter().zip(["home", "station", "client"]) {
        eventually(&format!("its chunk is gone at the {name}"), || {
            std::thread::sleep(Duration::from_millis(50));
            machine.volume.sweep(PATIENCE) && !machine.volume.contents().has(&root)
        });
    }
}

/// Proves [S-cache].
#[test]
fn what_a_reader_streams_stays_within_the_bound_of_its_cache() {
    const BOUND: u64 = 2 << 20;
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    for i in 0..12 {
        home.write(&format!("f{i}"), &noise(1_000_000, 100 + i));
    }
    let place = dir.path().join("c");
    let mut plan = Machine::plan_below(&home, &place, ChildRole::Client, &[&home]);
    plan.cache_bytes_max = Some(BOUND);
    plan.unreferenced_grace = Duration::from_secs(600);
    let client = Machine::start(plan);
    client.learn_root();
    for i in 0..12 {
        assert!(client.read(&format!("f{i}")).unwrap() == noise(1_000_000, 100 + i), "f{i}");
        let bytes = client.volume.contents().bytes();
        assert!(bytes <= BOUND, "after f{i} there are {bytes}");
    }
    eventually("the cache takes what is read in again", || {
        client.read("f11").is_ok() && client.volume.contents().bytes() > BOUND / 2 && {
            let (_, inode) = client.find(FileId::ROOT, "f11").unwrap();
            client.volume.contents().has_all(&inode.content)
        }
    });
    let disk = |client: &Machine| client.volume.contents().stats().unwrap().disk_bytes;
    eventually("what was removed is off the disk", || {
        client.volume.sweep(PATIENCE);
        disk(&client) <= BOUND + BOUND / 8 + (4 << 20)
    });
}

/// Proves [S-cache].
#[test]
fn contents_in_the_making_stay_while_room_is_short() {
    const BOUND: u64 = 2 << 20;
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    for i in 0..8 {
        home.write(&format!("f{i}"), &noise(1_000_000, 120 + i));
    }
    let place = dir.path().join("c");
    let mut plan = Machine::plan_below(&home, &place, ChildRole::Client, &[&home]);
    plan.cache_bytes_max = Some(BOUND);
    // Short, as where hashing takes longer than the grace.
    plan.unreferenced_grace = Duration::from_millis(20);
    let client = Machine::start(plan);
    client.learn_root();
    let making = client.volume.contents().making();
    let content = client.keep(&noise(300_000, 140));
    for i in 0..8 {
        assert!(client.read(&format!("f{i}")).is_ok());
        assert!(client.volume.sweep(PATIENCE));
    }
    assert!(client.volume.contents().has_all(&content), "it is to be named yet");
    drop(making);
    eventually("nothing came of it", || client.volume.sweep(PATIENCE) && !client.volume.contents().has_all(&content));
}
