//! Locks that a client took along to another server (decision 0051): outside of exclusive directories, too, no two hold one, and who
//! loses one hears of it.

use super::exclusive::whole;
use super::world::{HOME, World};
use crate::{Held, Input, PeerId, Role};
use std::time::Duration;
use wayfs_types::request::{
    Answer, LockFamily, LockKind, LockOwner, LockRange, LockRequest, Outcome, Request, RequestId,
};
use wayfs_types::{FileId, FsError};
use wayfs_wire::{AskId, Message, Up, encode};

const LEASE: Duration = Duration::from_secs(11);

/// A home with two stations, a client that moves, and one that stays.
struct Move {
    world: World,
    stations: [usize; 2],
    mover: usize,
    other: usize,
    file: FileId,
}

impl Move {
    /// The mover has a lock at a server, where the other client is as well.
    fn from(server: fn([usize; 2]) -> usize) -> Self {
        let mut world = World::new();
        let stations = ["s@s", "t@t"].map(|label| world.add(Role::Station, label));
        let [mover, other] = ["ann@a", "bob@b"].map(|label| world.add(Role::Client, label));
        for station in stations {
            world.connect(station, HOME);
        }
        for client in [mover, other] {
            world.connect(client, server(stations));
        }
        world.settle();
        let file = world.create(mover, FileId::ROOT, "x");
        world.pass(Duration::from_secs(3));
        let mut of = Self { world, stations, mover, other, file };
        of.take(of.mover, file);
        of
    }

    fn at_first_station() -> Self {
        Self::from(|[first, _]| first)
    }

    fn ask(&mut self, client: usize, file: FileId, wait: bool) -> RequestId {
        self.world.request_within(client, Request::Lock(whole(file, wait)), Duration::from_secs(600))
    }

    fn take(&mut self, client: usize, file: FileId) {
        let id = self.ask(client, file, false);
        self.world.settle();
        assert_eq!(self.world.answer(client, id), Some(Ok(Answer::Done)));
    }

    fn release(&mut self, client: usize, file: FileId) -> Outcome {
        let (family, owner, range) = (LockFamily::Flock, LockOwner(9), LockRange::WHOLE);
        self.world.ask(client, Request::Unlock { file, family, owner, range })
    }

    fn leave(&mut self, client: usize) {
        let line = self.world.line_of(client);
        self.world.leave(line);
    }

    fn goes_to(&mut self, server: usize) {
        self.leave(self.mover);
        self.world.connect(self.mover, server);
        self.world.settle();
    }

    fn has_lost(&self) -> bool {
        !self.world.hosts[self.mover].replica.lost_locks(self.file).is_empty()
    }

    /// Lets a request be answered; at no moment both hold.
    fn never_both(&mut self, id: RequestId) {
        for _ in 0..200 {
            while self.world.step() {
                let is_given = self.world.hosts[self.other].answers.get(&id) == Some(&Ok(Answer::Done));
                assert!(!is_given || self.has_lost(), "two hold one lock");
            }
            if self.world.hosts[self.other].answers.contains_key(&id) {
                return;
            }
            self.world.now = self.world.now + Duration::from_millis(100);
            for host in 0..self.world.hosts.len() {
                self.world.input(host, Input::Tick);
            }
        }
        panic!("it is not answered");
    }

    /// The other client is given the lock, and the mover knows then that it has lost it.
    fn is_taken(&mut self) {
        let id = self.ask(self.other, self.file, false);
        self.never_both(id);
        assert_eq!(self.world.answer(self.other, id), Some(Ok(Answer::Done)));
        self.hears_it();
    }

    /// The mover's program is told, once.
    fn hears_it(&mut self) {
        let (mover, file) = (self.mover, self.file);
        assert!(self.has_lost());
        assert_eq!(self.world.ask(mover, Request::Lock(whole(file, false))), Err(FsError::Io));
        assert_eq!(self.release(mover, file), Err(FsError::Io));
        assert!(!self.has_lost());
    }

    fn restart(&mut self, host: usize, life: u32) {
        let store = self.world.snapshot(host);
        self.world.restore(host, store, life);
    }

