//! What a killed daemon leaves of what it had committed: some of it has its record on the disk, some has not.

use super::journal_bench::{Bench, LONG, bench, pattern, put};
use super::testing::{file, inode, record};
use super::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wayfs_types::{Inode, OriginId, RecordId};

#[test]
fn what_was_committed_makes_no_second_version() {
    for is_marked in [false, true] {
        let bench = bench();
        let open = bench.make(1, b"old");
        bench.fake.is_unwritten.store(!is_marked, Ordering::Relaxed);
        bench.write(&open, 0, b"new");
        bench.commit(&open);
        bench.table.commit_older(LONG, WaitPolicy::Silence(Duration::ZERO));
        // A program sets a time, or a name, and the record is as old as before.
        bench.fake.inodes.lock().unwrap().get_mut(&file(1)).unwrap().mtime = wayfs_types::WallTime::from_nanos(99);
        let bench = bench.recovered();
        assert_eq!((bench.stores(), bench.bytes(1)), (1, b"new".to_vec()), "{is_marked}");
    }
}

/// Recorded histories met it: another machine went on from a record within the second after which its end was told, so the next
/// daemon committed it once more upon what it was written upon, and made a conflict copy, or a line twice.
#[test]
fn what_the_host_has_and_another_went_on_from_is_not_committed_again() {
    for is_appended in [false, true] {
        let bench = bench();
        let open = bench.make(1, b"one\n");
        bench.fake.is_unwritten.store(true, Ordering::Relaxed);
        if is_appended {
            bench.append(&open, b"ours\n")
        } else {
            bench.write(&open, 0, b"two\n")
        }
        bench.commit(&open);
        bench.fake.is_unwritten.store(false, Ordering::Relaxed);
        bench.table.written(u64::MAX);
        let theirs = bench.fake.make(file(1), b"theirs\n").content;
        bench.fake.put(file(1), inode(theirs, record(77)));
        let bench = bench.recovered();
        assert_eq!((bench.stores(), bench.bytes(1)), (1, b"theirs\n".to_vec()), "{is_appended}");
    }
}

/// Recorded histories met it: the home had ordered an append, the answer did not come before the kill, and the line stood there twice.
#[test]
fn what_the_home_may_have_ordered_is_not_committed_again() {
    for is_exclusive in [false, true] {
        let bench = bench();
        let open = bench.make(1, b"one\n");
        bench.append(&open, b"two\n");
        bench.fake.is_exclusive.store(is_exclusive, Ordering::Relaxed);
        let bench = bench.recovered();
        let expected: &[u8] = if is_exclusive { b"one\n" } else { b"one\ntwo\n" };
        assert_eq!(bench.bytes(1), expected, "{is_exclusive}");
    }
}

/// Proves [S-kill]: what is committed stays in the memory of the daemon for a moment.
#[test]
fn what_was_committed_and_not_with_the_host_is_committed_again() {
    let large = pattern(400_000, 1);
    for (first, second) in [(&b"one"[..], &b"two"[..]), (b"one", &large), (&large, b"two"), (&large[1..], &large)] {
        for is_continued in [false, true] {
            let bench = bench();
            let open = bench.make(1, &large[..200_000]);
            let before = bench.fake.inode(file(1)).unwrap();
            bench.fake.is_unwritten.store(true, Ordering::Relaxed);
            let mut wanted = large[..200_000].to_vec();
            put(&mut wanted, 100_000, first);
            bench.write(&open, 100_000, first);
            bench.commit(&open);
            if is_continued {
                bench.table.truncate(&open, 100_001, 0).unwrap();
                wanted.truncate(100_001);
                bench.write(&open, 150_000, second);
                put(&mut wanted, 150_000, second);
            }
            // The record is gone with the daemon.
            bench.fake.put(file(1), Inode::clone(&before));
            let bench = bench.recovered();
            assert!(bench.bytes(1) == wanted, "{} {} {is_continued}", first.len(), second.len());
        }
    }
}

/// Proves [S-kill]. Seed 164000305 of the simulator, with open files: what the next daemon commits is in its memory at first, too, and the
/// body from which it did so went at once.
#[test]
fn what_was_committed_after_a_kill_and_not_with_the_host_is_committed_again() {
    let bench = bench();
    let mut wanted = pattern(200_000, 1);
    let open = bench.make(1, &wanted);
    let before = bench.fake.inode(file(1)).unwrap();
    bench.write(&open, 100_000, b"one");
    put(&mut wanted, 100_000, b"one");
    let bench = bench.killed();
    bench.fake.is_unwritten.store(true, Ordering::Relaxed);
    bench.table.commit_left();
    assert!(bench.bytes(1) == wanted);
    // The record is gone with the second daemon, too.
    bench.fake.put(file(1), Inode::clone(&before));
    let bench = bench.recovered();
    assert!(bench.bytes(1) == wanted);
}

/// A program's commit met another machine's version and became a copy, and the program went on upon that version. Nothing of it is with the
/// host.
struct Copied {
    bench: Bench,
    /// Upon what the copy was written, and the version that won.
    bases: [RecordId; 2],
    /// What the copy and the file hold.
    wanted: [Vec<u8>; 2],
    /// Stores so far.
    stores: usize,
}

