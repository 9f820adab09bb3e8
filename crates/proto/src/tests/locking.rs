//! Locks over a station.

use super::forking::{stay_connected, was_renewed};
use super::world::{HOME, World, small};
use crate::{PeerId, Role};
use std::time::Duration;
use wayfs_types::request::{Answer, LockFamily, LockKind, LockOwner, LockRange, LockRequest, Request};
use wayfs_types::{Content, FileId, FsError};

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

/// Two clients, of which the first, by this session, has a lock on this file.
fn one_has_a_lock() -> (World, [usize; 2], PeerId, FileId) {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let peer = world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    (world, [a, b], peer, file)
}

#[test]
fn a_lost_client_keeps_its_locks_for_a_lease() {
    let (mut world, [a, b], peer, file) = one_has_a_lock();
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
    // It thinks that it has it: it is told at the next use, and once it let go it may ask again.
    assert_eq!(world.hosts[a].replica.lost_locks(file).len(), 1);
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Err(FsError::Io));
    assert_eq!(world.ask(a, unlock(file)), Err(FsError::Io));
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
}

/// What a client locked before it went to another parent is not another's until it must know that it has lost it.
#[test]
fn a_client_that_left_keeps_its_locks_for_a_lease() {
    let (mut world, [a, b], peer, file) = one_has_a_lock();
    world.leave(peer);
    world.pass(Duration::from_secs(4));
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
    let peer = world.connect(a, HOME);
    world.settle();
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
    world.leave(peer);
    world.pass(Duration::from_secs(11));
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
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

/// A signal ends the first question while its grant is on the way, and the kernel asks again.
#[test]
fn a_late_grant_takes_nothing_from_the_question_that_was_put_again() {
    let mut world = World::new();
    world.configure(HOME, |config| config.lock_delegations_max = 0);
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let peer = world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    for wait in [false, true] {
        world.stall(peer, true);
        let first = world.request(a, Request::Lock(exclusive(file, wait)));
        world.step_up(peer, 1);
        world.input(a, crate::Input::Cancel { id: first });
        assert_eq!(world.answer(a, first), None, "it is not known yet whether the lock is ours");
        world.pass(Duration::from_secs(2));
        assert_eq!(
            world.answer(a, first),
            Some(Err(FsError::Interrupted)),
            "a parent that is silent is not waited for"
        );
        let second = world.request(a, Request::Lock(exclusive(file, wait)));
        world.stall(peer, false);
        world.settle();
        assert_eq!(world.answer(a, second), Some(Ok(Answer::Done)));
        assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
        assert_eq!(world.ask(a, unlock(file)), Ok(Answer::Done));
        world.settle();
        assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
        assert_eq!(world.ask(b, unlock(file)), Ok(Answer::Done));
        world.settle();
    }
}

#[test]
fn a_grant_that_was_given_before_the_question_was_taken_back_is_told() {
    let mut world = World::new();
    world.configure(HOME, |config| config.lock_delegations_max = 0);
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let peer = world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    world.stall(peer, true);
    let question = world.request(a, Request::Lock(exclusive(file, true)));
    world.step_up(peer, 1);
    world.input(a, crate::Input::Cancel { id: question });
    world.input(a, crate::Input::Cancel { id: question });
    world.stall(peer, false);
    world.settle();
    assert_eq!(world.answer(a, question), Some(Ok(Answer::Done)));
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
}

/// A grant waits until its receiver has seen what was done before. A question that is taken back meanwhile is not refused: the
/// grant that came later would be nobody's, and the lock would be held for ever.
#[test]
fn a_question_that_is_taken_back_while_its_grant_waits_is_answered_by_the_grant() {
    let (mut world, [a, b], [_, line], file) = two_at_one_file(0);
    let wait = world.request(b, Request::Lock(exclusive(file, true)));
    world.settle();
    world.configure(HOME, |config| config.images_per_message = 1);
    world.stall(line, true);
    // More than may be on its way.
    for number in 0..40 {
        world.create(a, FileId::ROOT, &format!("f{number}"));
    }
    world.store(a, file, small("new"));
    assert_eq!(world.ask(a, unlock(file)), Ok(Answer::Done));
    world.settle();
    world.input(b, crate::Input::Cancel { id: wait });
    world.step_up(line, 1);
    world.stall(line, false);
    world.settle();
    assert_eq!(world.answer(b, wait), Some(Ok(Answer::Done)));
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Err(FsError::Locked));
    assert_eq!(world.ask(b, unlock(file)), Ok(Answer::Done));
    world.settle();
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
}

/// A program that reads under a lock wants to write, gets a signal, and reads on.
#[test]
fn what_was_held_before_an_interrupted_upgrade_is_held_after_it() {
    let mut world = World::new();
    world.configure(HOME, |config| config.lock_delegations_max = 0);
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let peer = world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    world.settle();
    let reads = LockRequest { kind: LockKind::Read, range: LockRange { start: 10, end: 19 }, ..exclusive(file, false) };
    assert_eq!(world.ask(a, Request::Lock(reads)), Ok(Answer::Done));
    world.stall(peer, true);
    let upgrade = world.request(a, Request::Lock(exclusive(file, true)));
    world.step_up(peer, 1);
    world.input(a, crate::Input::Cancel { id: upgrade });
    world.pass(Duration::from_secs(2));
    assert_eq!(world.answer(a, upgrade), Some(Err(FsError::Interrupted)));
    world.stall(peer, false);
    world.settle();
    let at = |start, end, kind| LockRequest { kind, range: LockRange { start, end }, ..exclusive(file, false) };
    assert_eq!(world.ask(b, Request::Lock(at(10, 19, LockKind::Write))), Err(FsError::Locked));
    assert_eq!(world.ask(b, Request::Lock(at(10, 19, LockKind::Read))), Ok(Answer::Done));
    assert_eq!(world.ask(b, Request::Lock(at(0, 9, LockKind::Write))), Ok(Answer::Done));
    assert_eq!(world.ask(b, Request::Lock(at(20, u64::MAX, LockKind::Write))), Ok(Answer::Done));
}

