//! Locks that stay with the client whose programs alone use them (decision 0057).

use super::locking::content_at_grant;
use super::world::{HOME, World, small};
use crate::{Input, PeerId, Role};
use std::time::Duration;
use wayfs_types::request::{
    Answer, LockFamily, LockKind, LockOwner, LockRange, LockRequest, Outcome, Request, RequestId,
};
use wayfs_types::{Content, FileId, FsError};
use wayfs_wire::{Down, LockVerdict, Message, Up, decode, encode};

const WHOLE: LockRange = LockRange::WHOLE;

/// Two clients of one server, and a file that both know.
struct Pair {
    world: World,
    ann: usize,
    bob: usize,
    /// Ann's session.
    line: PeerId,
    /// Bob's.
    bobs: PeerId,
    file: FileId,
}

impl Pair {
    fn new() -> Self {
        let mut world = World::new();
        let (ann, bob) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
        let line = world.connect(ann, HOME);
        let bobs = world.connect(bob, HOME);
        world.settle();
        let file = world.create(ann, FileId::ROOT, "x");
        world.store(ann, file, small("old"));
        world.settle();
        assert_eq!(world.lookup(bob, FileId::ROOT, "x").unwrap().1.content, small("old"));
        Self { world, ann, bob, line, bobs, file }
    }

    fn lock(&mut self, who: usize, request: LockRequest) -> Outcome {
        self.world.ask(who, Request::Lock(request))
    }

    fn unlock(&mut self, who: usize, owner: u64, range: LockRange) -> Outcome {
        let (file, family, owner) = (self.file, LockFamily::Posix, LockOwner(owner));
        self.world.ask(who, Request::Unlock { file, family, owner, range })
    }

    fn wait_for(&mut self, who: usize, request: LockRequest) -> RequestId {
        self.world.request_within(who, Request::Lock(LockRequest { wait: true, ..request }), Duration::from_secs(600))
    }

    /// A write lock on a part of the file.
    fn write(&self, owner: u64, start: u64, end: u64) -> LockRequest {
        let (family, range, kind) = (LockFamily::Posix, LockRange { start, end }, LockKind::Write);
        LockRequest { file: self.file, family, owner: LockOwner(owner), pid: owner as u32, range, kind, wait: false }
    }

    fn whole(&self, owner: u64) -> LockRequest {
        self.write(owner, 0, u64::MAX)
    }

    fn delegated(&self, who: usize) -> usize {
        self.world.hosts[who].replica.locks_delegated()
    }

    /// Whether a client's programs hear that they lost a lock on the file.
    fn lost(&self, who: usize) -> bool {
        !self.world.hosts[who].replica.lost_locks(self.file).is_empty()
    }

    /// What a client sees of the file at the very moment when it is granted the lock.
    fn seen_at_grant(&mut self, who: usize, wait: RequestId) -> Content {
        content_at_grant(&mut self.world, who, self.file, wait)
    }

    /// How many messages ann and her server say while she does something.
    fn messages(&mut self, of: impl FnOnce(&mut Self)) -> u64 {
        self.world.settle();
        let before = self.world.messages;
        of(self);
        self.world.settle();
        self.world.messages - before
    }
}

#[test]
fn who_alone_locks_a_file_asks_once() {
    let mut pair = Pair::new();
    let first = pair.messages(|pair| assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done)));
    assert_eq!(first, 2, "a question, and its answer");
    let more = pair.messages(|pair| {
        for owner in 9..20 {
            assert_eq!(pair.unlock(pair.ann, owner, WHOLE), Ok(Answer::Done));
            assert_eq!(pair.lock(pair.ann, pair.whole(owner + 1)), Ok(Answer::Done));
            assert_eq!(pair.lock(pair.ann, pair.write(7, 0, 5)), Err(FsError::Locked), "another program has it");
            let tested = pair.world.ask(pair.ann, Request::TestLock(pair.write(7, 0, 5)));
            let Ok(Answer::Lock(Some(held))) = tested else { panic!("unexpected {tested:?}") };
            assert_eq!(held.owner, LockOwner(owner + 1));
        }
    });
    assert_eq!(more, 0);
}

