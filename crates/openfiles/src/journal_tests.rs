//! What a killed daemon leaves of open files.

use super::closing::EarlyClose;
use super::journal_bench::{LONG, SOON, bench, pattern, put, table};
use super::kernel_way::BackingId;
use super::open_file::Extend;
use super::testing::{body_path, file, inode, record};
use super::*;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wayfs_types::request::Removed;
use wayfs_types::{Content, FileId, FsError, Inode, Place};

/// Proves [S-kill].
#[test]
fn what_was_written_and_left_open_is_there_after_the_daemon_was_killed() {
    let bench = bench();
    let large = pattern(1 << 20, 3);
    let [small, made, edited, log] = [(1, &b"old bytes"[..]), (2, b""), (3, &large), (4, b"first\n")]
        .map(|(number, bytes)| bench.make(number, bytes));
    bench.write(&small, 4, b"BYTES, and more");
    bench.write(&made, 0, &large[..300_000]);
    bench.write(&made, 300_000, &large[300_000..]);
    bench.write(&edited, 500_000, b"edited");
    bench.write(&edited, 5, b"edited");
    bench.append(&log, b"second\n");
    bench.append(&log, b"third\n");
    let mtime = log.overlay().mtime.unwrap();
    let bench = bench.recovered();
    assert_eq!(bench.bytes(1), b"old BYTES, and more");
    assert!(bench.bytes(2) == large);
    let mut wanted = large;
    wanted[500_000..500_006].copy_from_slice(b"edited");
    wanted[5..11].copy_from_slice(b"edited");
    assert!(bench.bytes(3) == wanted);
    assert_eq!(bench.bytes(4), b"first\nsecond\nthird\n");
    let stores = bench.fake.stores.lock().unwrap().clone();
    let log = stores.iter().find(|store| store.file == file(4)).unwrap();
    assert_eq!((log.user, log.mtime, log.old_base), (7, mtime, OldBase::IsRefused));
    assert_eq!(stores.len(), 4, "one more version of each");
    bench.table.commit_older(LONG, WaitPolicy::Silence(Duration::ZERO));
    let bench = bench.killed();
    assert!(bench.table.dirty().is_empty(), "it is over");
}

/// Proves [S-kill].
#[test]
fn cuts_and_holes_are_there_after_the_daemon_was_killed() {
    let old = pattern(600_000, 1);
    for (number, len) in [(1, 1000), (2, 600_000)] {
        let bench = bench();
        let open = bench.make(number, &old[..len]);
        let mut wanted = old[..len].to_vec();
        let (cut, far) = (len / 2, len + 5000);
        bench.write(&open, 10, b"before the cut");
        wanted[10..24].copy_from_slice(b"before the cut");
        bench.table.truncate(&open, cut as u64, 0).unwrap();
        wanted.truncate(cut);
        bench.write(&open, far as u64, b"far");
        wanted.resize(far, 0);
        wanted.extend(b"far");
        bench.table.zero(&open, 20..40, Extend::No).unwrap();
        wanted[20..40].fill(0);
        bench.table.truncate(&open, far as u64 + 100, 0).unwrap();
        wanted.resize(far + 100, 0);
        let bench = bench.recovered();
        assert!(bench.bytes(number) == wanted, "{len}");
    }
}

#[test]
fn what_was_emptied_and_written_anew_holds_nothing_of_before() {
    let bench = bench();
    let [written, emptied] = [1, 2].map(|number| bench.make(number, &pattern(300_000, 1)));
    bench.table.empty(&written, 0).unwrap();
    bench.write(&written, 0, b"new");
    bench.table.empty(&emptied, 0).unwrap();
    let bench = bench.recovered();
    assert_eq!(bench.bytes(1), b"new");
    assert!(bench.bytes(2) == pattern(300_000, 1), "a program was to write there");
}

