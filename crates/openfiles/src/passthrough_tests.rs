//! Bodies that programs write by passthrough, and files that are closed before their commit.

use super::Seek;
use super::closing::EarlyClose::{BehindAnother, Noted, Unfit};
use super::kernel_way::BackingId;
use super::kernel_way::KernelWay;
use super::open_file::Extend;
use super::table::DirtyFile;
use super::testing::{Fake, file, host_file, record};
use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wayfs_types::{FsError, WallTime};

const BY_PASSTHROUGH: KernelWay = KernelWay::Passthrough(BackingId::new(3));
const DIRECT: KernelWay = KernelWay::Direct(BackingId::new(3));
const ROOM: u64 = 1 << 40;

struct Bench {
    fake: Arc<Fake>,
    table: FileTable,
    directory: tempfile::TempDir,
}

fn table(fake: &Arc<Fake>, directory: &Path) -> FileTable {
    let settings = TableSettings {
        disk: HostDisk::at(&directory.join("files"), 0),
        idle_len_max: 64 << 20,
        idle_count_max: 16,
        memory_max: crate::body::MEMORY_MAX,
        body_count_max: 64,
    };
    FileTable::open(fake.clone(), settings).unwrap()
}

fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let fake = Arc::new(Fake::new());
    fake.make(file(1), b"");
    let table = table(&fake, directory.path());
    Bench { fake, table, directory }
}

/// A handle that writes by passthrough, and the body as the kernel has it.
struct Handle {
    open: Arc<OpenFile>,
    body: File,
}

impl Bench {
    fn open(&self, access: Access) -> Arc<OpenFile> {
        let inode = self.fake.inode(file(1)).unwrap();
        self.table.open_file(file(1), &inode, access)
    }

    fn kernel_open(&self, open: &OpenFile, access: Access, writes: Writes) -> (KernelWay, Option<File>) {
        let body = Mutex::new(None);
        let register = |registered: &body::BodyFile| {
            *body.lock().unwrap() = Some(host_file(registered));
            Some(BackingId::new(3))
        };
        let way = self.table.kernel_open(open, access, writes, &register);
        (way, body.into_inner().unwrap())
    }

    fn open_passthrough(&self) -> Handle {
        let open = self.open(Access::Write);
        self.table.empty(&open, 7).unwrap();
        let (way, body) = self.kernel_open(&open, Access::Write, Writes::Passthrough);
        assert_eq!(way, BY_PASSTHROUGH);
        Handle { open, body: body.unwrap() }
    }

    fn close_passthrough(&self, handle: Handle) {
        self.table.kernel_close(&handle.open, Access::Write, BY_PASSTHROUGH);
        self.table.close_file(&handle.open, Access::Write);
    }

    fn read(&self, open: &OpenFile) -> Vec<u8> {
        self.table.read(open, 0..1 << 30, wait_policy()).unwrap().to_vec()
    }