    /// The other client is given the lock without anybody having heard of the mover.
    fn is_given_untold(&mut self) {
        let id = self.ask(self.other, self.file, false);
        self.world.settle();
        assert_eq!(self.world.answer(self.other, id), Some(Ok(Answer::Done)));
        assert!(!self.has_lost());
    }
}

/// Proves [S-lock-lost]. The fault that was seen: a client moved with a lock, and a lease later the server that it left gave it to another.
#[test]
fn a_lock_that_was_taken_along_is_not_given_to_another_before_its_holder_knows() {
    type Server = fn([usize; 2]) -> usize;
    let ways: [(Server, Server); 3] = [(|[s, _]| s, |[_, t]| t), (|_| HOME, |[_, t]| t), (|[s, _]| s, |_| HOME)];
    for (from, to) in ways {
        let mut of = Move::from(from);
        of.goes_to(to(of.stations));
        let early = of.ask(of.other, of.file, false);
        of.world.settle();
        assert_eq!(of.world.answer(of.other, early), Some(Err(FsError::Locked)), "its lease lasts");
        of.world.pass(LEASE);
        assert!(!of.has_lost(), "nobody wants it");
        of.is_taken();
        // The server to which it went has it no more either.
        of.release(of.other, of.file).unwrap();
        let there = of.world.add(Role::Client, "cem@c");
        of.world.connect(there, to(of.stations));
        of.world.pass(Duration::from_secs(1));
        of.take(there, of.file);
    }
}

#[test]
fn who_waited_before_its_holder_moved_is_given_it_when_the_holder_knows() {
    let mut of = Move::at_first_station();
    let id = of.ask(of.other, of.file, true);
    of.world.settle();
    of.goes_to(of.stations[1]);
    of.never_both(id);
    of.hears_it();
}

#[test]
fn a_lock_that_nobody_wants_stays_with_who_took_it_along() {
    let mut of = Move::at_first_station();
    let second = of.world.create(of.mover, FileId::ROOT, "y");
    of.take(of.mover, second);
    of.goes_to(of.stations[1]);
    of.world.pass(Duration::from_secs(600));
    // One of two is wanted.
    of.is_taken();
    assert_eq!(of.world.hosts[of.mover].replica.lost_locks(second), Vec::new());
    let free = of.world.create(of.other, FileId::ROOT, "z");
    of.take(of.other, free);
    of.goes_to(of.stations[0]);
    of.world.pass(Duration::from_secs(3));
    let id = of.ask(of.other, second, false);
    of.world.settle();
    assert_eq!(of.world.answer(of.other, id), Some(Err(FsError::Locked)), "it is back with it");
    assert_eq!(of.release(of.mover, second), Ok(Answer::Done));
}

#[test]
fn who_shares_with_its_holder_takes_nothing_away() {
    let mut of = Move::at_first_station();
    of.release(of.mover, of.file).unwrap();
    let read = |file| LockRequest { kind: LockKind::Read, ..whole(file, false) };
    assert_eq!(of.world.ask(of.mover, Request::Lock(read(of.file))), Ok(Answer::Done));
    of.goes_to(of.stations[1]);
    of.world.pass(LEASE);
    assert_eq!(of.world.ask(of.other, Request::Lock(read(of.file))), Ok(Answer::Done));
    of.world.pass(LEASE);
    assert!(!of.has_lost());
    of.is_taken();
}

#[test]
fn who_let_go_where_it_went_is_not_disturbed() {
    let mut of = Move::at_first_station();
    of.goes_to(of.stations[1]);
    of.release(of.mover, of.file).unwrap();
    of.take(of.mover, of.file);
    of.world.pass(LEASE);
    of.take(of.other, of.file);
    // Between stations locks do not exclude each other: it is another lock that the mover has there.
    assert!(!of.has_lost());
    assert_eq!(of.release(of.mover, of.file), Ok(Answer::Done));
}

#[test]
fn a_lock_that_was_taken_along_twice_is_asked_for_by_either_server() {
    for first in [true, false] {
        let mut of = Move::at_first_station();
        let [s, t] = of.stations;
        of.goes_to(t);
        of.goes_to(HOME);
        of.world.pass(LEASE);
        if !first {
            of.leave(of.other);
            of.world.connect(of.other, t);
            of.world.pass(Duration::from_secs(3));
        }
        assert!(of.world.has_session(s));
        of.is_taken();
    }
}

