//! Locks over a station.

use super::world::{HOME, World};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::{Answer, LockFamily, LockKind, LockOwner, LockRange, LockRequest, Request};
use wayfs_types::{FileId, FsError};

fn exclusive(file: FileId, wait: bool) -> LockRequest {
    let (owner, range) = (LockOwner(9), LockRange::WHOLE);
    LockRequest { file, family: LockFamily::Posix, owner, pid: 1, range, kind: LockKind::Write, wait }
}

fn unlock(file: FileId) -> Request {
    Request::Unlock { file, family: LockFamily::Posix, owner: LockOwner(9), range: LockRange::WHOLE }
}

#[test]
fn one_client_excludes_another_until_it_lets_go() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
    match world.ask(b, Request::TestLock(exclusive(file, false))) {
        Ok(Answer::Lock(Some(held))) => assert_eq!(held.kind, LockKind::Write),
        other => panic!("unexpected {other:?}"),
    }
    let wait = world.request(b, Request::Lock(exclusive(file, true)));
    world.settle();
    assert_eq!(world.answer(b, wait), None);
    assert_eq!(world.ask(a, unlock(file)), Ok(Answer::Done));
    world.settle();
    assert_eq!(world.answer(b, wait), Some(Ok(Answer::Done)));
}

#[test]
fn a_lost_client_keeps_its_locks_for_a_lease() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let peer = world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    world.close(peer);
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
    // It returns in time and has its lock still.
    let peer = world.connect(a, HOME);
    world.settle();
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
    world.close(peer);
    world.pass(Duration::from_secs(11));
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    world.connect(a, HOME);
    world.settle();
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
}

#[test]
fn who_gives_up_waiting_is_not_granted_later() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    let wait = world.request(b, Request::Lock(exclusive(file, true)));
    world.settle();
    world.input(b, crate::Input::Cancel { id: wait });
    world.settle();
    assert_eq!(world.answer(b, wait), Some(Err(FsError::Interrupted)));
    assert_eq!(world.ask(a, unlock(file)), Ok(Answer::Done));
    world.settle();
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
}

#[test]
fn offline_the_programs_of_one_client_exclude_each_other() {
    let mut world = World::new();
    let a = world.add(Role::Client, "ann@a");
    let peer = world.connect(a, HOME);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    world.close(peer);
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    let other = LockRequest { owner: LockOwner(10), ..exclusive(file, false) };
    assert_eq!(world.ask(a, Request::Lock(other)), Err(FsError::Locked));
    world.connect(a, HOME);
    world.settle();
    assert_eq!(world.ask(a, Request::Lock(other)), Err(FsError::Locked));
}