    fn notes(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path().join("files")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|found| found == "closed")).collect()
    }

    /// Notes count where the journal says nothing: there was no room for it.
    fn forget_journal(&self) {
        for entry in std::fs::read_dir(self.directory.path().join("files")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("journal-") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    /// As if the daemon were killed and another started. A killed daemon removes no body.
    fn killed(self) -> Self {
        let Self { fake, table: before, directory } = self;
        std::mem::forget(before);
        let table = table(&fake, directory.path());
        Self { fake, table, directory }
    }
}

fn wait_policy() -> WaitPolicy {
    WaitPolicy::Silence(Duration::from_secs(5))
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(step).collect()
}

#[test]
fn what_is_written_by_passthrough_shows_at_once_and_is_committed_whole() {
    let bench = bench();
    let handle = bench.open_passthrough();
    let mut bytes = noise(700_000, 1);
    handle.body.write_all_at(&bytes, 0).unwrap();
    assert_eq!(handle.open.overlay().size, 700_000);
    assert!(handle.open.overlay().mtime.is_some_and(|mtime| mtime > WallTime::from_nanos(1_000_000_000)));
    let reader = bench.open(Access::Read);
    assert_eq!(bench.kernel_open(&reader, Access::Read, Writes::ByRequest).0, BY_PASSTHROUGH);
    assert!(bench.read(&reader) == bytes);
    bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    assert!(bench.fake.bytes_of(file(1)) == bytes);
    assert!(!handle.open.is_dirty());
    // Overwriting in the same moment moves neither the length nor, on a coarse clock, a time but the mark.
    handle.body.write_all_at(b"again", 300_000).unwrap();
    bytes[300_000..300_005].copy_from_slice(b"again");
    assert_eq!(handle.open.dirty_len(), 700_000);
    bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    assert!(bench.fake.bytes_of(file(1)) == bytes);
    handle.body.write_all_at(b"!", 700_000).unwrap();
    bytes.push(b'!');
    bench.close_passthrough(handle);
    bench.table.commit(&reader, wait_policy()).unwrap().unwrap();
    assert!(bench.fake.bytes_of(file(1)) == bytes);
    assert_eq!(bench.fake.stores.lock().unwrap().len(), 3);
    assert_eq!(bench.table.commit(&reader, wait_policy()), Ok(None));
}

#[test]
fn requests_beside_find_and_change_what_was_written_by_passthrough() {
    let bench = bench();
    let handle = bench.open_passthrough();
    handle.body.write_all_at(&noise(400_000, 2), 0).unwrap();
    let beside = bench.open(Access::Write);
    assert_eq!(bench.kernel_open(&beside, Access::Write, Writes::ByRequest).0, DIRECT);
    assert_eq!(bench.table.write(&beside, None, b"appended", 7), Ok(400_000));
    bench.table.zero(&beside, 0..4096, Extend::No).unwrap();
    assert_eq!(bench.table.seek(&handle.open, 0, Seek::Data, WaitPolicy::None), Ok(Some(4096)));
    bench.table.truncate(&beside, 300_000, 7).unwrap();
    handle.body.write_all_at(b"end", 300_000).unwrap();
    let mut bytes = noise(400_000, 2);
    bytes[..4096].fill(0);
    bytes.truncate(300_000);
    bytes.extend_from_slice(b"end");
    assert!(bench.read(&beside) == bytes);
    bench.table.commit(&handle.open, wait_policy()).unwrap();
    assert!(bench.fake.bytes_of(file(1)) == bytes);
}

#[test]
fn a_time_that_was_asked_for_holds_until_the_next_write() {
    let bench = bench();
    let handle = bench.open_passthrough();
    handle.body.write_all_at(b"bytes", 0).unwrap();
    let asked = WallTime::from_nanos(1_000_000_000_000);
    assert!(handle.open.set_mtime_if_dirty(asked));
    assert_eq!(handle.open.overlay().mtime, Some(asked));
    bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    assert_eq!(bench.fake.inode(file(1)).unwrap().mtime, asked);
    handle.body.write_all_at(b"more", 5).unwrap();
    assert!(handle.open.overlay().mtime.unwrap() > asked);
}

#[test]
fn only_what_is_empty_and_in_no_page_cache_is_written_by_passthrough() {
    let bench = bench();
    let cached = bench.open(Access::Read);
    assert!(matches!(bench.kernel_open(&cached, Access::Read, Writes::ByRequest).0, KernelWay::Cached { .. }));
    let writer = bench.open(Access::Write);
    let (way, _) = bench.kernel_open(&writer, Access::Write, Writes::Passthrough);
    assert!(matches!(way, KernelWay::Cached { .. }), "the kernel mixes no ways");
    bench.table.kernel_close(&writer, Access::Write, way);
    bench.table.kernel_close(&cached, Access::Read, way);
    bench.table.write(&writer, Some(0), b"x", 0).unwrap();
    let (way, _) = bench.kernel_open(&writer, Access::Write, Writes::Passthrough);
    assert!(matches!(way, KernelWay::Cached { .. }), "an edit costs what it touches");
}

#[test]
fn a_second_open_that_empties_joins_and_the_last_writer_ends_it() {
    let bench = bench();
    let first = bench.open_passthrough();
    first.body.write_all_at(&noise(500_000, 3), 0).unwrap();
    let second = bench.open(Access::Write);
    bench.table.empty(&second, 7).unwrap();
    assert_eq!(bench.kernel_open(&second, Access::Write, Writes::Passthrough).0, BY_PASSTHROUGH);
    first.body.write_all_at(b"both", 0).unwrap();
    let body = first.body.try_clone().unwrap();
    bench.close_passthrough(first);
    body.write_all_at(b" write", 4).unwrap();
    assert!(second.is_written_by_passthrough());
    bench.close_passthrough(Handle { open: Arc::clone(&second), body });
    assert!(!second.is_written_by_passthrough());
    bench.table.commit(&second, wait_policy()).unwrap().unwrap();
    assert_eq!(bench.fake.bytes_of(file(1)), b"both write");
}

/// Proves [S-dirty-handle].
#[test]
fn news_from_elsewhere_do_not_touch_what_is_written_by_passthrough() {
    let bench = bench();
    let handle = bench.open_passthrough();
    bench.fake.make(file(1), b"theirs");
    bench.fake.inodes.lock().unwrap().get_mut(&file(1)).unwrap().version = record(60);
    bench.table.changed_elsewhere(file(1));
    handle.body.write_all_at(b"ours", 0).unwrap();
    let committed = bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    assert!(!committed.is_ours);
    let stores = bench.fake.stores.lock().unwrap();
    assert_eq!((stores[0].content.size(), stores[0].base), (4, file(1).maker()));
}

#[test]
fn news_that_came_while_it_was_written_by_passthrough_are_taken_in_when_the_writer_leaves() {
    let bench = bench();
    let handle = bench.open_passthrough();
    let reader = bench.open(Access::Read);
    handle.body.write_all_at(b"ours", 0).unwrap();
    handle.open.notice_mapped_writes();
    bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    bench.fake.make(file(1), b"theirs!");
    bench.fake.inodes.lock().unwrap().get_mut(&file(1)).unwrap().version = record(60);
    bench.table.changed_elsewhere(file(1));
    assert_eq!(bench.read(&reader), b"ours");
    assert!(bench.table.catch_up(&handle.open));
    assert_eq!(bench.read(&reader), b"ours", "it may still write");
    bench.table.kernel_close(&handle.open, Access::Write, BY_PASSTHROUGH);
    assert!(bench.table.catch_up(&handle.open));
    bench.table.close_file(&handle.open, Access::Write);
    assert_eq!(bench.read(&reader), b"theirs!");
}

#[test]
fn a_file_without_a_name_is_written_to_the_end_and_leaves_nothing() {
    let bench = bench();
    let handle = bench.open_passthrough();
    handle.body.write_all_at(&noise(300_000, 4), 0).unwrap();
    let last = bench.fake.inode(file(1)).unwrap();
    bench.table.removed(wayfs_types::request::Removed { file: file(1), inode: last });
    handle.body.write_all_at(b"more", 300_000).unwrap();
    assert_eq!(handle.open.overlay().size, 300_004);
    assert_eq!(bench.table.commit(&handle.open, wait_policy()), Ok(None));
    bench.close_passthrough(handle);
    assert!(bench.table.find(file(1)).is_none());
    bench.forget_journal();
    assert_eq!(std::fs::read_dir(bench.directory.path().join("files")).unwrap().count(), 0);
}

#[test]
fn a_commit_in_the_middle_rests_and_a_sync_in_the_middle_is_remembered() {
    let bench = bench();
    let handle = bench.open_passthrough();
    handle.body.write_all_at(&noise(300_000, 5), 0).unwrap();
    assert!(!dirty(&bench).is_resting);
    bench.table.commit(&handle.open, wait_policy()).unwrap();
    handle.open.note_sync();
    assert!(!handle.open.is_syncer(), "a sync at the end is no sync in the middle");
    handle.body.write_all_at(b"more", 300_000).unwrap();
    assert!(handle.open.is_syncer());
    let mut state = handle.open.state();
    let hour = state.time() + Duration::from_secs(3600);
    state.life.rest(hour);
    drop(state);
    assert!(dirty(&bench).is_resting);
    assert!(bench.table.commit_older(Duration::from_nanos(1), WaitPolicy::Silence(Duration::from_secs(5))).is_empty());
    assert!(handle.open.is_dirty(), "not so soon after the last");
    bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(Duration::from_secs(5)));
    assert!(!handle.open.is_dirty(), "whoever asks gets it");
}

