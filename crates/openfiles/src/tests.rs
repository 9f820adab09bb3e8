//! The table by example.

use super::Seek;
use super::kernel_way::BackingId;
use super::kernel_way::KernelWay;
use super::life::PAUSE;
use super::open_file::Extend;
use super::testing::{Fake, file, host_file, record};
use super::*;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wayfs_types::request::Removed;
use wayfs_types::{Content, FsError, Inode};

pub(super) const SOON: Duration = Duration::from_secs(5);

pub(super) struct Bench {
    pub(super) fake: Arc<Fake>,
    pub(super) table: Arc<FileTable>,
    _directory: tempfile::TempDir,
}

pub(super) fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let fake = Arc::new(Fake::new());
    let settings = TableSettings {
        disk: HostDisk::at(&directory.path().join("files"), 0),
        idle_len_max: 64 << 20,
        idle_count_max: 16,
        memory_max: crate::body::MEMORY_MAX,
        body_count_max: 64,
    };
    let table = Arc::new(FileTable::open(fake.clone(), settings).unwrap());
    Bench { fake, table, _directory: directory }
}

impl Bench {
    pub(super) fn open(&self, number: u64, access: Access) -> Arc<OpenFile> {
        let inode = self.fake.inode(file(number)).unwrap();
        self.table.open_file(file(number), &inode, access)
    }

    /// A program of this machine removes a file.
    pub(super) fn remove(&self, number: u64) {
        let last = self.fake.mark_removed(file(number));
        self.table.removed(Removed { file: file(number), inode: Arc::new(last) });
    }

    pub(super) fn seek(&self, open: &OpenFile, offset: u64, seek: Seek) -> Option<u64> {
        self.table.seek(open, offset, seek, WaitPolicy::Silence(SOON)).unwrap()
    }

    /// Body files that are there.
    pub(super) fn bodies(&self) -> usize {
        let names = std::fs::read_dir(self.table.directory()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().parse::<u64>().is_ok()).count()
    }

    pub(super) fn read_all(&self, open: &OpenFile) -> Vec<u8> {
        self.table.read(open, 0..1 << 30, WaitPolicy::Silence(SOON)).unwrap().to_vec()
    }
}

pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(step).collect()
}

/// Proves [S-close].
#[test]
fn a_new_file_written_and_closed_is_one_store() {
    let bench = bench();
    bench.fake.make(file(1), b"");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, Some(0), b"hello", 5).unwrap();
    bench.table.write(&open, None, b" world", 5).unwrap();
    assert!(open.is_dirty());
    let committed = bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
    assert!(committed.is_ours);
    bench.table.close_file(&open, Access::Write);
    assert_eq!(bench.fake.bytes_of(file(1)), b"hello world");
    assert_eq!(bench.fake.stores.lock().unwrap().len(), 1);
    assert_eq!(bench.fake.stores.lock().unwrap()[0].user, 5);
    assert!(bench.table.find(file(1)).is_none());
    assert_eq!(bench.table.commit(&open, WaitPolicy::None), Ok(None));
}

/// Proves [S-one-store].
#[test]
fn truncating_and_writing_again_is_one_store() {
    let bench = bench();
    bench.fake.make(file(1), &noise(300_000));
    let open = bench.open(1, Access::Write);
    bench.table.truncate(&open, 0, 0).unwrap();
    bench.table.write(&open, Some(0), b"new", 0).unwrap();
    bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
    assert_eq!(bench.fake.bytes_of(file(1)), b"new");
    assert_eq!(bench.fake.stores.lock().unwrap().len(), 1);
}

#[test]
fn a_small_edit_of_a_large_file_costs_little() {
    let bench = bench();
    let mut bytes = noise(20 << 20);
    bench.fake.make(file(1), &bytes);
    bench.fake.put_len.store(0, Ordering::Relaxed);
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, Some(7_000_000), &[0; 4096], 0).unwrap();
    bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
    bytes[7_000_000..7_004_096].fill(0);
    assert!(bench.fake.bytes_of(file(1)) == bytes);
    assert!(bench.fake.put_len.load(Ordering::Relaxed) < 4 << 20);
}

