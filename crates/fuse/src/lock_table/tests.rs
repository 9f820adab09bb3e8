use super::*;
use proptest::prelude::*;

const FILE: Inode = Inode::new(9);

fn subject(owner: u64, scope: LockScope) -> LockSubject {
    LockSubject { inode: FILE, scope, owner: LockOwner::new(owner) }
}

fn record(owner: u64) -> LockSubject {
    subject(owner, LockScope::Record)
}

fn lock(kind: LockKind, start: u64, end: u64) -> FileLock {
    FileLock { range: LockRange { start, end }, kind, pid: 1 }
}

#[test]
fn readers_share_and_writers_do_not() {
    let mut table = LockTable::default();
    assert_eq!(table.try_set(record(1), lock(LockKind::Read, 0, 9), 1).0, LockOutcome::Granted(1));
    assert_eq!(table.try_set(record(2), lock(LockKind::Read, 5, 9), 2).0, LockOutcome::Granted(2));
    assert_eq!(table.try_set(record(3), lock(LockKind::Write, 9, 20), 3).0, LockOutcome::Held(3));
    assert_eq!(table.try_set(record(3), lock(LockKind::Write, 10, 20), 3).0, LockOutcome::Granted(3));
    let found = table.conflict(record(1), &lock(LockKind::Write, 0, 99)).unwrap();
    assert_eq!(found.range, LockRange { start: 5, end: 9 });
}

#[test]
fn an_unlock_in_the_middle_leaves_both_ends() {
    let mut table = LockTable::default();
    let _ = table.try_set(record(1), lock(LockKind::Write, 0, 99), ());
    let _ = table.try_set(record(1), lock(LockKind::Unlock, 40, 59), ());
    assert_eq!(table.conflict(record(2), &lock(LockKind::Write, 40, 59)), None);
    assert!(table.conflict(record(2), &lock(LockKind::Write, 39, 39)).is_some());
    assert!(table.conflict(record(2), &lock(LockKind::Write, 60, 60)).is_some());
}

#[test]
fn neighbours_join_so_that_a_sweep_costs_one_lock() {
    let mut table = LockTable::default();
    for byte in 0..10_000 {
        let (outcome, _) = table.try_set(record(1), lock(LockKind::Write, byte, byte), ());
        assert_eq!(outcome, LockOutcome::Granted(()));
    }
    assert_eq!(table.held[&(FILE, LockScope::Record)].len(), 1);
}

#[test]
fn too_many_holes_are_refused() {
    let mut table = LockTable::default();
    let refused = (0..10_000_u64)
        .map(|byte| byte * 2)
        .find(|byte| table.try_set(record(1), lock(LockKind::Write, *byte, *byte), ()).0 == LockOutcome::TooMany(()));
    assert!(refused.is_some());
}

#[test]
fn waiters_are_granted_in_order_and_may_be_cancelled() {
    let mut table = LockTable::default();
    let _ = table.try_set(record(1), lock(LockKind::Write, 0, 9), 0);
    for (number, owner) in [(10, 2), (11, 3), (12, 4)] {
        let (outcome, _) = table.set(Unique::new(number), record(owner), lock(LockKind::Read, 0, 9), owner);
        assert_eq!(outcome, LockOutcome::Waiting);
    }
    assert_eq!(table.cancel(Unique::new(11)), Some(3));
    assert_eq!(table.cancel(Unique::new(11)), None);
    assert_eq!(table.release(record(1)), vec![2, 4]);
    assert_eq!(table.waiting_len(), 0);
}

#[test]
fn a_circle_of_waiters_is_refused() {
    let mut table = LockTable::default();
    let _ = table.try_set(record(1), lock(LockKind::Write, 0, 0), 0);
    let _ = table.try_set(record(2), lock(LockKind::Write, 1, 1), 0);
    let (outcome, _) = table.set(Unique::new(1), record(1), lock(LockKind::Write, 1, 1), 0);
    assert_eq!(outcome, LockOutcome::Waiting);
    let (outcome, _) = table.set(Unique::new(2), record(2), lock(LockKind::Write, 0, 0), 0);
    assert_eq!(outcome, LockOutcome::Deadlock(0));
}

#[test]
fn two_flocks_that_upgrade_do_not_wait_for_each_other() {
    let mut table = LockTable::default();
    let whole = |kind| FileLock { range: LockRange::WHOLE, kind, pid: 1 };
    let flock = |owner| subject(owner, LockScope::Flock);
    let _ = table.try_set(flock(1), whole(LockKind::Read), 1);
    let _ = table.try_set(flock(2), whole(LockKind::Read), 2);
    let (outcome, _) = table.set(Unique::new(1), flock(1), whole(LockKind::Write), 1);
    assert_eq!(outcome, LockOutcome::Waiting);
    let (outcome, woken) = table.set(Unique::new(2), flock(2), whole(LockKind::Write), 2);
    // The first gave up its share, so the second has no one in its way; the first waits for it.
    assert_eq!((outcome, woken), (LockOutcome::Granted(2), vec![]));
    assert_eq!(table.release(flock(2)), vec![1]);
}

#[test]
fn flocks_and_records_do_not_see_each_other() {
    let mut table = LockTable::default();
    let _ = table.try_set(record(1), lock(LockKind::Write, 0, 9), ());
    let flock = subject(2, LockScope::Flock);
    assert_eq!(table.try_set(flock, lock(LockKind::Write, 0, 9), ()).0, LockOutcome::Granted(()));
}

proptest! {
    /// Against a model that keeps one cell per byte and owner.
    #[test]
    fn agrees_with_a_byte_map(steps in proptest::collection::vec((0_u64..3, 0_u64..16, 0_u64..16, 0_u8..3), 1..60)) {
        let mut table = LockTable::default();
        let mut model = [[LockKind::Unlock; 16]; 3];
        for (owner, a, b, kind) in steps {
            let (start, end) = (a.min(b), a.max(b));
            let kind = [LockKind::Read, LockKind::Write, LockKind::Unlock][usize::from(kind)];
            let bytes = usize::try_from(start).unwrap()..=usize::try_from(end).unwrap();
            let me = usize::try_from(owner).unwrap();
            let free = (0..3).filter(|other| *other != me).all(|other| {
                bytes.clone().all(|byte| !excludes(model[other][byte], kind))
            });
            let (outcome, _) = table.try_set(record(owner), lock(kind, start, end), ());
            let granted = outcome == LockOutcome::Granted(());
            prop_assert_eq!(granted, free);
            if free {
                for byte in bytes {
                    model[me][byte] = kind;
                }
            }
        }
    }
}
