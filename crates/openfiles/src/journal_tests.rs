//! What a killed daemon leaves of open files.

use super::closing::EarlyClose;
use super::kernel_way::BackingId;
use super::open_file::Extend;
use super::table::TableSettings;
use super::testing::{Fake, body_path, file, inode, record};
use super::*;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wayfs_types::request::Removed;
use wayfs_types::{Content, FileId, FsError, Inode, OriginId, Place, RecordId};

pub(super) const SOON: WaitPolicy = WaitPolicy::Silence(Duration::from_secs(5));
pub(super) const LONG: Duration = Duration::from_secs(3600);

pub(super) struct Bench {
    pub(super) fake: Arc<Fake>,
    pub(super) table: Arc<FileTable>,
    directory: tempfile::TempDir,
}

fn table(fake: &Arc<Fake>, directory: &Path) -> Arc<FileTable> {
    let settings = TableSettings {
        disk: HostDisk::at(&directory.join("files"), 0),
        idle_len_max: 64 << 20,
        idle_count_max: 16,
        memory_max: crate::body::MEMORY_MAX,
        body_count_max: 64,
    };
    Arc::new(FileTable::open(fake.clone(), settings).unwrap())
}

pub(super) fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let fake = Arc::new(Fake::new());
    let table = table(&fake, directory.path());
    Bench { fake, table, directory }
}

pub(super) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ seed).collect()
}

impl Bench {
    pub(super) fn make(&self, number: u64, bytes: &[u8]) -> Arc<OpenFile> {
        self.fake.make(file(number), bytes);
        self.open(number)
    }

    pub(super) fn open(&self, number: u64) -> Arc<OpenFile> {
        let inode = self.fake.inode(file(number)).unwrap();
        self.table.open_file(file(number), &inode, Access::Write)
    }

    fn write(&self, open: &OpenFile, offset: u64, bytes: &[u8]) {
        self.table.write(open, Some(offset), bytes, 7).unwrap();
    }

    fn append(&self, open: &OpenFile, bytes: &[u8]) {
        self.table.write(open, None, bytes, 7).unwrap();
    }

    fn commit(&self, open: &OpenFile) {
        self.table.commit(open, SOON).unwrap();
    }

    pub(super) fn bytes(&self, number: u64) -> Vec<u8> {
        self.fake.bytes_of(file(number))
    }

    fn stores(&self) -> usize {
        self.fake.stores.lock().unwrap().len()
    }

    /// As if the daemon were killed and another started. A killed daemon ends nothing.
    pub(super) fn killed(self) -> Self {
        let Self { fake, table: before, directory } = self;
        std::mem::forget(before);
        fake.is_unwritten.store(false, Ordering::Relaxed);
        let table = table(&fake, directory.path());
        Self { fake, table, directory }
    }

    /// The same, and what it left is committed.
    fn recovered(self) -> Self {
        let bench = self.killed();
        bench.table.commit_left();
        assert_eq!(bench.table.commit_older(LONG, Duration::from_secs(5)), []);
        assert!(bench.table.dirty().is_empty());
        bench
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path().join("files")).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("journal-"));
        paths.sort();
        paths
    }

    /// The one segment that there is.
    fn segment(&self) -> PathBuf {
        let [only] = &self.segments()[..] else { panic!("not one segment: {:?}", self.segments()) };
        only.clone()
    }

    /// Body files that are there.
    fn bodies(&self) -> usize {
        let entries = std::fs::read_dir(self.directory.path().join("files")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().parse::<u64>().is_ok()).count()
    }
}

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
    bench.table.commit_older(LONG, Duration::ZERO);
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

#[test]
fn what_was_committed_makes_no_second_version() {
    for is_marked in [false, true] {
        let bench = bench();
        let open = bench.make(1, b"old");
        bench.fake.is_unwritten.store(!is_marked, Ordering::Relaxed);
        bench.write(&open, 0, b"new");
        bench.commit(&open);
        bench.table.commit_older(LONG, Duration::ZERO);
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
        assert_eq!(bench.table.commit_older(LONG, Duration::from_secs(5)), []);
        assert!(bench.bytes(1) == wanted, "closed again: {is_closed_again}");
    }
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

pub(super) fn put(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    bytes.resize(bytes.len().max(at + new.len()), 0);
    bytes[at..at + new.len()].copy_from_slice(new);
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
    assert_eq!(bench.table.commit_older(Duration::ZERO, Duration::from_secs(5)), [(file(1), FsError::Unreachable)]);
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