/// Proves [S-stream].
#[test]
fn what_is_far_away_is_told_and_then_fetched_chunk_by_chunk() {
    let bench = bench();
    let bytes = noise(8 << 20);
    bench.fake.make(file(1), &bytes);
    bench.fake.send_away();
    let open = bench.open(1, Access::Read);
    assert_eq!(bench.table.read(&open, 0..4096, WaitPolicy::None), Err(OperationError::WouldBlock));
    let read = bench.table.read(&open, 0..4096, WaitPolicy::Silence(SOON)).unwrap();
    assert!(read == bytes[..4096]);
    // The list node and a chunk or two came, the rest is still away, but asked for ahead.
    assert!(bench.fake.near.lock().unwrap().len() < 6);
    assert!(!bench.fake.prefetched.lock().unwrap().is_empty());
    assert!(bench.read_all(&open) == bytes);
}

#[test]
fn who_reads_in_order_waits_once_if_all_that_was_asked_for_ahead_comes() {
    const READ: u64 = 128 << 10;
    let bench = bench();
    let bytes = noise(12 << 20);
    bench.fake.make(file(1), &bytes);
    bench.fake.send_away();
    let open = bench.open(1, Access::Read);
    let (mut waits, mut brought) = (0, 0);
    for read in 0..bytes.len() as u64 / READ {
        let range = read * READ..(read + 1) * READ;
        let here = bench.table.read(&open, range.clone(), WaitPolicy::None);
        let here = here.or_else(|_| {
            waits += 1;
            bench.table.read(&open, range.clone(), WaitPolicy::Silence(SOON))
        });
        assert!(here.unwrap() == bytes[range.start as usize..range.end as usize]);
        brought += bench.fake.bring_ahead();
    }
    assert_eq!(waits, 1);
    assert!(brought > 20, "{brought} chunks came ahead");
}

/// Proves [S-partial-offline].
#[test]
fn without_a_network_a_missing_range_is_an_error_and_what_is_here_is_served() {
    let bench = bench();
    let bytes = noise(8 << 20);
    bench.fake.make(file(1), &bytes);
    bench.fake.send_away();
    let open = bench.open(1, Access::Read);
    bench.table.read(&open, 0..4096, WaitPolicy::Silence(SOON)).unwrap();
    *bench.fake.is_cut_off.lock().unwrap() = true;
    assert!(bench.table.read(&open, 100..5000, WaitPolicy::None).is_ok());
    let far = bench.table.read(&open, 7 << 20..8 << 20, WaitPolicy::Silence(SOON));
    assert_eq!(far, Err(OperationError::Failed(FsError::Unreachable)));
}

/// Proves [S-commit-error].
#[test]
fn a_failed_commit_keeps_everything_and_the_next_one_has_it() {
    let bench = bench();
    bench.fake.make(file(1), &noise(500_000));
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, Some(10), b"first", 0).unwrap();
    *bench.fake.refuse.lock().unwrap() = Some(FsError::NoSpace);
    assert_eq!(bench.table.commit(&open, WaitPolicy::None), Err(OperationError::Failed(FsError::NoSpace)));
    bench.table.write(&open, Some(400_000), b"second", 0).unwrap();
    bench.table.close_file(&open, Access::Write);
    assert_eq!(bench.table.dirty().len(), 1);
    *bench.fake.refuse.lock().unwrap() = None;
    assert!(bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(SOON)).is_empty());
    let bytes = bench.fake.bytes_of(file(1));
    assert_eq!((&bytes[10..15], &bytes[400_000..400_006]), (&b"first"[..], &b"second"[..]));
    assert!(bench.table.dirty().is_empty());
}

/// A commit that another can be driven beside: what happens between its steps is not in it and not lost.
#[test]
fn what_is_written_between_two_steps_of_a_commit_is_in_the_next_one() {
    let bench = bench();
    bench.fake.make(file(1), b"old bytes");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, Some(0), b"new", 0).unwrap();
    let (mut commit, begun) = bench.table.commit_begin(&open);
    assert!(matches!(begun, CommitStep::Hash));
    bench.table.write(&open, Some(4), b"BYTES", 0).unwrap();
    let CommitStep::Store(store) = bench.table.commit_hash(&open, WaitPolicy::None, &mut commit) else {
        panic!("made")
    };
    assert_eq!(bench.fake.bytes_in(&store.content), b"new bytes");
    let answer = bench.fake.store(store);
    let CommitStep::Over(outcome) = bench.table.commit_stored(&open, &mut commit, answer) else { panic!("over") };
    bench.table.commit_over(&open, &outcome);
    assert!(outcome.unwrap().unwrap().is_ours && open.is_dirty());
    assert_eq!(bench.read_all(&open), b"new BYTES");
    bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
    assert_eq!(bench.fake.bytes_of(file(1)), b"new BYTES");
}