#[test]
fn without_delegations_each_lock_is_asked_for() {
    let mut pair = Pair::new();
    pair.world.configure(HOME, |config| config.lock_delegations_max = 0);
    for _ in 0..3 {
        assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
        assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
        pair.world.settle();
    }
    assert_eq!(pair.delegated(pair.ann), 0);
}

/// Who does not wait hears the truth, although nobody but the first client knows it when it is asked for.
#[test]
fn another_hears_what_the_first_has_and_gets_what_is_free() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.write(9, 0, 9)), Ok(Answer::Done));
    assert_eq!(pair.lock(pair.ann, pair.write(8, 20, 29)), Ok(Answer::Done));
    assert_eq!(pair.unlock(pair.ann, 8, LockRange { start: 20, end: 24 }), Ok(Answer::Done));
    assert_eq!(pair.lock(pair.bob, pair.write(1, 5, 5)), Err(FsError::Locked));
    assert_eq!(pair.delegated(pair.ann), 0, "it was asked back");
    assert_eq!(pair.lock(pair.bob, pair.write(1, 10, 24)), Ok(Answer::Done));
    assert_eq!(pair.lock(pair.ann, pair.write(9, 10, 10)), Err(FsError::Locked));
    assert_eq!(pair.lock(pair.bob, pair.write(1, 25, 25)), Err(FsError::Locked));
    // Ann lets go: her release is told now.
    assert_eq!(pair.unlock(pair.ann, 8, WHOLE), Ok(Answer::Done));
    pair.world.settle();
    assert_eq!(pair.lock(pair.bob, pair.write(1, 25, 25)), Ok(Answer::Done));
}

#[test]
fn who_tests_for_a_lock_hears_whose_it_is() {
    for (held, tests) in [(0, 5), (50, 55)] {
        let mut pair = Pair::new();
        assert_eq!(pair.lock(pair.ann, pair.write(9, 0, 9)), Ok(Answer::Done));
        let tested = pair.world.ask(pair.bob, Request::TestLock(pair.write(1, tests, tests)));
        let is_there = matches!(tested, Ok(Answer::Lock(Some(of))) if of.pid == 9 && of.range.end == 9);
        assert!(is_there || held > 9 && tested == Ok(Answer::Lock(None)), "{tested:?}");
        assert_eq!(pair.lock(pair.ann, pair.write(8, tests, tests)).is_ok(), held > 9, "nothing was taken for a test");
    }
}

/// Proves [S-lock-order].
#[test]
fn what_was_done_under_a_lock_goes_ahead_of_the_file_that_is_returned() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    // Its disk is slow, so nothing is sent for the time being but what somebody waits for.
    pair.world.hosts[pair.ann].hold_syncs = true;
    pair.world.store(pair.ann, pair.file, small("new"));
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    let wait = pair.wait_for(pair.bob, pair.whole(1));
    assert_eq!(pair.seen_at_grant(pair.bob, wait), small("new"));
}

/// Proves [S-lock-order]: the release is nowhere but at the client, and its session ends.
#[test]
fn what_was_let_go_before_a_session_ended_waits_for_what_was_done_under_it() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    pair.world.hosts[pair.ann].hold_syncs = true;
    pair.world.store(pair.ann, pair.file, small("new"));
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    pair.world.close(pair.line);
    let wait = pair.wait_for(pair.bob, pair.whole(1));
    pair.world.settle();
    assert_eq!(pair.world.answer(pair.bob, wait), None, "what a lost client may have is kept for a lease");
    pair.world.connect(pair.ann, HOME);
    assert_eq!(pair.seen_at_grant(pair.bob, wait), small("new"));
}

