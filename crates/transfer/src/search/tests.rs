//! Timelines in virtual time, and looks among machines that come, go, refuse and are silent at random.

use super::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const PATIENCE: Duration = Duration::from_secs(30);
const PARENT: u8 = 100;
const BEGIN: Time = Time::from_micros(5_000_000);

#[test]
fn those_on_record_go_first_and_then_the_parent_and_then_the_others() {
    let mut sources = sources(&[5, 3], Parent::There(PARENT));
    sources.children = vec![client(3), client(4), station(5), station(6), client(9)];
    let mut search = Search::new(look(Scope::AT_SERVER, 9), Patience::new(PATIENCE, BEGIN));
    let mut asked = Vec::new();
    while let Some(peer) = ask(&mut search, &sources, BEGIN) {
        asked.push(peer);
        search.handle(BEGIN, Input::NotHad(Failure::NotHeld));
    }
    assert_eq!(asked, [5, 3, PARENT, 9, 6, 4], "its writer before stations, stations before clients");
    assert_eq!(search.poll_timeout(), Some(BEGIN + LOOK_PERIOD), "all again in a moment");
}

#[test]
fn whoever_asks_is_not_asked() {
    let look = Look { asker: Some(PARENT), ..look(Scope::AT_SERVER, 1) };
    let mut search = Search::new(look, Patience::new(PATIENCE, BEGIN));
    assert_eq!(ask(&mut search, &sources(&[], Parent::There(PARENT)), BEGIN), None);
    assert_eq!(over(&mut search), Some(Err(Failure::NotHeld)));
}

#[test]
fn what_all_have_not_is_asked_for_three_times() {
    let mut search = Search::new(look(Scope::AT_CLIENT, 1), Patience::new(PATIENCE, BEGIN));
    let (sources, mut now) = (sources(&[], Parent::There(PARENT)), BEGIN);
    for _ in 0..ROUNDS_MAX {
        assert_eq!(ask(&mut search, &sources, now), Some(PARENT));
        search.handle(now, Input::NotHad(Failure::NotHeld));
        assert_eq!(ask(&mut search, &sources, now), None);
        if let Some(until) = search.poll_timeout() {
            now = until;
            search.handle(now, Input::Tick);
        }
    }
    assert_eq!((over(&mut search), now), (Some(Err(Failure::NotHeld)), BEGIN + LOOK_PERIOD * 2));
}

#[test]
fn whoever_failed_may_have_it() {
    let mut search = Search::new(look(Scope::AT_SERVER, 1), Patience::new(PATIENCE, BEGIN));
    let (sources, mut now) = (two_clients(), BEGIN);
    for _ in 0..ROUNDS_MAX {
        for (peer, failure) in [(1, Failure::Refused), (2, Failure::NotHeld)] {
            assert_eq!(ask(&mut search, &sources, now), Some(peer));
            search.handle(now, Input::NotHad(failure));
        }
        assert_eq!(ask(&mut search, &sources, now), None);
        now = search.poll_timeout().unwrap_or(now);
        search.handle(now, Input::Tick);
    }
    assert_eq!(over(&mut search), Some(Err(Failure::Refused)));
}

#[test]
fn a_client_waits_a_moment_for_its_parent_and_a_server_as_long_as_its_asker() {
    for (scope, waits) in [(Scope::AT_CLIENT, PARENT_WAIT_MAX), (Scope::AT_SERVER, PATIENCE - LOOK_PERIOD)] {
        let mut search = Search::new(look(scope, 1), Patience::new(PATIENCE, BEGIN));
        let (mut now, sources) = (BEGIN, sources(&[], Parent::Away));
        while ask(&mut search, &sources, now).is_none()
            && let Some(until) = search.poll_timeout()
        {
            now = until;
            search.handle(now, Input::Tick);
        }
        assert_eq!(over(&mut search), Some(Err(Failure::Unreachable)));
        assert_eq!(now - BEGIN, waits);
    }
}