/// Found by seed 32 of the simulator.
#[test]
fn what_is_cut_off_between_two_steps_of_a_commit_is_not_stored_as_zeros() {
    let bench = bench();
    bench.fake.make(file(1), b"");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, Some(0), &noise(300_000), 0).unwrap();
    let (mut commit, _) = bench.table.commit_begin(&open);
    bench.table.truncate(&open, 10, 0).unwrap();
    let step = bench.table.commit_hash(&open, WaitPolicy::None, &mut commit);
    assert!(matches!(step, CommitStep::Hash), "it takes what is there now: {step:?}");
    let step = bench.table.commit_hash(&open, WaitPolicy::None, &mut commit);
    let CommitStep::Store(store) = step else { panic!("made: {step:?}") };
    assert_eq!(bench.fake.bytes_in(&store.content), &noise(300_000)[..10]);
}

/// Proves [S-kill]: what was written and left open for a second is committed, and what was emptied alone is not yet.
#[test]
fn what_is_left_open_is_committed_after_a_pause() {
    const LONG: Duration = Duration::from_secs(3600);
    let bench = bench();
    bench.fake.make(file(1), b"old");
    bench.fake.make(file(2), b"emptied");
    let [written, emptied] = [1, 2].map(|number| bench.open(number, Access::Write));
    bench.table.write(&written, Some(3), b"er", 0).unwrap();
    bench.table.empty(&emptied, 0).unwrap();
    assert!(bench.table.commit_older(LONG, WaitPolicy::Silence(SOON)).is_empty());
    assert_eq!(bench.fake.bytes_of(file(1)), b"old", "it may be written on");
    std::thread::sleep(PAUSE);
    bench.fake.clock.fetch_add(2 * PAUSE.as_nanos() as i64, Ordering::Relaxed);
    assert!(bench.table.commit_older(LONG, WaitPolicy::Silence(SOON)).is_empty());
    assert_eq!(bench.fake.bytes_of(file(1)), b"older");
    assert_eq!(bench.fake.bytes_of(file(2)), b"emptied", "a program is to write there");
}

#[test]
fn a_commit_that_failed_is_not_tried_again_with_each_look() {
    let bench = bench();
    bench.fake.make(file(1), b"old");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, Some(3), b"er", 0).unwrap();
    *bench.fake.refuse.lock().unwrap() = Some(FsError::NoSpace);
    assert_eq!(
        bench.table.commit_older(Duration::from_nanos(1), WaitPolicy::Silence(SOON)),
        [(file(1), FsError::NoSpace)]
    );
    assert_eq!(
        bench.table.commit_older(Duration::from_nanos(1), WaitPolicy::Silence(SOON)),
        [],
        "it waits for a while"
    );
    assert_eq!(
        bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(SOON)).len(),
        1,
        "unless somebody asks for it"
    );
}

#[test]
fn a_removed_file_lives_on_in_its_handles_and_in_no_record() {
    let bench = bench();
    bench.fake.make(file(1), b"old");
    let open = bench.open(1, Access::Write);
    bench.remove(1);
    bench.table.write(&open, Some(3), b"er", 0).unwrap();
    assert_eq!(bench.read_all(&open), b"older");
    assert_eq!(bench.table.commit(&open, WaitPolicy::None), Ok(None));
    assert!(bench.table.overlay(file(1)).unwrap().is_removed);
    bench.table.close_file(&open, Access::Write);
    assert!(bench.table.find(file(1)).is_none());
    assert!(bench.fake.stores.lock().unwrap().is_empty());
}