/// What the former server cannot say at once its holder hears as soon as there is a way.
#[test]
fn without_the_home_the_lock_is_given_and_its_holder_hears_of_it_later() {
    for restarts in [false, true] {
        let mut of = Move::at_first_station();
        of.goes_to(of.stations[1]);
        of.world.pass(LEASE);
        of.world.close(PeerId(1));
        assert!(!of.world.has_session(of.stations[0]));
        of.is_given_untold();
        of.release(of.other, of.file).unwrap();
        if restarts {
            of.restart(of.stations[0], 7);
        }
        of.world.connect(of.stations[0], HOME);
        of.world.settle();
        of.hears_it();
    }
}

#[test]
fn who_was_nowhere_hears_of_it_where_it_comes_to() {
    for place in 0..4 {
        let mut of = Move::at_first_station();
        let [s, t] = of.stations;
        of.leave(of.mover);
        of.world.pass(LEASE);
        of.is_given_untold();
        // Whether another has it still is all the same.
        of.release(of.other, of.file).unwrap();
        if place == 3 {
            // A station without the home tells when that is back.
            of.world.close(PeerId(2));
        }
        of.world.connect(of.mover, [s, t, HOME, t][place]);
        of.world.settle();
        if place == 3 {
            assert!(!of.has_lost());
            of.world.connect(t, HOME);
            of.world.settle();
        }
        of.hears_it();
    }
}

#[test]
fn the_home_gives_what_it_cannot_ask_for_and_tells_later() {
    let mut of = Move::from(|_| HOME);
    of.leave(of.mover);
    of.world.pass(LEASE);
    of.is_given_untold();
    of.restart(HOME, 9);
    let t = of.stations[1];
    of.world.connect(of.mover, t);
    of.world.settle();
    assert!(!of.has_lost());
    of.world.connect(t, HOME);
    of.world.settle();
    of.hears_it();
}

#[test]
fn a_holder_that_cannot_be_reached_is_not_waited_for_longer_than_half_a_lease() {
    let mut of = Move::at_first_station();
    of.goes_to(of.stations[1]);
    of.world.pass(LEASE);
    let line = of.world.line_of(of.mover);
    of.world.stall(line, true);
    let id = of.ask(of.other, of.file, false);
    of.world.pass(Duration::from_secs(4));
    assert_eq!(of.world.answer(of.other, id), None);
    of.world.pass(Duration::from_secs(2));
    assert_eq!(of.world.answer(of.other, id), Some(Ok(Answer::Done)));
    // The line comes back to life, and what was said is still on its way.
    of.world.stall(line, false);
    of.world.settle();
    of.hears_it();
}

#[test]
fn who_is_back_in_the_meantime_has_its_lock_still() {
    let mut of = Move::at_first_station();
    of.goes_to(of.stations[1]);
    of.world.pass(LEASE);
    let line = of.world.line_of(of.mover);
    of.world.stall(line, true);
    let id = of.ask(of.other, of.file, false);
    of.world.pass(Duration::from_secs(2));
    of.goes_to(of.stations[0]);
    of.world.settle();
    assert_eq!(of.world.answer(of.other, id), Some(Err(FsError::Locked)));
    assert!(!of.has_lost());
}

/// A server that was restarted knows who may have had locks, and not which.
#[test]
fn a_restarted_server_asks_those_who_left_it_meanwhile() {
    for (server, life) in [(0, 7), (1, 9)] {
        let mut of = if server == 0 { Move::at_first_station() } else { Move::from(|_| HOME) };
        let [s, t] = of.stations;
        let second = of.world.create(of.mover, FileId::ROOT, "y");
        of.take(of.mover, second);
        let server = if server == 0 { s } else { HOME };
        of.leave(of.mover);
        of.world.settle();
        of.restart(server, life);
        for station in of.stations {
            if !of.world.has_session(station) {
                of.world.connect(station, HOME);
            }
        }
        of.world.connect(of.mover, t);
        of.world.connect(of.other, server);
        of.world.settle();
        let early = of.ask(of.other, of.file, true);
        of.never_both(early);
        assert_eq!(of.world.answer(of.other, early), Some(Ok(Answer::Done)));
        of.hears_it();
        assert_eq!(of.world.hosts[of.mover].replica.lost_locks(second), Vec::new());
        // What the mover has still is known again.
        of.file = second;
        of.is_taken();
    }
}