#[test]
fn a_client_that_comes_back_has_what_it_held_and_no_more() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.write(9, 0, 9)), Ok(Answer::Done));
    assert_eq!(pair.lock(pair.ann, pair.write(8, 20, 29)), Ok(Answer::Done));
    pair.world.close(pair.line);
    assert_eq!(pair.lock(pair.bob, pair.write(1, 50, 50)), Err(FsError::Locked), "nobody knows");
    assert_eq!(pair.unlock(pair.ann, 8, WHOLE), Ok(Answer::Done));
    pair.world.connect(pair.ann, HOME);
    pair.world.settle();
    assert_eq!(pair.lock(pair.bob, pair.write(1, 5, 5)), Err(FsError::Locked));
    assert_eq!(pair.lock(pair.bob, pair.write(1, 20, 50)), Ok(Answer::Done));
}

#[test]
fn who_does_not_wait_is_told_when_the_session_of_who_decides_ends() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    pair.world.stall(pair.line, true);
    let asks = pair.world.request(pair.bob, Request::Lock(pair.write(1, 0, 5)));
    let tests = pair.world.request(pair.bob, Request::TestLock(pair.write(1, 0, 5)));
    pair.world.settle();
    assert_eq!(pair.world.answer(pair.bob, asks), None);
    pair.world.close(pair.line);
    pair.world.settle();
    assert_eq!(pair.world.answer(pair.bob, asks), Some(Err(FsError::Locked)));
    assert!(matches!(pair.world.answer(pair.bob, tests), Some(Ok(Answer::Lock(Some(_))))));
}

/// A client that is there and says nothing, or lies, is waited for half a lease by those who do not wait for locks.
#[test]
fn who_does_not_return_a_file_counts_as_having_it() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    pair.world.stall(pair.line, true);
    let long = Duration::from_secs(600);
    let at_once = pair.world.request_within(pair.bob, Request::Lock(pair.whole(1)), long);
    let test = pair.world.request_within(pair.bob, Request::TestLock(pair.whole(1)), long);
    let wait = pair.wait_for(pair.bob, pair.whole(2));
    let lease = pair.world.hosts[HOME].replica.core.config.lease;
    pair.world.pass(lease / 4);
    assert_eq!(pair.world.answer(pair.bob, at_once), None, "it may be on its way");
    pair.world.pass(lease / 4 + Duration::from_secs(1));
    assert_eq!(pair.world.answer(pair.bob, at_once), Some(Err(FsError::Locked)));
    let tested = pair.world.answer(pair.bob, test);
    assert!(matches!(tested, Some(Ok(Answer::Lock(Some(_))))), "unexpected {tested:?}");
    assert_eq!(pair.lock(pair.bob, pair.whole(1)), Err(FsError::Locked), "and whoever comes then is told at once");
    pair.world.stall(pair.line, false);
    pair.world.settle();
    assert_eq!(pair.world.answer(pair.bob, wait), Some(Ok(Answer::Done)), "what comes late counts");
}

#[test]
fn what_a_client_that_left_decided_about_is_given_when_it_was_asked() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    pair.world.leave(pair.line);
    pair.world.pass(Duration::from_secs(11));
    let wait = pair.wait_for(pair.bob, pair.whole(1));
    pair.world.pass(Duration::from_secs(6));
    assert_eq!(pair.world.answer(pair.bob, wait), Some(Ok(Answer::Done)));
    pair.world.connect(pair.ann, HOME);
    pair.world.settle();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Err(FsError::Io), "it hears that it was lost");
}

#[test]
fn a_program_that_waits_for_another_of_its_machine_waits_at_the_parent() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    let wait = pair.wait_for(pair.ann, pair.whole(8));
    pair.world.settle();
    assert_eq!((pair.world.answer(pair.ann, wait), pair.delegated(pair.ann)), (None, 0));
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    pair.world.settle();
    assert_eq!(pair.world.answer(pair.ann, wait), Some(Ok(Answer::Done)));
    assert_eq!(pair.lock(pair.bob, pair.whole(1)), Err(FsError::Locked));
}