#[test]
fn a_file_that_outgrows_the_memory_loses_nothing() {
    let bench = bench();
    let open = bench.make(1, b"");
    let bytes = pattern(body::MEMORY_MAX + 5000, 9);
    for (at, piece) in bytes.chunks(1000).enumerate() {
        bench.write(&open, at as u64 * 1000, piece);
    }
    let bench = bench.recovered();
    assert!(bench.bytes(1) == bytes);
    assert_eq!(bench.stores(), 1);
}

/// Proves [S-kill]: what a program writes into the body by passthrough.
#[test]
fn what_is_written_by_passthrough_is_there_after_the_daemon_was_killed() {
    let bench = bench();
    let open = bench.make(1, b"");
    let register = |_: &body::BodyFile| Some(BackingId::new(3));
    bench.table.kernel_open(&open, Access::Write, Writes::Passthrough, &register);
    let untouched = bench.make(2, b"kept");
    bench.table.empty(&untouched, 0).unwrap();
    bench.table.kernel_open(&untouched, Access::Write, Writes::Passthrough, &register);
    let body: File = {
        let path = body_path(&bench.table, &open);
        OpenOptions::new().write(true).open(path).unwrap()
    };
    body.write_all_at(&pattern(3 << 20, 4), 0).unwrap();
    let bench = bench.recovered();
    assert!(bench.bytes(1) == pattern(3 << 20, 4));
    assert_eq!(bench.bytes(2), b"kept", "nothing was written there");
    assert_eq!(bench.stores(), 1);
}

#[test]
fn what_is_written_by_passthrough_after_a_commit_is_there_and_what_is_not_written_makes_no_version() {
    for is_written in [false, true] {
        let bench = bench();
        let open = bench.make(1, b"");
        bench.table.kernel_open(&open, Access::Write, Writes::Passthrough, &|_| Some(BackingId::new(3)));
        let path = body_path(&bench.table, &open);
        let body = OpenOptions::new().write(true).open(path).unwrap();
        let mut bytes = pattern(1 << 20, 4);
        body.write_all_at(&bytes, 0).unwrap();
        bench.commit(&open);
        if is_written {
            body.write_all_at(b"more", 1000).unwrap();
            bytes[1000..1004].copy_from_slice(b"more");
        }
        let bench = bench.recovered();
        assert!(bench.bytes(1) == bytes);
        assert_eq!(bench.stores(), 1 + usize::from(is_written));
    }
}

/// Proves [S-kill]. Seed 260 of the simulator, with slow disks: the clock was set back between a close that was noted and a write, and the
/// note passed for the newer of the two.
#[test]
fn a_clock_that_is_set_back_hides_nothing_behind_a_note() {
    for is_closed_again in [false, true] {
        let bench = bench();
        let open = bench.make(1, b"");
        bench.fake.clock.store(1_000_000, Ordering::Relaxed);
        let mut wanted = pattern(5_000_000, 1);
        bench.write(&open, 0, &wanted);
        assert_eq!(bench.table.close_early(&open, 1 << 30), EarlyClose::Noted);
        bench.fake.clock.store(0, Ordering::Relaxed);
        bench.write(&open, 4_999_999, b"later");
        put(&mut wanted, 4_999_999, b"later");
        if is_closed_again {
            assert_eq!(bench.table.close_early(&open, 1 << 30), EarlyClose::Noted);
        }
        let bench = bench.killed().killed();
        bench.table.commit_left();
        assert_eq!(bench.table.commit_older(LONG, WaitPolicy::Silence(Duration::from_secs(5))), []);
        assert!(bench.bytes(1) == wanted, "closed again: {is_closed_again}");
    }
}

#[test]
fn a_hole_in_what_was_emptied_shows_nothing_of_before() {
    for at in [5, 5_000_000] {
        let bench = bench();
        let open = bench.make(1, &pattern(6_000_000, 1));
        let before = bench.fake.inode(file(1)).unwrap();
        bench.fake.is_unwritten.store(true, Ordering::Relaxed);
        bench.table.empty(&open, 0).unwrap();
        bench.commit(&open);
        bench.write(&open, at, b"x");
        bench.fake.put(file(1), Inode::clone(&before));
        let bench = bench.recovered();
        assert!(bench.bytes(1) == [&vec![0; at as usize][..], b"x"].concat(), "{at}");
    }
}