fn dirty(bench: &Bench) -> DirtyFile {
    bench.table.dirty()[0]
}

/// A file that a program wrote by passthrough and closed, and that is not committed yet; its handle is still there.
fn closed_early(bytes: &[u8]) -> (Bench, Handle) {
    let bench = bench();
    let handle = bench.open_passthrough();
    handle.body.write_all_at(bytes, 0).unwrap();
    assert_eq!(bench.table.close_early(&handle.open, ROOM), Noted);
    (bench, handle)
}

/// Proves [S-close-large].
#[test]
fn a_close_returns_early_and_the_commit_takes_the_note_back() {
    let bytes = noise(2 << 20, 6);
    let (bench, handle) = closed_early(&bytes);
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (2 << 20, 1));
    assert!(bench.table.is_closing(file(1)));
    let open = Arc::clone(&handle.open);
    bench.close_passthrough(handle);
    *bench.fake.refuse.lock().unwrap() = Some(FsError::NoSpace);
    assert!(bench.table.commit(&open, wait_policy()).is_err());
    assert_eq!(bench.notes().len(), 1, "nobody else has it");
    *bench.fake.refuse.lock().unwrap() = None;
    bench.table.commit(&open, wait_policy()).unwrap().unwrap();
    assert!(bench.fake.bytes_of(file(1)) == bytes);
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
}