/// Between the kernel's walk to a name and the open, another file was renamed over it.
#[test]
fn a_file_opened_just_after_it_was_removed_is_what_it_was() {
    let bench = bench();
    let before = bench.fake.make(file(1), b"all of it");
    bench.remove(1);
    let last = bench.table.last_seen(file(1)).expect("it is remembered");
    let open = bench.table.open_file(file(1), &last, Access::Write);
    assert_eq!((bench.read_all(&open), last.content.clone()), (b"all of it".to_vec(), before.content));
    bench.table.write(&open, Some(0), b"ALL", 0).unwrap();
    assert_eq!(bench.table.commit(&open, WaitPolicy::None), Ok(None), "it has no name, so no record is made");
    bench.table.close_file(&open, Access::Write);
    assert!(bench.fake.stores.lock().unwrap().is_empty());
}

/// The kernel keeps pages over a close and an open of one version. A version that comes back (updates that are put
/// into order) says nothing of the pages: those of the version between are there, read through a handle that was open.
#[test]
fn the_kernel_keeps_no_pages_from_between_of_a_version_that_came_back() {
    let bench = bench();
    let between = Inode { version: record(7), ..bench.fake.make(file(1), b"between") };
    let first = bench.fake.make(file(1), b"first");
    let open_way = || {
        let open = bench.open(1, Access::Read);
        let way = bench.table.kernel_open(&open, Access::Read, Writes::ByRequest, &|_| None);
        (open, way)
    };
    let close = |(open, way): (Arc<OpenFile>, KernelWay)| {
        bench.table.kernel_close(&open, Access::Read, way);
        bench.table.close_file(&open, Access::Read);
    };
    close(open_way());
    let early = open_way();
    assert_eq!(early.1, KernelWay::Cached { keep: true });
    bench.fake.put(file(1), between.clone());
    bench.table.changed_elsewhere(file(1));
    assert_eq!(bench.read_all(&early.0), b"between");
    bench.fake.put(file(1), first.clone());
    bench.table.changed_elsewhere(file(1));
    close(early);
    let late = open_way();
    assert_eq!(late.1, KernelWay::Cached { keep: false });
    close(late);

    // The same with a file that is removed here, read on through a handle, and comes back.
    let early = open_way();
    bench.fake.put(file(1), between);
    bench.table.changed_elsewhere(file(1));
    bench.remove(1);
    assert_eq!(bench.read_all(&early.0), b"between");
    bench.fake.put(file(1), first);
    bench.table.changed_elsewhere(file(1));
    assert_eq!(bench.read_all(&early.0), b"first", "it is a file like any other");
    close(early);
    let late = open_way();
    assert_eq!(late.1, KernelWay::Cached { keep: false });
    close(late);
}

#[test]
fn a_complete_large_file_is_read_by_passthrough_and_writers_then_go_direct() {
    let bench = bench();
    bench.fake.make(file(1), b"");
    let bytes = noise(300_000);
    let writer = bench.open(1, Access::Write);
    let register = |_: &body::BodyFile| Some(BackingId::new(9));
    assert_eq!(
        bench.table.kernel_open(&writer, Access::Write, Writes::ByRequest, &register),
        KernelWay::Cached { keep: false }
    );
    bench.table.write(&writer, Some(0), &bytes, 0).unwrap();
    // While a cached handle is open the kernel refuses passthrough.
    let cached = bench.table.kernel_open(&writer, Access::Read, Writes::ByRequest, &register);
    assert_eq!(cached, KernelWay::Cached { keep: true });
    bench.table.commit(&writer, WaitPolicy::None).unwrap().unwrap();
    bench.table.kernel_close(&writer, Access::Read, cached);
    bench.table.kernel_close(&writer, Access::Read, cached);
    bench.table.close_file(&writer, Access::Write);
    assert_eq!(bench.table.idle_len(), 300_000);
    let reader = bench.open(1, Access::Read);
    let way = bench.table.kernel_open(&reader, Access::Read, Writes::ByRequest, &register);
    assert_eq!(way, KernelWay::Passthrough(BackingId::new(9)));
    let direct = KernelWay::Direct(BackingId::new(9));
    assert_eq!(bench.table.kernel_open(&reader, Access::Write, Writes::ByRequest, &register), direct);
    assert_eq!(bench.table.kernel_close(&reader, Access::Write, direct), None);
    assert_eq!(bench.table.kernel_close(&reader, Access::Read, way), Some(BackingId::new(9)));
}