impl Copied {
    fn new() -> Self {
        let bench = bench();
        let mut wanted = [pattern(1000, 1), pattern(1000, 9)];
        let open = bench.make(1, &wanted[0]);
        let first = bench.fake.inode(file(1)).unwrap().version;
        bench.write(&open, 100, b"mine");
        let theirs = bench.fake.make(file(1), &wanted[1]).content;
        let other = RecordId::new(OriginId::new(8).unwrap(), 77).unwrap();
        bench.fake.put(file(1), inode(theirs, other));
        bench.fake.is_unwritten.store(true, Ordering::Relaxed);
        bench.commit(&open);
        bench.table.changed_elsewhere(file(1));
        drop(open);
        let open = bench.open(1);
        bench.write(&open, 200, b"upon theirs");
        put(&mut wanted[0], 100, b"mine");
        put(&mut wanted[1], 200, b"upon theirs");
        let stores = bench.stores();
        Self { bench, bases: [first, other], wanted, stores }
    }
}

/// Proves [S-kill]: a kill takes the record of the copy, and what was written since does not stand for it.
#[test]
fn what_met_another_version_and_was_not_with_the_host_is_committed_again() {
    let Copied { bench, bases, stores, .. } = Copied::new();
    let bench = bench.recovered();
    let again: BTreeSet<_> = bench.fake.stores.lock().unwrap()[stores..].iter().map(|store| store.base).collect();
    assert_eq!(again, BTreeSet::from(bases));
}

/// Proves [S-kill]: the same, and a second kill comes before anything is committed again. Programs see what they went on with.
#[test]
fn what_is_left_beside_the_file_stays_beside_it() {
    let Copied { bench, wanted, stores, .. } = Copied::new();
    let bench = bench.killed().killed();
    let open = bench.table.find(file(1)).expect("it is uncommitted");
    assert!(bench.table.read(&open, 0..1000, WaitPolicy::None).unwrap() == wanted[1]);
    let bench = bench.recovered();
    let again = bench.fake.stores.lock().unwrap()[stores..].to_vec();
    let again: Vec<_> = again.iter().map(|store| bench.fake.bytes_in(&store.content)).collect();
    assert!(again.len() == 2 && wanted.iter().all(|wanted| again.contains(wanted)), "{}", again.len());
}

/// What became a copy, and is with the host though the journal has not heard of it, becomes none again.
#[test]
fn what_met_another_version_and_is_with_the_host_makes_no_second_copy() {
    let Copied { bench, bases, stores, .. } = Copied::new();
    bench.fake.written_stores.store(stores, Ordering::Relaxed);
    let bench = bench.recovered();
    let again: Vec<_> = bench.fake.stores.lock().unwrap()[stores..].iter().map(|store| store.base).collect();
    assert_eq!(again, bases[1..]);
}

/// Proves [S-kill]: where the journal takes nothing, for want of room, a close waits until the disk has its record.
#[test]
fn what_no_journal_took_waits_for_the_disk_once_it_is_committed() {
    for (is_refused, is_unwritten) in [(false, true), (true, true), (true, false)] {
        let bench = bench();
        let open = bench.make(1, &pattern(1000, 1));
        bench.table.files.journal().refuse(is_refused);
        bench.write(&open, 100, b"mine");
        assert!(!bench.table.waits_for_the_disk(&open), "nothing is committed");
        bench.fake.is_unwritten.store(is_unwritten, Ordering::Relaxed);
        bench.commit(&open);
        assert_eq!(bench.table.waits_for_the_disk(&open), is_refused && is_unwritten);
        // What is committed later says nothing of it.
        bench.table.files.journal().refuse(false);
        bench.write(&open, 300, b"more");
        bench.commit(&open);
        assert_eq!(bench.table.waits_for_the_disk(&open), is_refused && is_unwritten);
        bench.fake.is_unwritten.store(false, Ordering::Relaxed);
        assert!(!bench.table.waits_for_the_disk(&open), "it is on the disk");
    }
}

/// Proves [S-kill]: what is written during a commit, and no journal takes, is not in that commit's record.
#[test]
fn what_no_journal_took_during_a_commit_waits_for_the_disk_after_the_next() {
    let bench = bench();
    let open = bench.make(1, &pattern(1000, 1));
    bench.table.files.journal().refuse(true);
    bench.write(&open, 100, b"mine");
    let (table, beside) = (Arc::clone(&bench.table), Arc::clone(&open));
    *bench.fake.meanwhile.lock().unwrap() = Some(Box::new(move || {
        table.write(&beside, Some(300), b"more", 0).unwrap();
    }));
    bench.commit(&open);
    assert!(!bench.table.waits_for_the_disk(&open), "the disk has what is committed");
    bench.fake.is_unwritten.store(true, Ordering::Relaxed);
    bench.commit(&open);
    assert!(bench.table.waits_for_the_disk(&open));
}