/// On a recorded UMTS link a session was silent for a lease, and ended; the next began 0.13 s later. Reads had failed by then.
#[test]
fn a_parent_that_was_silent_before_its_session_ended_is_waited_for() {
    let mut search = Search::new(look(Scope::AT_CLIENT, 1), Patience::new(PATIENCE, BEGIN));
    assert_eq!(ask(&mut search, &sources(&[], Parent::There(PARENT)), BEGIN), Some(PARENT));
    let ended = BEGIN + Duration::from_secs(10);
    search.handle(ended, Input::NotHad(Failure::Unreachable));
    assert_eq!(ask(&mut search, &sources(&[], Parent::Away), ended), None);
    let again = search.poll_timeout().expect("it is waited for");
    search.handle(again, Input::Tick);
    let next = PARENT + 1;
    assert_eq!(ask(&mut search, &sources(&[], Parent::There(next)), again), Some(next), "in its next session");
}

#[test]
fn a_parent_that_comes_back_is_asked() {
    let mut search = Search::new(look(Scope::AT_CLIENT, 1), Patience::new(PATIENCE, BEGIN));
    assert_eq!(ask(&mut search, &sources(&[], Parent::Away), BEGIN), None);
    let until = search.poll_timeout().unwrap();
    search.handle(until, Input::Tick);
    assert_eq!(ask(&mut search, &sources(&[], Parent::There(PARENT)), until), Some(PARENT));
    search.handle(until, Input::Had);
    assert_eq!(over(&mut search), Some(Ok(())));
}

#[test]
fn nobody_who_is_away_is_waited_for_where_all_are_asked() {
    let mut search = Search::new(look(Scope::of_all_below(1), 1), Patience::new(PATIENCE, BEGIN));
    assert_eq!(ask(&mut search, &sources(&[7], Parent::Away), BEGIN), None);
    assert_eq!(over(&mut search), Some(Err(Failure::NotHeld)));
}

#[test]
fn silence_ends_a_question_and_what_comes_prolongs_it() {
    let mut search = Search::new(look(Scope::AT_CLIENT, 1), Patience::new(PATIENCE, BEGIN));
    assert_eq!(ask(&mut search, &sources(&[], Parent::There(PARENT)), BEGIN), Some(PARENT));
    search.handle(BEGIN + PATIENCE / 2, Input::Moved);
    search.handle(BEGIN + PATIENCE, Input::Tick);
    assert!(!search.is_over());
    assert_eq!(search.poll_timeout(), Some(BEGIN + PATIENCE / 2 + PATIENCE));
    search.handle(BEGIN + PATIENCE / 2 + PATIENCE, Input::Tick);
    assert_eq!(over(&mut search), Some(Err(Failure::TimedOut)));
}

#[test]
fn a_no_at_the_last_moment_says_nothing_of_the_others() {
    let mut search = Search::new(look(Scope::AT_SERVER, 1), Patience::new(PATIENCE, BEGIN));
    ask(&mut search, &two_clients(), BEGIN).unwrap();
    search.handle(BEGIN + (PATIENCE - LOOK_PERIOD), Input::NotHad(Failure::NotHeld));
    assert_eq!(over(&mut search), Some(Err(Failure::TimedOut)));
}

#[test]
fn a_disk_that_fails_here_ends_it() {
    let mut search = Search::new(look(Scope::AT_SERVER, 1), Patience::new(PATIENCE, BEGIN));
    ask(&mut search, &two_clients(), BEGIN).unwrap();
    search.handle(BEGIN, Input::NotHad(Failure::Local));
    assert_eq!(over(&mut search), Some(Err(Failure::Local)));
}