#[test]
fn nobody_takes_away_what_he_did_not_give() {
    let mut of = Move::at_first_station();
    of.goes_to(of.stations[1]);
    of.world.pass(LEASE);
    let client = of.world.hosts[of.mover].origin;
    let third = of.world.add(Role::Station, "u@u");
    let liar = of.world.connect(third, HOME);
    of.world.settle();
    for wanted in [vec![whole(of.file, false)], Vec::new()] {
        let bytes = encode(&Message::Up(Up::GiveLock { ask: AskId(1), client, wanted }));
        of.world.input(HOME, Input::Message { peer: liar, bytes });
        of.world.settle();
        assert!(of.world.is_open(liar));
        assert!(!of.has_lost(), "the third station never gave it");
    }
    let line = of.world.line_of(of.other);
    let bytes = encode(&Message::Up(Up::GiveLock { ask: AskId(1), client, wanted: Vec::new() }));
    of.world.input(of.stations[0], Input::Message { peer: line, bytes });
    of.world.settle();
    assert!(!of.world.is_open(line), "a client has given nothing");
    assert!(!of.has_lost());
}

/// A station that says falsely that the client heard of it does not keep it from hearing.
#[test]
fn who_answers_for_another_deceives_only_who_asked() {
    let mut of = Move::at_first_station();
    of.goes_to(of.stations[1]);
    let third = of.world.add(Role::Station, "u@u");
    let liar = of.world.connect(third, HOME);
    of.world.pass(LEASE);
    of.world.stall(of.world.line_of(of.stations[1]), true);
    of.world.stall(liar, true);
    let id = of.ask(of.other, of.file, false);
    of.world.settle();
    for ask in 0..3 {
        let bytes = encode(&Message::Up(Up::LockGiven { ask: AskId(ask), told: true, left: Vec::new() }));
        of.world.input(HOME, Input::Message { peer: liar, bytes });
    }
    of.world.settle();
    assert_eq!(of.world.answer(of.other, id), Some(Ok(Answer::Done)));
    of.world.stall(of.world.line_of(of.stations[1]), false);
    of.world.settle();
    of.hears_it();
}

/// A client that says that it has still what it was asked for keeps nobody from it.
#[test]
fn who_says_that_it_keeps_what_is_wanted_is_not_believed() {
    let mut of = Move::at_first_station();
    of.goes_to(of.stations[1]);
    of.world.pass(LEASE);
    let line = of.world.line_of(of.mover);
    of.world.stall(line, true);
    let id = of.ask(of.other, of.file, true);
    of.world.settle();
    for ask in 0..3 {
        let left = vec![whole(of.file, false)];
        let bytes = encode(&Message::Up(Up::LockGiven { ask: AskId(ask), told: true, left }));
        of.world.input(of.stations[1], Input::Message { peer: line, bytes });
    }
    of.world.settle();
    assert_eq!(of.world.answer(of.other, id), Some(Ok(Answer::Done)));
}

#[test]
fn who_is_no_member_any_more_keeps_no_lock() {
    let mut of = Move::at_first_station();
    of.goes_to(of.stations[1]);
    of.world.pass(LEASE);
    let line = of.world.line_of(of.mover);
    of.world.stall(line, true);
    let id = of.ask(of.other, of.file, false);
    of.world.settle();
    assert_eq!(of.world.answer(of.other, id), None);
    let (now, wall, origin) = (of.world.now, of.world.wall(), of.world.hosts[of.mover].origin);
    let node = of.world.hosts[of.mover].replica.config().node;
    assert_eq!(of.world.hosts[HOME].replica.revoke(now, wall, node, Held::Taken), Ok(1));
    of.world.input(HOME, Input::Tick);
    of.world.settle();
    assert_eq!(of.world.answer(of.other, id), Some(Ok(Answer::Done)));
    let station = &of.world.hosts[of.stations[0]].replica;
    assert!(!station.locks.keeps_anything_of(origin), "it is never to be told");
}