#[test]
fn who_wrote_upon_a_version_that_another_replaced_commits_upon_that_version() {
    let bench = bench();
    let old = pattern(300_000, 1);
    let open = bench.make(1, &old);
    bench.write(&open, 0, b"ours");
    let before = bench.fake.inode(file(1)).unwrap().version;
    let theirs = bench.fake.make(file(1), b"theirs").content;
    bench.fake.put(file(1), inode(theirs, record(77)));
    let bench = bench.recovered();
    assert_eq!(bench.bytes(1), b"theirs", "the rules for conflicts decide");
    let stores = bench.fake.stores.lock().unwrap().clone();
    assert_eq!((stores.len(), stores[0].base, stores[0].old_base), (1, before, OldBase::Conflicts));
    assert_eq!(stores[0].content.size(), old.len() as u64);
}

/// Seed 164000381 of the simulator, with open files: what a program had made of the file since was as its base, and was taken for
/// nothing, while another machine's version was the newest.
#[test]
fn what_is_emptied_after_a_kill_and_before_the_commit_is_committed() {
    let bench = bench();
    let open = bench.make(1, b"");
    bench.write(&open, 0, b"ours");
    let before = bench.fake.inode(file(1)).unwrap().version;
    let theirs = bench.fake.make(file(1), b"theirs").content;
    bench.fake.put(file(1), inode(theirs, record(77)));
    let bench = bench.killed();
    let open = bench.open(1);
    bench.table.empty(&open, 0).unwrap();
    bench.commit(&open);
    let stores = bench.fake.stores.lock().unwrap().clone();
    assert_eq!((stores.len(), stores.first().map(|store| store.base)), (1, Some(before)));
}

#[test]
fn appended_lines_go_behind_those_of_others() {
    let bench = bench();
    let open = bench.make(1, b"one\n");
    bench.append(&open, b"ours\n");
    let theirs = bench.fake.make(file(1), b"one\ntheirs\n").content;
    bench.fake.put(file(1), inode(theirs, record(77)));
    let bench = bench.recovered();
    assert_eq!(bench.bytes(1), b"one\ntheirs\nours\n");
}

/// Proves [S-unlinked], [S-nameless].
#[test]
fn what_has_no_name_is_not_brought_back() {
    let bench = bench();
    let [early, late] = [1, 2].map(|number| bench.make(number, b"old"));
    bench.write(&early, 0, b"written before");
    for (number, removed) in [(1, file(1)), (2, file(2))] {
        let last = bench.fake.mark_removed(file(number));
        bench.table.removed(Removed { file: removed, inode: Arc::new(last) });
    }
    bench.write(&early, 0, b"and after");
    bench.write(&late, 0, b"after");
    let place = Place { parent: FileId::ROOT, name: "nameless".try_into().unwrap() };
    let nameless = Inode { removed_from: Some(place), ..inode(Content::EMPTY, record(3)) };
    bench.table.begin_nameless(file(3), Arc::new(nameless.clone()));
    let open = bench.table.open_file(file(3), &nameless, Access::Write);
    bench.write(&open, 0, b"nowhere");
    bench.table.tend_journals();
    let bench = bench.recovered();
    assert_eq!(bench.stores(), 0);
}

/// The removal is known to the engine, and the kill came before the journal had heard.
#[test]
fn a_removal_that_the_journal_did_not_hear_of_stays() {
    let bench = bench();
    let open = bench.make(1, b"old");
    bench.fake.is_unwritten.store(true, Ordering::Relaxed);
    bench.write(&open, 0, b"written");
    let last = bench.fake.mark_removed(file(1));
    bench.fake.removed_here.lock().unwrap().insert(file(1));
    bench.table.removed(Removed { file: file(1), inode: Arc::new(last) });
    let bench = bench.recovered();
    assert_eq!(bench.stores(), 0);
    assert_eq!(bench.bodies(), 0);
}