/// Proves [S-kill]: a body that a close was acknowledged for stays until the disk has the record, however short room is.
#[test]
fn a_body_stays_until_the_disk_has_what_it_holds() {
    let bench = bench();
    let mut wanted = pattern(200_000, 1);
    let open = bench.make(1, &wanted);
    let before = bench.fake.inode(file(1)).unwrap();
    bench.fake.is_unwritten.store(true, Ordering::Relaxed);
    bench.write(&open, 100_000, b"mine");
    put(&mut wanted, 100_000, b"mine");
    bench.commit(&open);
    bench.table.close_file(&open, Access::Write);
    drop(open);
    assert!(!bench.table.wait_for_room(), "the disk has nothing yet");
    bench.table.make_room();
    // The record is gone with the daemon.
    bench.fake.put(file(1), Inode::clone(&before));
    let bench = bench.recovered();
    assert!(bench.bytes(1) == wanted);
}

/// Proves [S-kill]. Seed 166000550 of the simulator, with open files: lines that a commit took while others came, and the kill found the
/// record in the log and the journal without a word of it.
#[test]
fn what_was_appended_and_has_a_record_is_not_appended_again() {
    let large = pattern(300_000, 1);
    for (begin, has_more) in [(&b"begin "[..], false), (b"begin ", true), (&large, false), (&large, true)] {
        let bench = bench();
        let open = bench.make(1, begin);
        bench.table.write(&open, None, b"one ", 0).unwrap();
        if has_more {
            bench.table.write(&open, None, b"two ", 0).unwrap();
        }
        // Who committed is dead: the engine has the record.
        let content = bench.fake.make(file(1), &[begin, b"one "].concat()).content;
        bench.fake.put(file(1), inode(content, record(1_000_000)));
        let bench = bench.recovered();
        let end: &[u8] = if has_more { b"one two " } else { b"one " };
        assert!(bench.bytes(1) == [begin, end].concat(), "{} {has_more}", begin.len());
        assert_eq!(bench.stores(), usize::from(has_more));
    }
}

/// Proves [S-kill]. Seed 180110882 of the simulator, with open files: the kill came between the body and the journal when a program wrote over
/// what it had appended and what was committed since. The body was not what the record holds any more, so that it was appended again.
#[test]
fn what_is_written_over_what_has_a_record_is_not_appended_again() {
    let bench = bench();
    let large = pattern(300_000, 1);
    let open = bench.make(1, &large);
    bench.fake.is_unwritten.store(true, Ordering::Relaxed);
    bench.append(&open, b"one two ");
    bench.commit(&open);
    let (from, copy) = (bench.directory.path().join("files"), tempfile::tempdir().unwrap());
    let to = copy.path().join("files");
    *bench.fake.at_clock.lock().unwrap() = Some(Box::new(move || {
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(&from).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }));
    bench.write(&open, 300_004, b"TWO ");
    assert!(bench.fake.at_clock.lock().unwrap().is_none());
    // The disk has the record after all.
    bench.fake.written_stores.store(1, Ordering::Relaxed);
    let bench = Bench { directory: copy, ..bench }.recovered();
    assert_eq!(String::from_utf8_lossy(&bench.bytes(1)[300_000..]), "one two ");
    assert_eq!(bench.stores(), 1);
}

/// Proves [S-kill]. Seed 180222071 of the simulator, with open files: a note about a close waited for the disk while its body was written over
/// and committed once more. The kill came when the journal had just said that all of this ended, and the note had the next daemon make a
/// version of what nobody had written so.
#[test]
fn a_note_does_not_outlive_what_the_journal_says_of_its_body() {
    let bench = bench();
    let mut wanted = pattern(5_000_000, 1);
    let open = bench.make(1, b"");
    bench.write(&open, 0, &wanted);
    assert_eq!(bench.table.close_early(&open, 1 << 30), EarlyClose::Noted);
    bench.fake.is_disk_stuck.store(true, Ordering::Relaxed);
    bench.commit(&open);
    bench.write(&open, 4_999_998, b"later");
    put(&mut wanted, 4_999_998, b"later");
    bench.commit(&open);
    bench.table.written(u64::MAX);
    let bench = bench.recovered();
    assert!(bench.bytes(1) == wanted);
    assert_eq!(bench.stores(), 2);
}

#[test]
fn what_is_written_while_a_commit_runs_is_kept_beside_it() {
    for is_lost in [false, true] {
        let bench = bench();
        let open = bench.make(1, b"");
        let before = bench.fake.inode(file(1)).unwrap();
        bench.fake.is_unwritten.store(is_lost, Ordering::Relaxed);
        bench.write(&open, 0, b"early");
        let (late, to) = (Arc::clone(&bench.table), Arc::clone(&open));
        *bench.fake.meanwhile.lock().unwrap() = Some(Box::new(move || {
            late.write(&to, Some(5), b" and late", 7).unwrap();
        }));
        bench.commit(&open);
        assert_eq!(bench.bytes(1), b"early");
        if is_lost {
            bench.fake.put(file(1), Inode::clone(&before));
        }
        let bench = bench.recovered();
        assert_eq!(bench.bytes(1), b"early and late", "{is_lost}");
    }
}
