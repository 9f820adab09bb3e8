//! Timelines in virtual time, and waits and looks that come and end at random.

use super::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use wayfs_types::{FileId, RecordId};

const SECOND: Duration = Duration::from_secs(1);
const BEGIN: Time = Time::from_micros(9_000_000);
const LONG: Duration = Duration::from_secs(30);

#[test]
fn one_look_serves_all_who_want_a_chunk() {
    let mut fetches = Fetches::<u8>::default();
    let (first, look) = wait_and_look(&mut fetches, None, Until::Here);
    let second = wait(&mut fetches, Some(7), Until::Here, LONG);
    assert_eq!(outputs(&mut fetches), []);
    fetches.handle(BEGIN, Input::Ended(look, Ok(())));
    assert_eq!(outputs(&mut fetches), [Output::Over(first, Ok(())), Output::Over(second, Ok(()))]);
    assert!(fetches.is_empty() && fetches.poll_timeout().is_none());
}

#[test]
fn whoever_is_to_be_asked_gets_a_look_of_its_own() {
    let mut fetches = Fetches::default();
    let (first, look) = wait_and_look(&mut fetches, Some(1), Until::Here);
    let second = wait(&mut fetches, Some(2), Until::Here, LONG);
    fetches.handle(BEGIN, Input::Asks(look, 2));
    let [Output::Look { look: own, asker: Some(2), .. }] = outputs(&mut fetches)[..] else { panic!("none of its own") };
    let third = wait(&mut fetches, Some(2), Until::Here, LONG);
    let [Output::Look { look: other, asker: Some(2), .. }] = outputs(&mut fetches)[..] else {
        panic!("it waits for itself")
    };
    fetches.handle(BEGIN, Input::Ended(own, Err(Failure::NotHeld)));
    assert_eq!(outputs(&mut fetches), [Output::Over(second, Err(Failure::NotHeld))]);
    fetches.handle(BEGIN, Input::GaveUp(third));
    assert_eq!(outputs(&mut fetches), [Output::CallOff(other)]);
    fetches.handle(BEGIN, Input::Ended(look, Ok(())));
    assert_eq!(outputs(&mut fetches), [Output::Over(first, Ok(()))]);
}

#[test]
fn a_patience_that_is_over_was_another_ones() {
    let mut fetches = Fetches::<u8>::default();
    let (first, look) = wait_and_look(&mut fetches, None, Until::Here);
    let others = [wait(&mut fetches, Some(1), Until::Here, LONG), wait(&mut fetches, Some(2), Until::Here, LONG)];
    fetches.handle(BEGIN + SECOND, Input::Ended(look, Err(Failure::TimedOut)));
    let begun = outputs(&mut fetches);
    let [Output::Over(over, Err(Failure::TimedOut)), Output::Look { look: next, patience, .. }] = begun[..] else {
        panic!("{begun:?}")
    };
    assert_eq!((over, patience), (first, LONG - SECOND));
    fetches.handle(BEGIN + SECOND * 2, Input::Ended(next, Err(Failure::Unreachable)));
    let end = Err(Failure::Unreachable);
    assert_eq!(outputs(&mut fetches), others.map(|wait| Output::Over(wait, end)), "none waits for all the others");
}

#[test]
fn what_nobody_holds_is_not_looked_for_again() {
    let mut fetches = Fetches::<u8>::default();
    let (first, look) = wait_and_look(&mut fetches, None, Until::Here);
    let second = wait(&mut fetches, None, Until::Here, LONG);
    fetches.handle(BEGIN, Input::Ended(look, Err(Failure::NotHeld)));
    let end = Err(Failure::NotHeld);
    assert_eq!(outputs(&mut fetches), [Output::Over(first, end), Output::Over(second, end)]);
}