/// Whoever is there and whatever they answer: it waits for an answer or a time, asks nobody twice in a round nor the asker,
/// ends, and says that nobody has it only if all who were there said so.
#[test]
fn random_looks_end_and_ask_each_once_a_round() {
    for seed in 0..500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let scopes = [Scope::AT_CLIENT, Scope::AT_SERVER, Scope::of_all_below(4)];
        let scope = scopes[random.random_range(0..scopes.len())];
        let asker = random.random_bool(0.5).then(|| random.random_range(1..6));
        let mut search = Search::new(Look { asker, ..look(scope, 1) }, Patience::new(PATIENCE, BEGIN));
        let (mut now, mut asked) = (BEGIN, BTreeMap::<u8, usize>::new());
        let mut others_said = false;
        let result = loop {
            match search.poll_output() {
                Some(Output::Over(result)) => break result,
                Some(Output::Look) => search.handle(now, Input::Sources(random_sources(&mut random))),
                Some(Output::Ask(peer)) => {
                    assert!(Some(peer) != asker, "seed {seed}: the asker is asked");
                    *asked.entry(peer).or_default() += 1;
                    now = now + Duration::from_millis(random.random_range(0..4000));
                    let failures = [Failure::NotHeld, Failure::Unreachable, Failure::Refused, Failure::TimedOut];
                    let failure = failures[random.random_range(0..failures.len())];
                    match random.random_range(0..10) {
                        0 => search.handle(now, Input::Had),
                        1 => search.handle(now, Input::Moved),
                        2 => {}
                        _ => {
                            others_said |= failure != Failure::NotHeld;
                            search.handle(now, Input::NotHad(failure));
                        }
                    }
                }
                None => {
                    let until =
                        search.poll_timeout().unwrap_or_else(|| panic!("seed {seed}: {search:?} waits for nothing"));
                    now = now.max(until);
                    search.handle(now, Input::Tick);
                }
            }
            assert!(now.since(BEGIN) < PATIENCE * 20, "seed {seed}: no end");
        };
        assert!(asked.values().all(|times| *times <= ROUNDS_MAX), "seed {seed}: {asked:?}");
        assert!(asked.values().sum::<usize>() <= scope.asked_max, "seed {seed}: {asked:?}");
        assert!(result != Err(Failure::Local), "seed {seed}: no disk failed");
        let is_sure = result == Err(Failure::TimedOut) || result == Err(Failure::Refused);
        assert!(!is_sure || others_said || now.since(BEGIN) > PATIENCE - LOOK_PERIOD * 2, "seed {seed}: {result:?}");
    }
}

fn random_sources(random: &mut ChaCha8Rng) -> Sources<u8> {
    let children = (1..6)
        .filter(|_| random.random_bool(0.7))
        .map(|number| if number % 2 == 0 { client(number) } else { station(number) });
    let parents = [Parent::None, Parent::Away, Parent::There(PARENT)];
    Sources {
        children: children.collect(),
        holders: (1..8).filter(|_| random.random_bool(0.2)).map(origin).collect(),
        parent: parents[random.random_range(0..parents.len())],
    }
}

/// Shows who is there until somebody is asked, or it waits.
fn ask(search: &mut Search<u8>, sources: &Sources<u8>, now: Time) -> Option<u8> {
    match search.poll_output()? {
        Output::Look => {
            search.handle(now, Input::Sources(sources.clone()));
            ask(search, sources, now)
        }
        Output::Ask(peer) => Some(peer),
        over @ Output::Over(_) => {
            search.outputs.push_front(over);
            None
        }
    }
}

fn over(search: &mut Search<u8>) -> Option<Result<(), Failure>> {
    match search.poll_output() {
        Some(Output::Over(result)) => Some(result),
        Some(Output::Look | Output::Ask(_)) | None => None,
    }
}

fn look(scope: Scope, writer: u8) -> Look<u8> {
    Look { scope, writer: origin(writer), asker: None }
}

fn sources(holders: &[u8], parent: Parent<u8>) -> Sources<u8> {
    Sources { holders: holders.iter().copied().map(origin).collect(), children: Vec::new(), parent }
}

fn two_clients() -> Sources<u8> {
    Sources { children: vec![client(1), client(2)], ..sources(&[], Parent::None) }
}

fn client(number: u8) -> Child<u8> {
    Child { peer: number, origin: origin(number), kind: ChildKind::Client }
}

fn station(number: u8) -> Child<u8> {
    Child { peer: number, origin: origin(number), kind: ChildKind::Station }
}

fn origin(number: u8) -> OriginId {
    OriginId::new(u32::from(number)).unwrap()
}