#[test]
fn of_a_torn_journal_counts_what_is_whole() {
    let bench = bench();
    let open = bench.make(1, b"");
    let mut lens = Vec::new();
    for word in ["one ", "two ", "three"] {
        bench.append(&open, word.as_bytes());
        lens.push(std::fs::metadata(bench.segment()).unwrap().len());
    }
    let journal = std::fs::read(bench.segment()).unwrap();
    let name = bench.segment();
    std::mem::forget(bench.table);
    for len in 0..=journal.len() {
        std::fs::write(&name, &journal[..len]).unwrap();
        bench.fake.make(file(1), b"");
        for other in std::fs::read_dir(name.parent().unwrap()).unwrap() {
            let path = other.unwrap().path();
            if path != name {
                std::fs::remove_file(path).unwrap();
            }
        }
        let table = table(&bench.fake, bench.directory.path());
        table.commit_left();
        let whole = lens.iter().filter(|end| **end <= len as u64).count();
        assert_eq!(bench.fake.bytes_of(file(1)), ["one ", "two ", "three"][..whole].concat().as_bytes(), "{len}");
        std::mem::forget(table);
    }
    // A byte that is another one ends what counts, too.
    let mut damaged = journal;
    damaged[lens[1] as usize - 2] ^= 1;
    std::fs::remove_file(bench.directory.path().join("files/journal-2")).unwrap();
    std::fs::write(&name, &damaged).unwrap();
    bench.fake.make(file(1), b"");
    let table = table(&bench.fake, bench.directory.path());
    table.commit_left();
    assert_eq!(bench.fake.bytes_of(file(1)), b"one ");
}

#[test]
fn a_cut_that_came_to_the_body_and_not_to_the_journal_brings_nothing_wrong() {
    let bench = bench();
    let old = pattern(500_000, 1);
    let open = bench.make(1, &old);
    bench.write(&open, 400_000, &[7; 50_000]);
    let path = body_path(&bench.table, &open);
    OpenOptions::new().write(true).open(path).unwrap().set_len(420_000).unwrap();
    let bench = bench.recovered();
    assert!(bench.bytes(1) == [&old[..400_000], &[7; 20_000]].concat());
}

/// Seed 260 of the simulator, with open files: what showed after the kill was not in the version that the next daemon made of it.
#[test]
fn what_a_killed_write_left_in_a_hole_does_not_show_for_a_while() {
    let bench = bench();
    let old = pattern(500_000, 1);
    let open = bench.make(1, &old);
    bench.write(&open, 10, b"in the body");
    bench.table.truncate(&open, 700_000, 0).unwrap();
    let body = OpenOptions::new().write(true).open(body_path(&bench.table, &open)).unwrap();
    body.write_all_at(&[7; 1000], 600_000).unwrap();
    let bench = bench.killed();
    let open = bench.table.find(file(1)).unwrap();
    let shown = bench.table.read(&open, 0..1 << 30, SOON).unwrap();
    bench.commit(&open);
    assert!(shown == bench.bytes(1), "what showed is stored");
    assert!(shown[500_000..] == [0; 200_000], "and nobody was told of what was cut off");
}

#[test]
fn a_journal_of_another_boot_says_nothing() {
    let bench = bench();
    let open = bench.make(1, b"old");
    bench.write(&open, 0, b"new");
    let segment = bench.segment();
    assert_eq!(std::fs::metadata(&segment).unwrap().permissions().mode() & 0o777, 0o600);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[10] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let bench = bench.recovered();
    assert_eq!((bench.bytes(1), bench.stores()), (b"old".to_vec(), 0));
    assert!(bench.segments().is_empty());
}