/// Proves [S-close-large]: who renames the file, or looks at it elsewhere, waits for its commit, and finds the time that was set.
#[test]
fn a_time_that_is_set_while_a_closed_file_is_hashed_is_committed_with_it() {
    let (bench, handle) = closed_early(&noise(2 << 20, 8));
    let open = Arc::clone(&handle.open);
    bench.close_passthrough(handle);
    let asked = WallTime::from_nanos(1_000_000_000_000);
    let setting = Arc::clone(&open);
    *bench.fake.meanwhile.lock().unwrap() = Some(Box::new(move || assert!(setting.set_mtime_if_dirty(asked))));
    bench.table.commit(&open, wait_policy()).unwrap().unwrap();
    assert_eq!(bench.fake.inode(file(1)).unwrap().mtime, asked);
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
}

#[test]
fn what_closes_early_is_bounded_and_whole() {
    let bench = bench();
    let handle = bench.open_passthrough();
    handle.body.set_len(1 << 20).unwrap();
    assert_eq!(bench.table.close_early(&handle.open, (1 << 20) - 1), Unfit, "no room for a second copy");
    assert_eq!(bench.table.close_early(&handle.open, 1 << 20), Noted);
    assert_eq!(bench.table.closing_len(), 1 << 20);
    handle.body.set_len(2 << 20).unwrap();
    assert_eq!(bench.table.close_early(&handle.open, ROOM), Noted, "a duplicated handle is closed once more");
    assert_eq!(bench.table.closing_len(), 2 << 20);
    handle.body.set_len(3 << 30).unwrap();
    assert_eq!(bench.table.close_early(&handle.open, (3 << 30) - 1), Unfit, "nor for all that is closing");
    assert_eq!(bench.table.close_early(&handle.open, 3 << 30), Noted, "however large it is");
    let other = {
        let inode = bench.fake.make(file(2), &noise(1 << 20, 7));
        bench.table.open_file(file(2), &inode, Access::Write)
    };
    bench.table.write(&other, Some(5), &[1; 300_000], 0).unwrap();
    assert_eq!(bench.table.close_early(&other, ROOM), Unfit, "an edit of what was there");
}

/// Proves [S-kill].
#[test]
fn what_was_closed_early_is_there_after_the_daemon_was_killed() {
    let bytes = noise(3 << 20, 8);
    let (bench, handle) = closed_early(&bytes);
    let mtime = handle.open.overlay().mtime;
    let bench = bench.killed();
    assert_eq!(bench.table.overlay(file(1)).map(|overlay| (overlay.size, overlay.mtime)), Some((3 << 20, mtime)));
    assert!(bench.table.commit_older(Duration::from_secs(30), WaitPolicy::Silence(Duration::from_secs(5))).is_empty());
    assert!(bench.fake.bytes_of(file(1)) == bytes);
    let stores = bench.fake.stores.lock().unwrap().clone();
    assert_eq!((stores.len(), stores[0].user, Some(stores[0].mtime)), (1, 7, mtime));
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
}

#[test]
fn of_two_bodies_that_a_kill_left_of_one_file_the_newer_counts() {
    for newer in ["0", "1000"] {
        let bytes = noise(1 << 20, 15);
        let (bench, _handle) = closed_early(&bytes);
        bench.forget_journal();
        let note = bench.notes().remove(0);
        let other = note.with_file_name(newer);
        std::fs::write(&other, noise(1 << 20, 16)).unwrap();
        std::fs::copy(&note, other.with_extension("closed")).unwrap();
        let bench = bench.killed();
        bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(Duration::from_secs(5)));
        let found = bench.fake.bytes_of(file(1));
        assert!(found == if newer == "0" { bytes } else { noise(1 << 20, 16) }, "{newer}");
        assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
    }
}

