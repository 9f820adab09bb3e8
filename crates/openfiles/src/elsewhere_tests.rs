//! What another machine made of a file that is open here.

use super::kernel_way::BackingId;
use super::kernel_way::KernelWay;
use super::open_file::Extend;
use super::testing::{file, host_file, record};
use super::tests::{Bench, SOON, bench, noise};
use super::*;
use std::sync::Arc;
use wayfs_types::{Inode, XattrName};

/// Another machine made this of the file meanwhile.
fn newer(bench: &Bench, bytes: &[u8]) {
    let mut made = bench.fake.make(file(1), bytes);
    made.version = record(900);
    bench.fake.put(file(1), made);
}

#[test]
fn what_was_appended_goes_behind_what_another_machine_appended() {
    for len in [0, 100, 200_000, 3 << 20] {
        let bench = bench();
        let old = noise(len);
        bench.fake.make(file(1), &old);
        let open = bench.open(1, Access::Write);
        bench.table.write(&open, None, b"ours, ", 5).unwrap();
        bench.table.write(&open, None, b"twice\n", 5).unwrap();
        newer(&bench, &[&old[..], b"theirs\n"].concat());
        bench.fake.send_away();
        let committed = bench.table.commit(&open, WaitPolicy::Silence(SOON)).unwrap().unwrap();
        assert!(committed.is_ours && committed.is_moved);
        assert!(bench.fake.bytes_of(file(1)) == [&old[..], b"theirs\nours, twice\n"].concat(), "{len} bytes before");
        assert_eq!(bench.fake.stores.lock().unwrap()[0].user, 5);
        // And goes on from there.
        bench.table.write(&open, None, b"more\n", 5).unwrap();
        assert!(!bench.table.commit(&open, WaitPolicy::Silence(SOON)).unwrap().unwrap().is_moved);
        assert!(bench.fake.bytes_of(file(1)).ends_with(b"theirs\nours, twice\nmore\n"));
    }
}

#[test]
fn what_was_appended_during_a_commit_goes_along() {
    let bench = bench();
    bench.fake.make(file(1), b"old\n");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, None, b"one\n", 0).unwrap();
    let (table, beside) = (Arc::clone(&bench.table), Arc::clone(&open));
    let fake = Arc::clone(&bench.fake);
    *bench.fake.meanwhile.lock().unwrap() = Some(Box::new(move || {
        table.write(&beside, None, b"two\n", 0).unwrap();
        let mut made = fake.make(file(1), b"new\n");
        made.version = record(900);
        fake.put(file(1), made);
    }));
    bench.table.commit(&open, WaitPolicy::Silence(SOON)).unwrap().unwrap();
    assert_eq!(bench.fake.bytes_of(file(1)), b"new\none\ntwo\n");
}

#[test]
fn what_was_not_only_appended_is_a_conflict_as_ever() {
    type Edit = fn(&Bench, &Arc<OpenFile>);
    let edits: [Edit; 3] = [
        |bench, open| {
            bench.table.write(open, Some(0), b"X", 0).unwrap();
        },
        |bench, open| bench.table.truncate(open, 2, 0).unwrap(),
        |bench, open| bench.table.zero(open, 0..2, Extend::No).unwrap(),
    ];
    for edit in edits {
        let bench = bench();
        bench.fake.make(file(1), b"old\n");
        let open = bench.open(1, Access::Write);
        bench.table.write(&open, None, b"line\n", 0).unwrap();
        edit(&bench, &open);
        newer(&bench, b"new\n");
        let committed = bench.table.commit(&open, WaitPolicy::Silence(SOON)).unwrap().unwrap();
        assert!(!committed.is_ours && !committed.is_moved);
        assert_eq!(bench.fake.bytes_of(file(1)), b"new\n");
    }
}

#[test]
fn an_append_that_cannot_be_moved_is_kept() {
    let bench = bench();
    bench.fake.make(file(1), b"old\n");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, None, b"line\n", 0).unwrap();
    newer(&bench, &noise(300_000));
    bench.fake.send_away();
    *bench.fake.is_cut_off.lock().unwrap() = true;
    assert!(bench.table.commit(&open, WaitPolicy::Silence(SOON)).is_err());
    *bench.fake.is_cut_off.lock().unwrap() = false;
    bench.table.commit(&open, WaitPolicy::Silence(SOON)).unwrap().unwrap();
    assert!(bench.fake.bytes_of(file(1)) == [&noise(300_000)[..], b"line\n"].concat());
}