/// Ann's program has the first file and waits for the second, which bob has; he asks for the first, about which ann alone decides.
#[test]
fn a_deadlock_is_seen_once_what_was_delegated_is_known() {
    for is_first in [true, false] {
        let mut pair = Pair::new();
        let second = pair.world.create(pair.ann, FileId::ROOT, "y");
        pair.world.settle();
        let at_second = |owner| LockRequest { file: second, ..pair.whole(owner) };
        let (anns, bobs) = (at_second(9), at_second(1));
        assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
        assert_eq!(pair.lock(pair.bob, bobs), Ok(Answer::Done));
        let (mut waits, mut others) = ((pair.ann, anns), (pair.bob, pair.whole(1)));
        if !is_first {
            std::mem::swap(&mut waits, &mut others);
        }
        let first = pair.wait_for(waits.0, waits.1);
        pair.world.settle();
        assert_eq!(pair.world.answer(waits.0, first), None);
        let last = pair.wait_for(others.0, others.1);
        pair.world.settle();
        assert_eq!(pair.world.answer(others.0, last), Some(Err(FsError::Deadlock)));
        assert_eq!(pair.world.answer(waits.0, first), None, "who waited before waits on");
    }
}

#[test]
fn what_nobody_uses_is_returned() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    pair.world.pass(Duration::from_secs(30));
    assert_eq!(pair.delegated(pair.ann), 1, "a program has a lock");
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    pair.world.pass(Duration::from_secs(11));
    assert_eq!(pair.delegated(pair.ann), 0);
    let asked = pair.messages(|pair| assert_eq!(pair.lock(pair.bob, pair.whole(1)), Ok(Answer::Done)));
    assert_eq!(asked, 2, "nobody else is asked");
}

#[test]
fn who_has_many_locks_in_a_file_has_the_parent_decide() {
    let mut pair = Pair::new();
    for number in 0..300 {
        assert_eq!(pair.lock(pair.ann, pair.write(9, 4 * number, 4 * number + 1)), Ok(Answer::Done));
    }
    pair.world.settle();
    assert_eq!(pair.delegated(pair.ann), 0);
    assert_eq!(pair.lock(pair.bob, pair.write(1, 4, 4)), Err(FsError::Locked));
    assert_eq!(pair.lock(pair.bob, pair.write(1, 1196, 1196)), Err(FsError::Locked));
    assert_eq!(pair.lock(pair.bob, pair.write(1, 6, 7)), Ok(Answer::Done));
}

#[test]
fn one_client_decides_about_so_many_files() {
    let mut pair = Pair::new();
    pair.world.configure(HOME, |config| config.lock_delegations_max = 2);
    for name in ["a", "b", "c"] {
        let file = pair.world.create(pair.ann, FileId::ROOT, name);
        assert_eq!(pair.lock(pair.ann, LockRequest { file, ..pair.whole(9) }), Ok(Answer::Done));
    }
    assert_eq!(pair.delegated(pair.ann), 2);
    // Bob's are counted apart.
    assert_eq!(pair.lock(pair.bob, pair.whole(1)), Ok(Answer::Done));
    assert_eq!(pair.delegated(pair.bob), 1);
}

/// A file is returned of its own accord while the parent asks for it, and delegated anew before the question comes: that is
/// of the former time.
#[test]
fn a_recall_that_crossed_a_return_ends_nothing() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    pair.world.settle();
    pair.world.pass(Duration::from_secs(11));
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    let (file, family) = (pair.file, LockFamily::Posix);
    let bytes = encode(&Message::Down(Down::RecallLocks { file, family, serial: wayfs_wire::DelegationId(1) }));
    pair.world.input(pair.ann, Input::Message { peer: pair.line, bytes });
    pair.world.settle();
    assert_eq!(pair.delegated(pair.ann), 1);
    let bytes =
        encode(&Message::Up(Up::ReturnLocks { file, family, serial: wayfs_wire::DelegationId(1), held: Vec::new() }));
    pair.world.input(HOME, Input::Message { peer: pair.line, bytes });
    pair.world.settle();
    assert_eq!(pair.lock(pair.bob, pair.whole(1)), Err(FsError::Locked), "ann has her lock still");
}