#[test]
fn the_kernel_keeps_pages_of_the_version_it_has() {
    let bench = bench();
    bench.fake.make(file(1), b"x");
    let register = |_: &body::BodyFile| None;
    let mut ways = Vec::new();
    for access in [Access::Write, Access::Read] {
        let open = bench.open(1, access);
        let way = bench.table.kernel_open(&open, access, Writes::ByRequest, &register);
        if access == Access::Write {
            bench.table.write(&open, Some(0), b"y", 0).unwrap();
            bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
        }
        bench.table.kernel_close(&open, access, way);
        bench.table.close_file(&open, access);
        ways.push(way);
    }
    assert_eq!(ways, [KernelWay::Cached { keep: false }, KernelWay::Cached { keep: true }]);
    bench.table.kernel_forgot(file(1));
    let open = bench.open(1, Access::Read);
    assert_eq!(
        bench.table.kernel_open(&open, Access::Read, Writes::ByRequest, &register),
        KernelWay::Cached { keep: false }
    );
}

#[test]
fn a_time_set_on_an_uncommitted_file_goes_with_its_store() {
    let bench = bench();
    bench.fake.make(file(1), b"");
    let open = bench.open(1, Access::Write);
    assert!(!open.set_mtime_if_dirty(wayfs_types::WallTime::from_nanos(77)));
    bench.table.write(&open, Some(0), b"a", 0).unwrap();
    assert!(open.set_mtime_if_dirty(wayfs_types::WallTime::from_nanos(77)));
    bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
    assert_eq!(bench.fake.stores.lock().unwrap()[0].mtime.as_nanos(), 77);
}

/// Who looks at the file elsewhere waits for both records: the time of the write is not the one that was asked for.
#[test]
fn a_file_whose_time_is_set_during_its_commit_is_closed_until_that_is_stored() {
    let bench = bench();
    bench.fake.make(file(1), b"");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, Some(0), b"a", 0).unwrap();
    bench.table.close_file(&open, Access::Write);
    let waited_for = Arc::new(Mutex::new(Vec::new()));
    let (table, seen) = (Arc::clone(&bench.table), Arc::clone(&waited_for));
    let look = move || seen.lock().unwrap().extend(table.closed_or_emptied());
    let (fake, setting) = (Arc::clone(&bench.fake), Arc::clone(&open));
    *bench.fake.meanwhile.lock().unwrap() = Some(Box::new(move || {
        assert!(setting.set_mtime_if_dirty(wayfs_types::WallTime::from_nanos(77)));
        *fake.meanwhile.lock().unwrap() = Some(Box::new(look));
    }));
    bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
    assert_eq!(*waited_for.lock().unwrap(), [file(1)]);
    assert_eq!(bench.fake.inode(file(1)).unwrap().mtime.as_nanos(), 77);
}

#[test]
fn holes_read_as_zeros_and_are_found() {
    let bench = bench();
    bench.fake.make(file(1), b"");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, Some(1 << 20), b"end", 0).unwrap();
    bench.table.zero(&open, 0..4096, Extend::No).unwrap();
    assert_eq!(bench.seek(&open, 0, Seek::Hole), Some(0));
    assert_eq!(bench.seek(&open, 0, Seek::Data), Some(1 << 20));
    assert_eq!(bench.seek(&open, 2 << 20, Seek::Data), None);
    let read = bench.read_all(&open);
    assert_eq!((read.len(), read.iter().all(|byte| *byte == 0)), ((1 << 20) + 3, false));
    bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
    assert!(bench.fake.bytes_of(file(1)) == read);
}