#[test]
fn pages_are_wrong_after_a_move_whether_or_not_the_commit_came_to_its_end() {
    let bench = bench();
    bench.fake.make(file(1), b"old\n");
    let open = bench.open(1, Access::Write);
    bench.table.kernel_open(&open, Access::Write, Writes::ByRequest, &|_| None);
    bench.table.write(&open, None, b"line\n", 0).unwrap();
    newer(&bench, &noise(100_000));
    bench.fake.send_away();
    assert_eq!(bench.table.commit(&open, WaitPolicy::None), Err(OperationError::WouldBlock));
    assert_eq!(bench.table.poll_wrong_pages(), Some(file(1)), "it was moved before it had to wait");
    let committed = bench.table.commit(&open, WaitPolicy::Silence(SOON)).unwrap().unwrap();
    assert!(committed.is_ours);
    assert_eq!(bench.table.poll_wrong_pages(), None, "told once");
    // Nobody waits for this one.
    bench.table.write(&open, None, b"more\n", 0).unwrap();
    newer(&bench, b"new\n");
    assert_eq!(bench.table.commit_older(std::time::Duration::ZERO, WaitPolicy::Silence(SOON)), []);
    assert_eq!(bench.table.poll_wrong_pages(), Some(file(1)));
}

#[test]
fn a_file_that_the_kernel_reads_directly_follows_what_others_make_of_it() {
    const MIB: usize = 1 << 20;
    let bench = bench();
    let old = noise(5 * MIB);
    bench.fake.make(file(1), &old);
    let open = bench.open(1, Access::Read);
    assert!(bench.read_all(&open) == old);
    let served = std::sync::Mutex::new(None);
    let register = |body: &body::BodyFile| {
        *served.lock().unwrap() = Some(host_file(body));
        Some(BackingId::new(7))
    };
    let way = bench.table.kernel_open(&open, Access::Read, Writes::ByRequest, &register);
    assert_eq!(way, KernelWay::Passthrough(BackingId::new(7)));
    let shows = |wanted: &[u8]| {
        use std::os::unix::fs::FileExt;
        let file = served.lock().unwrap().as_ref().unwrap().try_clone().unwrap();
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes == wanted
    };
    let mut edited = [&old[..], b"appended"].concat();
    edited[2 * MIB] ^= 1;
    let versions = [[&old[..], &noise(MIB)].concat(), edited, old[..2 * MIB].to_vec(), b"short".to_vec(), old.clone()];
    for (number, bytes) in versions.into_iter().enumerate() {
        let mut made = bench.fake.make(file(1), &bytes);
        made.version = record(900 + number as u64);
        bench.fake.put(file(1), made);
        bench.table.changed_elsewhere(file(1));
        assert!(open.is_behind(), "version {number}");
        assert_eq!(bench.table.follow(&open, WaitPolicy::Silence(SOON)), Ok(Followed::Yes));
        assert!(shows(&bytes) && !open.is_behind(), "version {number}");
        assert!(bench.read_all(&open) == bytes);
    }
    // Who opens it now reads the same plain file; who writes it is not disturbed.
    let beside = bench.open(1, Access::Read);
    let way = bench.table.kernel_open(&beside, Access::Read, Writes::ByRequest, &register);
    assert_eq!(way, KernelWay::Passthrough(BackingId::new(7)));
    bench.table.write(&open, Some(0), b"mine", 0).unwrap();
    let mut made = bench.fake.make(file(1), b"theirs");
    made.version = record(999);
    bench.fake.put(file(1), made);
    bench.table.changed_elsewhere(file(1));
    assert_eq!(bench.table.follow(&open, WaitPolicy::Silence(SOON)), Ok(Followed::No));
    assert!(shows(&[b"mine", &old[4..]].concat()));
}

#[test]
fn what_cannot_be_fetched_for_a_direct_reader_is_followed_later() {
    let bench = bench();
    let old = noise(1 << 20);
    bench.fake.make(file(1), &old);
    let open = bench.open(1, Access::Read);
    assert!(bench.read_all(&open) == old);
    let register = |_: &body::BodyFile| Some(BackingId::new(7));
    bench.table.kernel_open(&open, Access::Read, Writes::ByRequest, &register);
    newer(&bench, &noise(2 << 20));
    bench.fake.send_away();
    *bench.fake.is_cut_off.lock().unwrap() = true;
    bench.table.changed_elsewhere(file(1));
    assert!(bench.table.follow(&open, WaitPolicy::Silence(SOON)).is_err() && open.is_behind());
    *bench.fake.is_cut_off.lock().unwrap() = false;
    assert_eq!(bench.table.follow(&open, WaitPolicy::Silence(SOON)), Ok(Followed::Yes));
    assert_eq!(bench.table.behind().len(), 0);
}

/// Proves [S-unlinked].
#[test]
fn a_reader_keeps_a_file_that_another_machine_removes() {
    let bench = bench();
    for (number, len) in [(1, 100), (2, 300_000)] {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        bench.fake.make(file(number), &bytes);
        let open = bench.open(number, Access::Read);
        bench.fake.mark_removed(file(number));
        bench.table.changed_elsewhere(file(number));
        assert!(bench.read_all(&open) == bytes, "{len} bytes read to the end");
        let last = bench.table.last_seen(file(number)).unwrap();
        assert_eq!((last.content.size(), last.links()), (len, 0));
    }
}

