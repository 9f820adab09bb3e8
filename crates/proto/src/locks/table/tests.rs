//! The table alone.

use super::*;
use wayfs_types::RecordId;

fn file() -> FileId {
    FileId::made_by(RecordId::try_from(77).unwrap())
}

fn holder(origin: u32, owner: u64) -> Holder {
    Holder { origin: OriginId::new(origin).unwrap(), owner: LockOwner(owner) }
}

fn posix(start: u64, end: u64, kind: LockKind, wait: bool) -> LockRequest {
    let range = LockRange { start, end };
    LockRequest { file: file(), family: LockFamily::Posix, owner: LockOwner(0), pid: 1, range, kind, wait }
}

fn own(id: u64) -> Asker {
    Asker::Own(RequestId(id))
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let mut table = LockTable::default();
    let read = posix(0, 9, LockKind::Read, true);
    assert_eq!(table.lock(own(1), holder(1, 1), read), Verdict::Granted);
    assert_eq!(table.lock(own(2), holder(2, 1), read), Verdict::Granted);
    assert_eq!(table.lock(own(3), holder(3, 1), posix(5, 5, LockKind::Write, true)), Verdict::Waiting);
    assert!(table.unlock(holder(1, 1), file(), LockFamily::Posix, LockRange::WHOLE).is_empty());
    let granted = table.unlock(holder(2, 1), file(), LockFamily::Posix, LockRange::WHOLE);
    assert_eq!(granted.len(), 1);
    assert_eq!(granted[0].0, own(3));
}

#[test]
fn releasing_the_middle_leaves_both_sides() {
    let mut table = LockTable::default();
    assert_eq!(table.lock(own(1), holder(1, 1), posix(0, 99, LockKind::Write, false)), Verdict::Granted);
    table.unlock(holder(1, 1), file(), LockFamily::Posix, LockRange { start: 40, end: 59 });
    assert!(table.test(holder(2, 1), &posix(39, 39, LockKind::Read, false)).is_some());
    assert!(table.test(holder(2, 1), &posix(40, 59, LockKind::Write, false)).is_none());
    assert!(table.test(holder(2, 1), &posix(60, 60, LockKind::Read, false)).is_some());
    assert_eq!(table.lock(own(1), holder(1, 1), posix(40, 59, LockKind::Write, false)), Verdict::Granted);
    assert_eq!(table.held_by(OriginId::new(1).unwrap()).len(), 1);
}

#[test]
fn two_who_wait_for_each_other_are_told_so() {
    let mut table = LockTable::default();
    assert_eq!(table.lock(own(1), holder(1, 1), posix(0, 0, LockKind::Write, true)), Verdict::Granted);
    assert_eq!(table.lock(own(2), holder(2, 1), posix(1, 1, LockKind::Write, true)), Verdict::Granted);
    assert_eq!(table.lock(own(3), holder(1, 1), posix(1, 1, LockKind::Write, true)), Verdict::Waiting);
    assert_eq!(table.lock(own(4), holder(2, 1), posix(0, 0, LockKind::Write, true)), Verdict::Deadlock);
}

#[test]
fn of_several_obstacles_the_first_in_the_file_is_named() {
    let mut table = LockTable::default();
    assert_eq!(table.lock(own(1), holder(1, 1), posix(10, 14, LockKind::Write, false)), Verdict::Granted);
    assert_eq!(table.lock(own(2), holder(1, 1), posix(1, 5, LockKind::Read, false)), Verdict::Granted);
    let held = table.test(holder(2, 1), &posix(0, 99, LockKind::Write, false)).unwrap();
    assert_eq!((held.range, held.kind), (LockRange { start: 1, end: 5 }, LockKind::Read));
}

#[test]
fn what_a_child_held_in_a_former_session_is_in_the_way_of_others_only() {
    let mut table = LockTable::default();
    assert_eq!(table.lock(own(1), holder(1, 1), posix(0, 9, LockKind::Write, false)), Verdict::Granted);
    table.mark_stale(OriginId::new(1).unwrap());
    assert_eq!(table.lock(own(2), holder(2, 1), posix(0, 9, LockKind::Write, false)), Verdict::Refused);
    assert_eq!(table.lock(own(3), holder(1, 2), posix(0, 9, LockKind::Write, false)), Verdict::Granted);
    table.release_stale(OriginId::new(1).unwrap(), Which::All);
    assert_eq!(table.held_by(OriginId::new(1).unwrap()).len(), 1);
}

#[test]
fn what_a_station_forgot_is_in_the_way_of_its_own_too_until_it_is_claimed_or_over() {
    let mut table = LockTable::default();
    let station = OriginId::new(1).unwrap();
    assert_eq!(table.lock(own(1), holder(1, 1), posix(0, 9, LockKind::Write, false)), Verdict::Granted);
    table.mark_stale(station);
    table.mark_forgotten(station);
    assert_eq!(table.lock(own(2), holder(1, 2), posix(0, 9, LockKind::Write, true)), Verdict::Waiting);
    // A session more of the same life.
    table.mark_stale(station);
    assert_eq!(table.lock(own(3), holder(1, 3), posix(0, 9, LockKind::Write, false)), Verdict::Refused);
    assert_eq!(table.keep(own(4), holder(1, 1), posix(0, 9, LockKind::Write, false)), Verdict::Granted);
    assert_eq!(table.release_stale(station, Which::All).len(), 0, "it was claimed");
    assert_eq!(table.held_by(station).len(), 1);
}

#[test]
fn a_lost_replica_gives_everything_back() {
    let mut table = LockTable::default();
    assert_eq!(table.lock(own(1), holder(1, 1), posix(0, 0, LockKind::Write, true)), Verdict::Granted);
    assert_eq!(table.lock(own(2), holder(2, 1), posix(0, 0, LockKind::Write, true)), Verdict::Waiting);
    table.mark_stale(OriginId::new(1).unwrap());
    let granted = table.release_stale(OriginId::new(1).unwrap(), Which::All);
    assert_eq!(granted.len(), 1);
    assert_eq!(table.release_all(OriginId::new(2).unwrap(), Which::All).len(), 0);
    assert!(table.is_empty());
}