/// A parent that delegates what nobody asked it to, or recalls what it did not delegate, hangs nobody and takes nothing.
#[test]
fn a_parent_that_says_what_it_likes_takes_no_lock() {
    let mut pair = Pair::new();
    pair.world.configure(HOME, |config| config.lock_delegations_max = 0);
    assert_eq!(pair.lock(pair.ann, pair.whole(9)), Ok(Answer::Done));
    let (file, family) = (pair.file, LockFamily::Posix);
    for said in [
        Down::RecallLocks { file, family, serial: wayfs_wire::DelegationId(7) },
        Down::LockAnswer {
            ask: wayfs_wire::AskId(99),
            verdict: LockVerdict::Delegated { serial: wayfs_wire::DelegationId(3) },
        },
    ] {
        let bytes = encode(&Message::Down(said));
        pair.world.input(pair.ann, Input::Message { peer: pair.line, bytes });
    }
    pair.world.settle();
    assert_eq!(pair.lock(pair.bob, pair.whole(1)), Err(FsError::Locked));
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    pair.world.settle();
    assert_eq!(pair.lock(pair.bob, pair.whole(1)), Ok(Answer::Done));
}

#[test]
fn locks_of_other_files_are_not_returned_with_one() {
    let (file, family) = (FileId::ROOT, LockFamily::Posix);
    let held = vec![LockRequest { family: LockFamily::Flock, ..Pair::new().whole(3) }];
    let bytes = encode(&Message::Up(Up::ReturnLocks { file, family, serial: wayfs_wire::DelegationId(1), held }));
    assert!(decode(&bytes).is_err());
}

/// A signal comes while the answer is on its way that says that the client may decide.
#[test]
fn who_took_its_question_back_is_told_what_became_of_it() {
    for wait in [false, true] {
        let mut pair = Pair::new();
        pair.world.stall(pair.line, true);
        let question = pair.world.request(pair.ann, Request::Lock(LockRequest { wait, ..pair.whole(9) }));
        pair.world.step_up(pair.line, 1);
        pair.world.input(pair.ann, Input::Cancel { id: question });
        pair.world.stall(pair.line, false);
        pair.world.settle();
        assert_eq!(pair.world.answer(pair.ann, question), Some(Ok(Answer::Done)));
        assert_eq!(pair.lock(pair.bob, pair.whole(1)), Err(FsError::Locked));
        assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
        pair.world.settle();
        assert_eq!(pair.lock(pair.bob, pair.whole(1)), Ok(Answer::Done));
    }
}

/// What a client says does not arrive: its server takes it for gone and gives the file to another. The client hears its server still.
#[test]
fn who_had_no_answer_for_a_lease_does_not_decide() {
    let mut pair = Pair::new();
    assert_eq!(pair.lock(pair.ann, pair.write(9, 0, 9)), Ok(Answer::Done));
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    pair.world.stall(pair.line, true);
    for _ in 0..2 {
        pair.world.now = pair.world.now + Duration::from_secs(4);
        let bytes = encode(&Message::Down(Down::Marks { marks: Vec::new() }));
        pair.world.input(pair.ann, Input::Message { peer: pair.line, bytes });
        let tests = pair.world.request(pair.ann, Request::TestLock(pair.whole(9)));
        assert_eq!(pair.world.answer(pair.ann, tests), Some(Ok(Answer::Lock(None))));
    }
    pair.world.now = pair.world.now + Duration::from_secs(4);
    let tests = pair.world.request(pair.ann, Request::TestLock(pair.whole(9)));
    let asks = pair.world.request(pair.ann, Request::Lock(pair.whole(9)));
    assert_eq!((pair.world.answer(pair.ann, asks), pair.world.answer(pair.ann, tests)), (None, None), "it asks");
}