/// The laboratory's `space` found it: a reader kept what another machine had removed for as long as nothing needed the room.
#[test]
fn what_another_machine_removed_takes_no_room_once_nobody_has_it_open() {
    let bench = bench();
    for number in 1..=3 {
        bench.fake.make(file(number), &noise(200_000));
        let open = bench.open(number, Access::Read);
        bench.read_all(&open);
        if number < 3 {
            bench.table.close_file(&open, Access::Read);
        }
    }
    assert_eq!(bench.bodies(), 3);
    bench.fake.mark_removed(file(1));
    bench.fake.mark_removed(file(3));
    bench.table.let_go_removed();
    assert_eq!(bench.bodies(), 2, "one is there, and one is open");
    bench.table.close_file(&bench.table.find(file(3)).unwrap(), Access::Read);
    bench.table.let_go_removed();
    assert_eq!((bench.bodies(), bench.table.ids()), (1, vec![file(2)]));
}

/// Proves [S-unlinked]: attributes that are set through a handle bring back no file that another machine removed; what is written
/// does, and then it has them.
#[test]
fn a_file_that_another_machine_removed_keeps_what_is_set_through_its_handles() {
    let bench = bench();
    let made = bench.fake.make(file(1), b"bytes");
    let open = bench.open(1, Access::Write);
    // What was changed elsewhere before the removal counts.
    let name = XattrName::new(b"user.a").unwrap();
    let xattrs = [(name.clone(), bytes::Bytes::from_static(b"1"))].into();
    bench.table.know(file(1), &Inode { mode: 0o604, xattrs, unlisted: 3, ..made });
    bench.fake.mark_removed(file(1));
    bench.table.changed_elsewhere(file(1));
    let seen = bench.table.last_seen(file(1)).unwrap();
    assert_eq!((seen.links(), seen.content.size(), seen.xattrs.len()), (0, 5, 1));

    let set = open.change_removed(&seen, (bench.table.now(), 7), |inode| inode.mode = 0o640).unwrap();
    assert_eq!((set.mode, set.links()), (0o640, 0));
    assert_eq!(bench.table.last_seen(file(1)).unwrap().mode, 0o640);
    assert_eq!(bench.table.commit(&open, WaitPolicy::None), Ok(None));
    assert!(bench.fake.inode(file(1)).unwrap().is_removed());

    bench.table.write(&open, Some(0), b"B", 7).unwrap();
    assert!(bench.table.commit(&open, WaitPolicy::None).unwrap().is_some());
    let back = bench.fake.inode(file(1)).unwrap();
    assert_eq!((back.mode, back.xattrs.get(&name).map(|value| &value[..])), (0o640, Some(&b"1"[..])));
    let seen = bench.table.last_seen(file(1)).unwrap();
    assert_eq!(seen.content.size(), 5);
    assert!(open.change_removed(&back, (bench.table.now(), 7), |_| ()).is_none(), "it has a name");
}

/// A handle writes to what another machine removed: an update beats a removal.
#[test]
fn a_writer_brings_back_what_another_machine_removed() {
    let bench = bench();
    bench.fake.make(file(1), b"old");
    let open = bench.open(1, Access::Write);
    bench.fake.mark_removed(file(1));
    bench.table.changed_elsewhere(file(1));
    bench.table.write(&open, Some(3), b"er", 0).unwrap();
    assert!(bench.table.commit(&open, WaitPolicy::None).unwrap().is_some());
    assert_eq!(bench.fake.bytes_of(file(1)), b"older");
}

/// Proves [S-dirty-handle].
#[test]
fn a_clean_handle_sees_a_change_from_elsewhere_and_a_dirty_one_keeps_its_base() {
    let bench = bench();
    let old = bench.fake.make(file(1), b"one");
    let reader = bench.open(1, Access::Read);
    bench.fake.make(file(1), b"two!");
    bench.fake.inodes.lock().unwrap().get_mut(&file(1)).unwrap().version = super::testing::record(50);
    bench.table.changed_elsewhere(file(1));
    assert_eq!(bench.read_all(&reader), b"two!");
    let writer = bench.open(1, Access::Write);
    bench.table.write(&writer, Some(0), b"T", 0).unwrap();
    bench.fake.make(file(1), b"three");
    bench.fake.inodes.lock().unwrap().get_mut(&file(1)).unwrap().version = super::testing::record(60);
    bench.table.changed_elsewhere(file(1));
    assert_eq!(bench.read_all(&writer), b"Two!");
    let committed = bench.table.commit(&writer, WaitPolicy::None).unwrap().unwrap();
    assert!(!committed.is_ours);
    assert_eq!(bench.fake.stores.lock().unwrap()[0].base, super::testing::record(50));
    assert_ne!(old.version, super::testing::record(50));
}