#[test]
fn what_comes_prolongs_the_waits_of_all() {
    let mut fetches = Fetches::<u8>::default();
    let (first, look) = wait_and_look(&mut fetches, None, Until::Here);
    let second = wait(&mut fetches, None, Until::Here, SECOND);
    assert_eq!(fetches.poll_timeout(), Some(BEGIN + SECOND));
    fetches.handle(BEGIN + SECOND / 2, Input::Moved(look));
    assert_eq!(outputs(&mut fetches), [Output::Moved(first), Output::Moved(second)]);
    fetches.handle(BEGIN + SECOND, Input::Tick);
    assert_eq!(outputs(&mut fetches), []);
    fetches.handle(BEGIN + SECOND * 3 / 2, Input::Tick);
    assert_eq!(outputs(&mut fetches), [Output::Over(second, Err(Failure::TimedOut))]);
    assert_eq!(fetches.len(), 1, "the look goes on for the first");
}

#[test]
fn a_look_of_which_all_have_given_up_can_be_joined() {
    let mut fetches = Fetches::<u8>::default();
    let (first, look) = wait_and_look(&mut fetches, None, Until::Here);
    fetches.handle(BEGIN, Input::GaveUp(first));
    assert_eq!(outputs(&mut fetches), []);
    let second = wait(&mut fetches, None, Until::Here, LONG);
    fetches.handle(BEGIN, Input::Ended(look, Ok(())));
    assert_eq!(outputs(&mut fetches), [Output::Over(second, Ok(()))]);
}

#[test]
fn a_chunk_goes_on_as_it_comes_until_another_is_asked() {
    let mut fetches = Fetches::default();
    let (first, look) = wait_and_look(&mut fetches, None, Until::Comes);
    fetches.handle(BEGIN, Input::Comes(look));
    let second = wait(&mut fetches, None, Until::Comes, LONG);
    assert_eq!(outputs(&mut fetches), [Output::Comes(first, look), Output::Comes(second, look)]);
    fetches.handle(BEGIN, Input::Asks(look, 9));
    let third = wait(&mut fetches, None, Until::Comes, LONG);
    let fourth = wait(&mut fetches, None, Until::Here, LONG);
    assert_eq!(outputs(&mut fetches), []);
    fetches.handle(BEGIN, Input::Comes(look));
    assert_eq!(outputs(&mut fetches), [Output::Comes(third, look)]);
    fetches.handle(BEGIN, Input::Ended(look, Ok(())));
    assert_eq!(outputs(&mut fetches), [Output::Over(fourth, Ok(()))]);
}

#[test]
fn a_look_of_its_own_is_not_called_off_while_the_chunk_comes() {
    let mut fetches = Fetches::default();
    let (_, look) = wait_and_look(&mut fetches, None, Until::Here);
    fetches.handle(BEGIN, Input::Asks(look, 2));
    let (alone, own) = wait_and_look(&mut fetches, Some(2), Until::Comes);
    fetches.handle(BEGIN, Input::Comes(own));
    assert_eq!(outputs(&mut fetches), []);
    fetches.handle(BEGIN, Input::Ended(own, Ok(())));
    assert_eq!(outputs(&mut fetches), [Output::Over(alone, Ok(()))]);
}

#[test]
fn what_nobody_looks_for_is_not_waited_for() {
    let mut fetches = Fetches::<u8>::default();
    let patience = Patience::new(LONG, BEGIN);
    let alone = fetches.name_wait();
    fetches.handle(BEGIN, Input::Join { wait: alone, digest: want().digest, patience });
    assert_eq!(outputs(&mut fetches), [Output::Over(alone, Ok(()))]);
    let (first, look) = wait_and_look(&mut fetches, None, Until::Here);
    let beside = fetches.name_wait();
    fetches.handle(BEGIN, Input::Join { wait: beside, digest: want().digest, patience });
    fetches.handle(BEGIN, Input::Ended(look, Err(Failure::TimedOut)));
    let end = Err(Failure::TimedOut);
    assert_eq!(outputs(&mut fetches), [Output::Over(first, end), Output::Over(beside, end)], "no look on its behalf");
}