#[test]
fn a_daemon_killed_between_the_record_and_the_note_makes_no_second_record() {
    let (bench, handle) = closed_early(&noise(1 << 20, 9));
    let note = bench.notes().remove(0);
    let text = std::fs::read(&note).unwrap();
    bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    std::fs::write(&note, text).unwrap();
    let bench = bench.killed();
    bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(Duration::from_secs(5)));
    assert_eq!(bench.fake.stores.lock().unwrap().len(), 1);
    assert!(bench.notes().is_empty());
}

/// Proves [S-kill]: a handle that a fork copied is closed in the middle of what is written, and its commit is not
/// through when the program closes the file.
#[test]
fn nobody_closes_early_behind_a_commit_that_is_not_durable() {
    let (bench, handle) = closed_early(&noise(1 << 20, 12));
    bench.fake.is_disk_stuck.store(true, Ordering::Relaxed);
    bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (1 << 20, 1), "no disk has the record");
    let bytes = noise(2 << 20, 13);
    handle.body.write_all_at(&bytes, 0).unwrap();
    assert_eq!(bench.table.close_early(&handle.open, ROOM), BehindAnother, "its note would go with the other");
    bench.fake.is_disk_stuck.store(false, Ordering::Relaxed);
    bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
    handle.body.write_all_at(b"more", 0).unwrap();
    let mut state = handle.open.state();
    let (size, now) = (state.size, state.time());
    state.life.commit_begun(size, now);
    drop(state);
    assert_eq!(bench.table.close_early(&handle.open, ROOM), BehindAnother, "its note would name the wrong base");
    handle.open.state().life.commit_failed(size, now);
    assert_eq!(bench.table.close_early(&handle.open, ROOM), Noted);
    bench.close_passthrough(handle);
    bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(Duration::from_secs(5)));
    assert_eq!(bench.fake.bytes_of(file(1)), [b"more", &bytes[4..]].concat());
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
}

#[test]
fn a_note_goes_when_a_disk_that_was_stuck_has_the_record() {
    let (bench, handle) = closed_early(&noise(1 << 20, 14));
    bench.close_passthrough(handle);
    let other = bench.table.open_file(file(2), &bench.fake.make(file(2), b""), Access::Write);
    bench.table.write(&other, Some(0), &noise(2 << 20, 17), 0).unwrap();
    assert_eq!(bench.table.close_early(&other, ROOM), Noted);
    bench.table.close_file(&other, Access::Write);
    bench.fake.is_disk_stuck.store(true, Ordering::Relaxed);
    bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(Duration::from_secs(5)));
    let before = bench.fake.sync_count.load(Ordering::Relaxed);
    bench.table.commit_older(Duration::from_secs(30), WaitPolicy::Silence(Duration::from_secs(5)));
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (3 << 20, 2));
    assert_eq!(bench.fake.sync_count.load(Ordering::Relaxed) - before, 1, "the disk is waited for once");
    bench.fake.is_disk_stuck.store(false, Ordering::Relaxed);
    bench.table.commit_older(Duration::from_secs(30), WaitPolicy::Silence(Duration::from_secs(5)));
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
    assert_eq!(bench.fake.stores.lock().unwrap().len(), 2);
}

#[test]
fn notes_of_another_boot_and_of_removed_files_are_thrown_away() {
    for is_reboot in [true, false] {
        let (bench, _handle) = closed_early(&noise(1 << 20, 10));
        bench.forget_journal();
        let note = bench.notes().remove(0);
        if is_reboot {
            let mut text: serde_json::Value = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
            text["boot"] = "another".into();
            std::fs::write(&note, text.to_string()).unwrap();
        } else {
            bench.fake.inodes.lock().unwrap().remove(&file(1));
        }
        let bench = bench.killed();
        assert!(bench.table.dirty().is_empty());
        assert_eq!(std::fs::read_dir(bench.directory.path().join("files")).unwrap().count(), 0);
    }
}