/// Two questions were under way; the answer to the first made the file the client's to decide about, and it was returned before that to
/// the second came.
#[test]
fn an_answer_from_before_a_return_delegates_nothing() {
    let mut pair = Pair::new();
    pair.world.stall(pair.line, true);
    let first = pair.world.request(pair.ann, Request::Lock(pair.write(9, 0, 9)));
    let second = pair.world.request(pair.ann, Request::Lock(pair.write(8, 20, 29)));
    pair.world.step_up(pair.line, 2);
    // The first answer alone, to whichever question that was.
    let answered = (0..50).map(wayfs_wire::AskId).any(|ask| {
        let said = Down::LockAnswer { ask, verdict: LockVerdict::Delegated { serial: wayfs_wire::DelegationId(1) } };
        pair.world.input(pair.ann, Input::Message { peer: pair.line, bytes: encode(&Message::Down(said)) });
        pair.world.answer(pair.ann, first) == Some(Ok(Answer::Done))
    });
    assert!(answered && pair.world.answer(pair.ann, second).is_none());
    let waits = pair.wait_for(pair.ann, pair.write(7, 5, 5));
    assert_eq!(pair.delegated(pair.ann), 0);
    pair.world.stall(pair.line, false);
    pair.world.settle();
    assert_eq!((pair.delegated(pair.ann), pair.world.answer(pair.ann, second)), (0, Some(Ok(Answer::Done))));
    assert_eq!(pair.lock(pair.bob, pair.write(1, 25, 25)), Err(FsError::Locked));
    assert_eq!(pair.unlock(pair.ann, 9, WHOLE), Ok(Answer::Done));
    pair.world.settle();
    assert_eq!(pair.world.answer(pair.ann, waits), Some(Ok(Answer::Done)));
}

/// A parent that answers with a delegation what is no question for a lock hangs nobody.
#[test]
fn who_tests_for_a_lock_is_answered_whatever_the_parent_says() {
    let mut pair = Pair::new();
    pair.world.stall(pair.line, true);
    let tests = pair.world.request(pair.ann, Request::TestLock(pair.whole(9)));
    for ask in (0..50).map(wayfs_wire::AskId) {
        let said = Down::LockAnswer { ask, verdict: LockVerdict::Delegated { serial: wayfs_wire::DelegationId(1) } };
        pair.world.input(pair.ann, Input::Message { peer: pair.line, bytes: encode(&Message::Down(said)) });
    }
    assert_eq!(pair.world.answer(pair.ann, tests), Some(Ok(Answer::Lock(None))));
    assert_eq!(pair.delegated(pair.ann), 0);
}

/// Ann's program took its lock offline, and lets go of it while bob is asked to return the file about which he decides meanwhile.
#[test]
fn what_is_let_go_while_it_is_claimed_again_is_free() {
    for range in [WHOLE, LockRange { start: 0, end: 9 }, LockRange { start: 5, end: 9 }] {
        let mut pair = Pair::new();
        assert_eq!(pair.lock(pair.bob, pair.whole(1)), Ok(Answer::Done));
        assert_eq!(pair.unlock(pair.bob, 1, WHOLE), Ok(Answer::Done));
        assert_eq!(pair.delegated(pair.bob), 1);
        pair.world.close(pair.line);
        assert_eq!(pair.lock(pair.ann, pair.write(9, 0, 9)), Ok(Answer::Done), "offline its mirror decides");
        pair.world.stall(pair.bobs, true);
        pair.world.connect(pair.ann, HOME);
        pair.world.settle();
        assert_eq!(pair.unlock(pair.ann, 9, range), Ok(Answer::Done));
        pair.world.settle();
        pair.world.stall(pair.bobs, false);
        pair.world.settle();
        assert_eq!(pair.lock(pair.bob, pair.write(1, 5, 9)), Ok(Answer::Done), "{range:?}");
        let is_all = range.start == 0;
        assert_eq!(pair.lock(pair.bob, pair.write(1, 0, 4)).is_ok(), is_all || pair.lost(pair.ann), "{range:?}");
    }
}