#[test]
fn a_second_kill_before_the_commit_takes_nothing() {
    let bench = bench();
    let old = pattern(300_000, 1);
    let [small, large] = [(1, &b"old"[..]), (2, &old)].map(|(number, bytes)| bench.make(number, bytes));
    bench.write(&small, 3, b"er");
    bench.write(&large, 100, b"LARGE");
    let bench = bench.killed().killed();
    let open = bench.open(2);
    bench.write(&open, 200, b"AGAIN");
    let bench = bench.recovered();
    assert_eq!(bench.bytes(1), b"older");
    let mut wanted = old;
    wanted[100..105].copy_from_slice(b"LARGE");
    wanted[200..205].copy_from_slice(b"AGAIN");
    assert!(bench.bytes(2) == wanted);
}

#[test]
fn what_is_in_memory_only_until_it_is_fetched_is_committed_when_it_can_be() {
    let bench = bench();
    let old = pattern(300_000, 1);
    let open = bench.make(1, &old);
    bench.write(&open, 150_000, b"new");
    bench.fake.send_away();
    *bench.fake.is_cut_off.lock().unwrap() = true;
    let bench = bench.killed();
    bench.table.commit_left();
    assert_eq!(
        bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(Duration::from_secs(5))),
        [(file(1), FsError::Unreachable)]
    );
    let bench = bench.killed();
    *bench.fake.is_cut_off.lock().unwrap() = false;
    let bench = bench.recovered();
    let mut wanted = old;
    wanted[150_000..150_003].copy_from_slice(b"new");
    assert!(bench.bytes(1) == wanted);
}

#[test]
fn the_journal_stays_small_and_holds_what_waits() {
    let bench = bench();
    let stuck = bench.make(1, b"");
    bench.write(&stuck, 0, b"waits");
    let busy = bench.make(2, b"");
    for round in 0..60_u64 {
        for piece in 0..10 {
            bench.write(&busy, piece * 10_000, &pattern(100_000, round as u8));
        }
        bench.commit(&busy);
        bench.table.tend_journals();
    }
    let len = || bench.segments().iter().map(|path| std::fs::metadata(path).unwrap().len()).sum::<u64>();
    assert!(len() < 20 << 20, "60 MB were written: {}", len());
    bench.commit(&stuck);
    bench.table.tend_journals();
    assert!(len() < 100, "{}", len());
    bench.write(&stuck, 0, b"WAITS");
    let bench = bench.recovered();
    assert_eq!(bench.bytes(1), b"WAITS");
}

#[test]
fn without_a_journal_writes_go_on_and_a_cut_is_not_undone() {
    let bench = bench();
    let old = pattern(300_000, 1);
    let open = bench.make(1, &old);
    bench.write(&open, 0, b"in the journal");
    // As on a full disk.
    let journal = bench.directory.path().join("files");
    bench.table.files.journal().refuse(true);
    bench.write(&open, 50, b"not in the journal");
    bench.table.truncate(&open, 10, 0).unwrap();
    bench.table.truncate(&open, 200_000, 0).unwrap();
    assert!(journal.exists());
    let bench = bench.recovered();
    assert!(bench.bytes(1) == old, "what cannot be said is as if it had not been written");
    let open = bench.open(1);
    bench.table.files.journal().refuse(true);
    bench.write(&open, 0, b"later");
    bench.table.files.journal().refuse(false);
    bench.write(&open, 5, b" and more");
    let bench = bench.recovered();
    assert_eq!(&bench.bytes(1)[..14], b"later and more", "as soon as there is room, all of it is said");
}

#[test]
fn a_daemon_that_ends_well_leaves_nothing_to_the_next() {
    let bench = bench();
    let open = bench.make(1, b"old");
    bench.fake.is_unwritten.store(true, Ordering::Relaxed);
    bench.write(&open, 0, b"new");
    bench.commit(&open);
    bench.fake.is_unwritten.store(false, Ordering::Relaxed);
    bench.table.end();
    bench.fake.put(file(1), inode(Content::EMPTY, record(99)));
    let bench = bench.killed();
    assert!(bench.table.dirty().is_empty());
}