/// Each wait ends once; no two looks that others may join are for one chunk; no wait waits for a look that asks its asker; and
/// whatever there is waits for a look that is under way.
#[test]
fn random_waits_end_once() {
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut fetches = Fetches::<u8>::default();
        let (mut now, mut open) = (BEGIN, BTreeMap::<WaitId, Option<u8>>::new());
        let mut looks = BTreeMap::<LookId, Option<u8>>::new();
        for step in 0..300 {
            now = now + Duration::from_millis(random.random_range(0..500));
            let is_late = step > 200;
            let look = looks.keys().nth(random.random_range(0..looks.len().max(1))).copied();
            match (random.random_range(0..8), look) {
                (0..=2, _) if !is_late => {
                    let asker = random.random_bool(0.7).then(|| random.random_range(0..4));
                    let until = if random.random_bool(0.5) { Until::Here } else { Until::Comes };
                    let wait = fetches.name_wait();
                    let patience = Patience::new(Duration::from_millis(random.random_range(200..9000)), now);
                    open.insert(wait, asker);
                    fetches.handle(now, Input::Want { wait, want: want(), asker, until, patience });
                }
                (3, Some(look)) => {
                    let peer = random.random_range(0..4);
                    if looks[&look] != Some(peer) {
                        fetches.handle(now, Input::Asks(look, peer));
                    }
                }
                (4, Some(look)) => fetches.handle(now, Input::Moved(look)),
                (5, Some(look)) => fetches.handle(now, Input::Comes(look)),
                (6, Some(look)) => {
                    looks.remove(&look);
                    let ends = [Ok(()), Err(Failure::NotHeld), Err(Failure::TimedOut), Err(Failure::Unreachable)];
                    fetches.handle(now, Input::Ended(look, ends[random.random_range(0..ends.len())]));
                }
                (7, _) if random.random_bool(0.2) => {
                    if let Some((wait, _)) = open.pop_first() {
                        fetches.handle(now, Input::GaveUp(wait));
                    }
                }
                _ => fetches.handle(now, Input::Tick),
            }
            while let Some(output) = fetches.poll_output() {
                match output {
                    Output::Look { look, asker, .. } => drop(looks.insert(look, asker)),
                    Output::CallOff(look) => drop(looks.remove(&look).expect("it was begun")),
                    Output::Moved(wait) => assert!(open.contains_key(&wait), "seed {seed}"),
                    Output::Comes(wait, _) | Output::Over(wait, _) => {
                        open.remove(&wait).expect("each wait ends once");
                    }
                }
            }
            check(&fetches, &open, &looks, seed);
        }
        while let Some(until) = fetches.poll_timeout() {
            fetches.handle(until, Input::Tick);
        }
        let over = outputs(&mut fetches).into_iter().filter(|output| matches!(output, Output::Over(..))).count();
        assert_eq!(over, open.len(), "seed {seed}");
    }
}

fn check(fetches: &Fetches<u8>, open: &BTreeMap<WaitId, Option<u8>>, looks: &BTreeMap<LookId, Option<u8>>, seed: u64) {
    assert!(fetches.waits.keys().eq(open.keys()), "seed {seed}: {fetches:?}");
    assert!(fetches.looks.keys().eq(looks.keys()), "seed {seed}: {fetches:?}");
    for (wait, waiting) in &fetches.waits {
        let asked = fetches.looks[&waiting.look].asked;
        assert!(open[wait].is_none() || asked != open[wait], "seed {seed}: it waits for itself");
    }
    assert!(fetches.len() <= 1, "seed {seed}: two looks for one chunk");
}

fn wait_and_look(fetches: &mut Fetches<u8>, asker: Option<u8>, until: Until) -> (WaitId, LookId) {
    let wait = wait(fetches, asker, until, LONG);
    let [Output::Look { look, .. }] = outputs(fetches)[..] else { panic!("no look begins") };
    (wait, look)
}

fn wait(fetches: &mut Fetches<u8>, asker: Option<u8>, until: Until, silence_max: Duration) -> WaitId {
    let wait = fetches.name_wait();
    let patience = Patience::new(silence_max, BEGIN);
    fetches.handle(BEGIN, Input::Want { wait, want: want(), asker, until, patience });
    wait
}

fn want() -> Want {
    Want { file: FileId::ROOT, version: RecordId::GENESIS, digest: Digest::of(b"chunk") }
}

fn outputs(fetches: &mut Fetches<u8>) -> Vec<Output<u8>> {
    std::iter::from_fn(|| fetches.poll_output()).collect()
}
