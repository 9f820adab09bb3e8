//! Locks of programs.

use crate::fs::lock_wishes::LockPlace;
use crate::fs::testing::{Bench, Owed};
use crate::fs::{ConflictingLock, LockOwner, LockScope, LockTest, LockWait, LockWish, Unlock};
use wayfs_types::request::{LockKind, LockRange};
use wayfs_types::{FileId, FsError};

const FIRST: LockRange = LockRange { start: 0, end: 9 };
const SECOND: LockRange = LockRange { start: 10, end: 19 };

fn wish(owner: u64, range: LockRange, kind: LockKind, wait: LockWait) -> LockWish {
    let pid = u32::try_from(owner).unwrap();
    LockWish { owner: LockOwner::new(owner), scope: LockScope::Record, range, kind, pid, wait }
}

fn lock(bench: &Bench, place: LockPlace, wish: LockWish) -> Owed<()> {
    bench.ask(|fs, caller, reply| fs.lock(caller, place, wish, reply))
}

fn test(bench: &Bench, file: FileId, wish: LockWish) -> LockTest {
    bench.ask(|fs, caller, reply| fs.test_lock(caller, file, &wish, reply)).later().unwrap()
}

fn unlock(bench: &Bench, place: LockPlace, owner: u64, scope: LockScope) -> Owed<()> {
    let unlock = Unlock { owner: LockOwner::new(owner), scope, range: LockRange::WHOLE };
    bench.ask(|fs, caller, reply| fs.unlock(caller, place, unlock, reply))
}

/// A file that is open, as one handle sees it.
fn open(bench: &Bench, name: &str) -> LockPlace {
    let created = bench.try_create(name, libc::O_RDWR).unwrap();
    LockPlace { file: created.entry.file, handle: created.opened.handle }
}

#[test]
fn record_locks_keep_others_out_and_end_with_a_close() {
    let bench = Bench::new();
    let (one, other) = (open(&bench, "a"), open(&bench, "a"));
    lock(&bench, one, wish(1, FIRST, LockKind::Write, LockWait::Try)).later().unwrap();
    let refused = lock(&bench, other, wish(2, FIRST, LockKind::Read, LockWait::Try));
    assert_eq!(refused.later(), Err(FsError::Locked.into()));
    let holder = ConflictingLock { range: FIRST, kind: LockKind::Write, pid: 1 };
    assert_eq!(
        test(&bench, one.file, wish(2, LockRange::WHOLE, LockKind::Read, LockWait::Try)),
        LockTest(Some(holder))
    );
    assert_eq!(test(&bench, one.file, wish(1, FIRST, LockKind::Read, LockWait::Try)), LockTest(None), "its own");
    lock(&bench, other, wish(2, SECOND, LockKind::Write, LockWait::Try)).later().unwrap();
    bench.ask(|fs, caller, reply| fs.flush(caller, one.handle, LockOwner::new(1), reply)).later().unwrap();
    lock(&bench, other, wish(2, FIRST, LockKind::Write, LockWait::Try)).later().unwrap();
}

#[test]
fn who_waits_for_a_lock_gets_it_when_it_is_let_go_with_what_was_written_under_it() {
    let bench = Bench::new();
    let (one, other) = (open(&bench, "a"), open(&bench, "a"));
    lock(&bench, one, wish(1, FIRST, LockKind::Write, LockWait::Try)).later().unwrap();
    bench.write(one.handle, 0, b"written under it").unwrap();
    let waiting = lock(&bench, other, wish(2, FIRST, LockKind::Write, LockWait::Block));
    assert!(waiting.waits());
    assert_eq!(bench.toy.stores(), 0);
    unlock(&bench, one, 1, LockScope::Record).later().unwrap();
    assert_eq!((waiting.later(), bench.toy.stores()), (Ok(()), 1));
}

#[test]
fn any_signal_ends_the_wait_for_a_lock() {
    let bench = Bench::new();
    let (one, other) = (open(&bench, "a"), open(&bench, "a"));
    lock(&bench, one, wish(1, FIRST, LockKind::Write, LockWait::Try)).later().unwrap();
    let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let waiting = bench.ask_as((0, own), |fs, caller, reply| {
        fs.lock(caller, other, wish(2, FIRST, LockKind::Write, LockWait::Block), reply);
    });
    assert!(waiting.waits());
    bench.signal(&waiting);
    assert_eq!(waiting.later(), Err::<(), _>(FsError::Interrupted.into()));
    assert_eq!(bench.fs.pending.count(), 0);
}

#[test]
fn a_flock_is_its_handles_whoever_the_kernel_says_owns_it_and_ends_with_it() {
    let bench = Bench::new();
    let (one, other) = (open(&bench, "a"), open(&bench, "a"));
    let flock = LockWish { scope: LockScope::Flock, ..wish(7, LockRange::WHOLE, LockKind::Write, LockWait::Try) };
    lock(&bench, one, flock).later().unwrap();
    assert_eq!(lock(&bench, other, flock).later(), Err(FsError::Locked.into()), "the same number of another open file");
    let released = bench.ask(|fs, _, reply| fs.release(one.handle, Some(LockOwner::new(7)), reply));
    released.later().unwrap();
    lock(&bench, other, flock).later().unwrap();
    unlock(&bench, other, 7, LockScope::Flock).later().unwrap();
}