#[test]
fn who_would_wait_for_a_waiter_of_its_own_is_told_of_the_deadlock() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(a, HOME);
    world.connect(b, HOME);
    world.settle();
    let (one, two) = (world.create(a, FileId::ROOT, "one"), world.create(a, FileId::ROOT, "two"));
    world.settle();
    assert_eq!(world.ask(a, Request::Lock(exclusive(one, true))), Ok(Answer::Done));
    assert_eq!(world.ask(b, Request::Lock(exclusive(two, true))), Ok(Answer::Done));
    let waits = world.request(a, Request::Lock(exclusive(two, true)));
    world.settle();
    assert_eq!(world.ask(b, Request::Lock(exclusive(one, true))), Err(FsError::Deadlock));
    assert_eq!(world.ask(b, unlock(two)), Ok(Answer::Done));
    world.settle();
    assert_eq!(world.answer(a, waits), Some(Ok(Answer::Done)));
}

/// Two clients that both have the file open and cached, and the first has the lock.
fn two_at_one_file(delegations: usize) -> (World, [usize; 2], [crate::PeerId; 2], FileId) {
    let mut world = World::new();
    world.configure(HOME, |config| config.lock_delegations_max = delegations);
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let peers = [world.connect(a, HOME), world.connect(b, HOME)];
    world.settle();
    let file = world.create(a, FileId::ROOT, "x");
    world.store(a, file, small("old"));
    world.settle();
    assert_eq!(world.lookup(b, FileId::ROOT, "x").unwrap().1.content, small("old"));
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    (world, [a, b], peers, file)
}

/// What a client sees of the file at the very moment when it is granted the lock.
pub(super) fn content_at_grant(
    world: &mut World,
    client: usize,
    file: FileId,
    wait: wayfs_types::request::RequestId,
) -> Content {
    while !world.hosts[client].answers.contains_key(&wait) {
        assert!(world.step(), "the lock is never granted");
    }
    assert_eq!(world.answer(client, wait), Some(Ok(Answer::Done)));
    world.hosts[client].replica.inode(file).unwrap().unwrap().content.clone()
}

/// Proves [S-lock-order].
#[test]
fn who_is_granted_a_lock_sees_what_was_done_under_it_before() {
    for delegations in [0, 9] {
        let (mut world, [a, b], _, file) = two_at_one_file(delegations);
        let wait = world.request(b, Request::Lock(exclusive(file, true)));
        world.settle();
        // Its disk is slow, so nothing is sent for the time being but what somebody waits for.
        world.hosts[a].hold_syncs = true;
        world.store(a, file, small("new"));
        assert_eq!(world.ask(a, unlock(file)), Ok(Answer::Done));
        assert_eq!(content_at_grant(&mut world, b, file, wait), small("new"));
    }
}

/// Proves [S-lock-order].
#[test]
fn a_lock_that_is_let_go_while_the_parent_is_away_waits_for_what_was_done_under_it() {
    for delegations in [0, 9] {
        let (mut world, [a, b], [peer, _], file) = two_at_one_file(delegations);
        let wait = world.request(b, Request::Lock(exclusive(file, true)));
        world.settle();
        world.hosts[a].hold_syncs = true;
        world.close(peer);
        world.store(a, file, small("new"));
        assert_eq!(world.ask(a, unlock(file)), Ok(Answer::Done));
        world.settle();
        assert_eq!(world.answer(b, wait), None, "a lost client keeps its locks for a lease");
        world.connect(a, HOME);
        assert_eq!(content_at_grant(&mut world, b, file, wait), small("new"));
    }
}

/// Proves [S-lock-order].
#[test]
fn who_shares_a_lock_that_it_held_alone_shows_what_it_did() {
    for delegations in [0, 9] {
        let (mut world, [a, b], _, file) = two_at_one_file(delegations);
        let reads = LockRequest { kind: LockKind::Read, ..exclusive(file, true) };
        let wait = world.request(b, Request::Lock(reads));
        world.settle();
        world.hosts[a].hold_syncs = true;
        world.store(a, file, small("new"));
        let share = world.request(a, Request::Lock(reads));
        assert_eq!(content_at_grant(&mut world, b, file, wait), small("new"));
        world.settle();
        assert_eq!(world.answer(a, share), Some(Ok(Answer::Done)));
    }
}

/// Another copy of its store was opened, and a machine goes on under another origin: nobody keeps for that what the former one had.
#[test]
fn who_goes_on_under_another_origin_has_lost_its_locks() {
    let mut world = World::new();
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    let store = world.snapshot(a);
    world.restore(a, store, 5);
    let peer = stay_connected(&mut world, a, HOME);
    world.connect(b, HOME);
    let file = world.create(a, FileId::ROOT, "x");
    world.pass(Duration::from_secs(2));
    let copy = world.snapshot(a);
    assert_eq!(world.ask(a, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    world.close(peer);
    let copied = world.clone_of(a, copy, 6);
    stay_connected(&mut world, copied, HOME);
    world.create(copied, FileId::ROOT, "y");
    world.pass(Duration::from_secs(1));
    let line = world.line_of(copied);
    world.close(line);
    stay_connected(&mut world, a, HOME);
    assert!(was_renewed(&world, a).is_some());
    world.pass(Duration::from_secs(21));
    assert_eq!(world.ask(b, Request::Lock(exclusive(file, false))), Ok(Answer::Done));
    assert_eq!(world.ask(a, unlock(file)), Err(FsError::Io));
}