#[test]
fn an_open_that_empties_takes_a_body_of_its_own() {
    let bytes = noise(1 << 20, 11);
    let (bench, handle) = closed_early(&bytes);
    let body = handle.body.try_clone().unwrap();
    bench.close_passthrough(handle);
    let again = bench.open_passthrough();
    again.body.write_all_at(b"second", 0).unwrap();
    // Whoever still cuts and hashes what was closed reads it to the end.
    let mut kept = vec![0; bytes.len()];
    body.read_exact_at(&mut kept, 0).unwrap();
    assert!(kept == bytes);
    bench.table.commit(&again.open, wait_policy()).unwrap().unwrap();
    assert_eq!(bench.fake.bytes_of(file(1)), b"second");
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
}

/// A file that was closed before its commit, of which the commit is about to begin.
fn about_to_be_committed(bench: &Bench) -> Arc<OpenFile> {
    let handle = bench.open_passthrough();
    handle.body.write_all_at(&noise(3 << 20, 5), 0).unwrap();
    assert_eq!(bench.table.close_early(&handle.open, ROOM), Noted);
    bench.close_passthrough(handle);
    bench.table.find(file(1)).unwrap()
}

/// Proves [S-unlinked]: the background commit of a file is called off when the file is removed.
#[test]
fn a_file_that_is_removed_while_it_is_hashed_is_not_stored() {
    let bench = Arc::new(bench());
    let open = about_to_be_committed(&bench);
    let remover = Arc::clone(&bench);
    *bench.fake.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let last = remover.fake.mark_removed(file(1));
        remover.table.removed(wayfs_types::request::Removed { file: file(1), inode: last.into() });
    }));
    assert_eq!(bench.table.commit(&open, wait_policy()), Ok(None));
    assert!(bench.fake.put_len.load(Ordering::Relaxed) < 3 << 20, "it was hashed to its end");
    assert_eq!(bench.fake.stores.lock().unwrap().len(), 0);
    assert!(bench.table.find(file(1)).is_none(), "nobody has it, and nothing will come of it");
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
}

/// The engine has heard of the removal, and the thread that asked for it not yet.
#[test]
fn a_file_that_the_engine_refuses_to_store_because_it_was_removed_here_is_let_go() {
    let bench = bench();
    let open = about_to_be_committed(&bench);
    bench.fake.mark_removed(file(1));
    bench.fake.removed_here.lock().unwrap().insert(file(1));
    assert_eq!(bench.table.commit(&open, wait_policy()), Ok(None));
    assert_eq!(bench.table.dirty(), []);
    assert!(bench.table.find(file(1)).is_none());
    assert_eq!((bench.table.closing_len(), bench.notes().len()), (0, 0));
}

/// Proves [S-holes]: what nobody wrote is neither read nor hashed.
#[test]
fn a_hole_in_what_was_written_by_passthrough_costs_next_to_nothing() {
    let bench = bench();
    let handle = bench.open_passthrough();
    let size = 1 << 40;
    handle.body.set_len(size).unwrap();
    handle.body.write_all_at(b"in the middle", size / 2).unwrap();
    bench.table.commit(&handle.open, wait_policy()).unwrap().unwrap();
    assert!(bench.fake.put_len.load(Ordering::Relaxed) < 8 << 20);
    assert_eq!(bench.fake.inode(file(1)).unwrap().content.size(), size);
    // A reader elsewhere has nothing but the chunks.
    let other = bench.fake.inode(file(1)).unwrap();
    bench.close_passthrough(handle);
    bench.table.make_room();
    let reader = bench.table.open_file(file(1), &other, Access::Read);
    let middle = bench.table.read(&reader, size / 2 - 2..size / 2 + 15, wait_policy()).unwrap();
    assert_eq!(&middle[..], b"\0\0in the middle\0\0");
}

/// As `unzip` and `rsync` do: the time is set when the file is closed, and its commit runs already.
#[test]
fn a_time_that_is_set_while_a_closed_file_is_hashed_is_committed_soon() {
    let bench = Arc::new(bench());
    let open = about_to_be_committed(&bench);
    let (closed, time) = (Arc::clone(&open), WallTime::from_nanos(1_000_000_007));
    *bench.fake.meanwhile.lock().unwrap() = Some(Box::new(move || {
        assert!(closed.set_mtime_if_dirty(time));
    }));
    bench.table.commit(&open, wait_policy()).unwrap().unwrap();
    assert_eq!(bench.table.commit_older(Duration::from_secs(30), WaitPolicy::Silence(Duration::from_secs(5))), []);
    assert_eq!(bench.fake.inode(file(1)).unwrap().mtime, time);
    assert!(!open.is_dirty());
}