/// Proves [S-mapped-writes]: which pages a mapping beside readers stored into nobody tells, so all of the file counts as written.
#[test]
fn all_of_a_file_counts_as_written_when_a_mapping_beside_readers_stored_into_it() {
    let bench = bench();
    let size = 1 << 20;
    bench.fake.make(file(1), &noise(size as usize));
    let reader = bench.open(1, Access::Read);
    bench.read_all(&reader);
    let plain = Mutex::new(None);
    let register = |body: &body::BodyFile| {
        *plain.lock().unwrap() = Some(host_file(body));
        Some(BackingId::new(7))
    };
    bench.table.kernel_open(&reader, Access::Read, Writes::ByRequest, &register);
    let writer = bench.open(1, Access::Write);
    bench.table.kernel_open(&writer, Access::Write, Writes::ByRequest, &register);
    assert_eq!(writer.dirty_len(), 0);
    let plain = plain.into_inner().unwrap().unwrap();
    let store = |byte: &[u8], stamp| {
        std::os::unix::fs::FileExt::write_all_at(&plain, byte, 5000).unwrap();
        plain.set_modified(stamp).unwrap();
    };
    let stamp = std::time::SystemTime::now() + SOON;
    store(b"m", stamp);
    assert_eq!(writer.dirty_len(), size);
    bench.table.commit(&writer, WaitPolicy::Silence(SOON)).unwrap().unwrap();
    // Into a page that was stored into before: nothing tells of it but that it may be so.
    store(b"M", stamp);
    assert_eq!(writer.dirty_len(), 0);
    writer.notice_mapped_writes();
    assert_eq!(writer.dirty_len(), size);
    bench.table.commit(&writer, WaitPolicy::Silence(SOON)).unwrap().unwrap();
    assert_eq!(bench.fake.bytes_of(file(1))[5000], b'M');
}

/// Proves [S-holes].
#[test]
fn holes_of_a_committed_file_are_found_without_its_bytes() {
    const MIB: u64 = 1 << 20;
    let bench = bench();
    let mut bytes = noise(2 << 20);
    bytes.resize(40 << 20, 0);
    bytes.extend(noise(1 << 20));
    bench.fake.make(file(1), &bytes);
    let open = bench.open(1, Access::Write);
    let (hole, data) = (bench.seek(&open, 0, Seek::Hole).unwrap(), bench.seek(&open, 4 * MIB, Seek::Data).unwrap());
    assert!((2 * MIB..4 * MIB).contains(&hole) && (38 * MIB..=40 * MIB).contains(&data), "{hole} to {data}");
    assert_eq!(bench.seek(&open, 20 * MIB, Seek::Hole), Some(20 * MIB));
    assert_eq!(bench.seek(&open, data, Seek::Hole), Some(41 * MIB));
    // What is written and in no content yet is data; what is cut off and grown again is a hole.
    bench.table.write(&open, Some(20 * MIB), b"island", 0).unwrap();
    assert_eq!(bench.seek(&open, 4 * MIB, Seek::Data), Some(20 * MIB));
    assert_eq!(bench.seek(&open, 20 * MIB, Seek::Hole), Some(20 * MIB + 6));
    assert_eq!(bench.seek(&open, 20 * MIB + 6, Seek::Data), Some(data));
    bench.table.truncate(&open, 30 * MIB, 0).unwrap();
    bench.table.truncate(&open, 50 * MIB, 0).unwrap();
    assert_eq!(bench.seek(&open, 20 * MIB + 6, Seek::Data), None);
    assert_eq!(bench.seek(&open, 45 * MIB, Seek::Hole), Some(45 * MIB));
    bench.table.commit(&open, WaitPolicy::Silence(SOON)).unwrap().unwrap();
    let island = bench.seek(&open, 4 * MIB, Seek::Data).unwrap();
    assert!((19 * MIB..=20 * MIB).contains(&island), "{island}");
}

#[test]
fn bodies_that_nobody_has_open_are_bounded() {
    let bench = bench();
    for number in 1..=40 {
        bench.fake.make(file(number), b"");
        let open = bench.open(number, Access::Write);
        bench.table.write(&open, Some(0), &noise(200_000), 0).unwrap();
        bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
        bench.table.close_file(&open, Access::Write);
    }
    assert_eq!(bench.table.idle_len(), 16 * 200_000);
    assert_eq!(bench.bodies(), 16);
    assert!(bench.table.make_room());
    assert_eq!(bench.bodies(), 0);
}

#[test]
fn the_second_copy_of_what_was_only_written_goes_when_it_is_safe() {
    let bench = bench();
    for number in 1..=3 {
        bench.fake.make(file(number), b"");
        let open = bench.open(number, Access::Write);
        bench.table.write(&open, Some(0), &noise(200_000), 0).unwrap();
        bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
        if number == 1 {
            let reader = bench.open(number, Access::Read);
            bench.table.close_file(&reader, Access::Read);
        }
        bench.table.close_file(&open, Access::Write);
    }
    let let_go = |age, safe: u64| bench.table.let_go_copies(age, |id| id == file(1) || id == file(safe));
    let_go(Duration::from_secs(3600), 2);
    assert_eq!(bench.table.idle_len(), 3 * 200_000, "somebody may read them yet");
    let_go(Duration::ZERO, 2);
    assert_eq!(bench.table.ids().len(), 2);
    assert_eq!(bench.table.idle_len(), 2 * 200_000, "one is read, one is nowhere else");
    let open = bench.open(3, Access::Write);
    let_go(Duration::ZERO, 3);
    assert_eq!(bench.table.ids().len(), 2, "one that is open stays");
    bench.table.close_file(&open, Access::Write);
    let_go(Duration::ZERO, 3);
    assert_eq!(bench.table.ids(), [file(1)]);
}

#[test]
fn the_second_copy_of_what_is_long_goes_though_somebody_read_it() {
    let bench = bench();
    for (number, len) in [(1, 500_000), (2, 3_000_000)] {
        bench.fake.make(file(number), &noise(len));
        let open = bench.open(number, Access::Read);
        bench.read_all(&open);
        bench.table.let_go_copies(Duration::ZERO, |_| true);
        assert!(!bench.table.is_at_rest(), "it is open");
        bench.table.close_file(&open, Access::Read);
    }
    assert!(!bench.table.is_at_rest(), "one of them is to go");
    bench.table.let_go_copies(Duration::ZERO, |_| true);
    assert_eq!(bench.table.ids(), [file(1)]);
    assert!(bench.table.is_at_rest());
    let open = bench.open(2, Access::Read);
    assert!(bench.read_all(&open) == noise(3_000_000), "it is made again of chunks");
    bench.table.close_file(&open, Access::Read);
    bench.fake.send_away();
    bench.table.let_go_copies(Duration::ZERO, |_| true);
    assert_eq!(bench.table.ids().len(), 2, "of what the cache let go it is the only copy");
    assert!(bench.table.is_at_rest());
}

#[test]
fn an_inline_content_stays_inline() {
    let bench = bench();
    bench.fake.make(file(1), b"abc");
    let open = bench.open(1, Access::Write);
    bench.table.write(&open, None, b"def", 0).unwrap();
    bench.table.commit(&open, WaitPolicy::None).unwrap().unwrap();
    assert!(matches!(bench.fake.inode(file(1)).unwrap().content, Content::Inline(_)));
}

/// Proves [S-open-files].
#[test]
fn body_files_are_bounded_and_those_that_nobody_has_open_give_way() {
    let bench = bench();
    let write = |number: u64, len: usize| {
        let inode = bench.fake.make(file(number), b"");
        let open = bench.table.open_file(file(number), &inode, Access::Write);
        let outcome = bench.table.write(&open, Some(0), &vec![7; len], 1);
        (open, outcome)
    };
    let large = body::MEMORY_MAX + 1;
    let (idle, outcome) = write(1, large);
    assert_eq!(outcome, Ok(0));
    bench.table.commit(&idle, WaitPolicy::Silence(std::time::Duration::from_secs(5))).unwrap().unwrap();
    bench.table.close_file(&idle, Access::Write);
    drop(idle);
    let mut held: Vec<_> = (2..66).map(|number| write(number, large)).collect();
    assert!(held.iter().all(|(_, outcome)| *outcome == Ok(0)), "an idle body gave way");
    assert_eq!(write(100, large).1, Err(wayfs_types::FsError::TooManyFiles));
    assert_eq!(write(101, 1000).1, Ok(0), "what fits the memory needs no descriptor");
    let (first, _) = held.swap_remove(0);
    bench.table.commit(&first, WaitPolicy::Silence(std::time::Duration::from_secs(5))).unwrap().unwrap();
    bench.table.close_file(&first, Access::Write);
    drop(first);
    assert_eq!(write(102, large).1, Ok(0));
}
