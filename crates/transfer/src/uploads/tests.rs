//! Timelines in virtual time, and random ones.

use super::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wayfs_types::{Content, Digest, FileId, RecordId};

const FILM: u64 = 10 << 30;
const LETTER: u64 = 5000;

#[test]
fn a_letter_passes_a_film_but_not_for_ever() {
    let mut waiting = VecDeque::from([waits(1, FILM), waits(2, LETTER)]);
    assert_eq!(choose(&waiting, Candidates::All), Some(1));
    waiting[0].passed = PASSED_MAX;
    assert_eq!(choose(&waiting, Candidates::All), Some(0));
}

#[test]
fn large_ones_leave_a_place_for_small_ones() {
    let waiting = VecDeque::from([waits(1, FILM), waits(2, FILM)]);
    assert_eq!(choose(&waiting, Candidates::Small), None);
    assert_eq!(choose::<u8>(&VecDeque::new(), Candidates::All), None);
    let mut uploads = Uploads::new(3);
    for number in 1..=3 {
        uploads.handle(Time::ZERO, Input::Order(order(number, FILM)));
    }
    assert_eq!(begun(&mut uploads), [1, 2]);
    uploads.handle(Time::ZERO, Input::Order(order(4, LETTER)));
    assert_eq!(begun(&mut uploads), [4]);
}

#[test]
fn the_next_one_begins_when_one_is_done() {
    let mut uploads = Uploads::new(1);
    uploads.handle(Time::ZERO, Input::Order(order(1, LETTER)));
    uploads.handle(Time::ZERO, Input::Order(order(2, LETTER)));
    uploads.handle(Time::ZERO, Input::Order(order(2, LETTER)));
    assert_eq!(begun(&mut uploads), [1]);
    uploads.handle(at(10), Input::Pushed(id(1)));
    assert_eq!(begun(&mut uploads), [2], "ordered twice, and begun once");
    uploads.handle(at(20), Input::Pushed(id(2)));
    assert!(uploads.is_empty() && uploads.poll_timeout().is_none());
}

#[test]
fn pauses_double_up_to_the_longest() {
    let (mut uploads, mut now, mut pauses) = (Uploads::new(1), Time::ZERO, Vec::new());
    uploads.handle(now, Input::Order(order(1, LETTER)));
    for _ in 0..9 {
        assert_eq!(begun(&mut uploads), [1]);
        uploads.handle(now, Input::Failed(id(1), Failure::Refused));
        let until = uploads.poll_timeout().unwrap();
        pauses.push((until - now).as_millis());
        uploads.handle(now, Input::Tick);
        assert_eq!(begun(&mut uploads), [0; 0], "not before its time");
        now = until;
        uploads.handle(now, Input::Tick);
    }
    assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
}

#[test]
fn contents_that_nobody_has_are_given_up_at_the_third_time() {
    let (mut uploads, mut now) = (Uploads::new(1), Time::ZERO);
    uploads.handle(now, Input::Order(order(1, LETTER)));
    uploads.handle(now, Input::Order(order(2, LETTER)));
    for _ in 1..LACKED_MAX {
        assert_eq!(begun(&mut uploads), [1]);
        repair(&mut uploads, now, Repaired::Lacks);
        now = uploads.poll_timeout().unwrap();
        uploads.handle(now, Input::Tick);
    }
    assert_eq!(begun(&mut uploads), [1]);
    repair(&mut uploads, now, Repaired::Lacks);
    assert_eq!(uploads.poll_output(), Some(Output::Gone(order(1, LETTER))));
    assert_eq!(begun(&mut uploads), [2], "its place is free");
}

#[test]
fn a_disk_that_cannot_be_read_is_no_proof_of_loss() {
    let (mut uploads, mut now) = (Uploads::new(1), Time::ZERO);
    uploads.handle(now, Input::Order(order(1, LETTER)));
    for _ in 0..3 * LACKED_MAX {
        assert_eq!(begun(&mut uploads), [1]);
        repair(&mut uploads, now, Repaired::Unreadable);
        now = uploads.poll_timeout().unwrap();
        uploads.handle(now, Input::Tick);
    }
}

#[test]
fn what_was_made_whole_again_goes_on_soon() {
    let mut uploads = Uploads::new(1);
    uploads.handle(Time::ZERO, Input::Order(order(1, LETTER)));
    for now in [at(0), at(10_000)] {
        assert_eq!(begun(&mut uploads), [1]);
        uploads.handle(now, Input::Failed(id(1), Failure::Refused));
        uploads.handle(uploads.poll_timeout().unwrap(), Input::Tick);
    }
    assert_eq!(begun(&mut uploads), [1]);
    repair(&mut uploads, at(20_000), Repaired::Whole);
    assert_eq!(uploads.poll_timeout(), Some(at(20_250)));
}

#[test]
fn with_its_session_goes_what_waits_for_it() {
    let mut uploads = Uploads::new(2);
    for number in 1..=4 {
        uploads.handle(Time::ZERO, Input::Order(order(number, LETTER)));
    }
    assert_eq!(begun(&mut uploads), [1, 2]);
    uploads.handle(Time::ZERO, Input::Failed(id(1), Failure::Interrupted));
    uploads.handle(at(1), Input::SessionEnded(0));
    assert_eq!((begun(&mut uploads), uploads.len(), uploads.poll_timeout()), (vec![], 1, None));
    uploads.handle(at(2), Input::Failed(id(2), Failure::SessionOver));
    assert!(uploads.is_empty());
}

#[test]
fn after_a_stop_nothing_begins() {
    let mut uploads = Uploads::new(1);
    uploads.handle(Time::ZERO, Input::Order(order(1, LETTER)));
    uploads.handle(Time::ZERO, Input::Order(order(2, LETTER)));
    assert_eq!(begun(&mut uploads), [1]);
    uploads.handle(at(1), Input::Stop);
    uploads.handle(at(2), Input::Order(order(3, LETTER)));
    uploads.handle(at(3), Input::Failed(id(1), Failure::Interrupted));
    assert!(uploads.is_empty() && uploads.poll_output().is_none() && uploads.poll_timeout().is_none());
}

/// Whatever the answers are: never more under way than there are places, whatever there is has an answer or a time to wait
/// for, and in the end nothing is left.
#[test]
fn random_answers_leave_nothing_behind() {
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let at_once_max = random.random_range(1..6);
        let (mut uploads, mut open) = (Uploads::new(at_once_max), Vec::new());
        let mut now = Time::ZERO;
        for step in 0..400 {
            let is_late = step >= 200;
            if !is_late && random.random_bool(0.4) {
                let size = if random.random_bool(0.3) { FILM } else { LETTER };
                uploads.handle(now, Input::Order(order(random.random_range(1..40), size)));
            }
            if random.random_bool(0.02) {
                uploads.handle(now, Input::SessionEnded(0));
            }
            while let Some(output) = uploads.poll_output() {
                match output {
                    Output::Gone(_) => {}
                    Output::Begin(_) | Output::Repair(_) => open.push(output),
                }
            }
            assert!(open.len() <= at_once_max, "seed {seed}: {} of {at_once_max}", open.len());
            let waits = uploads.is_empty() || !open.is_empty() || uploads.poll_timeout().is_some();
            assert!(waits, "seed {seed}: {uploads:?} waits for nothing");
            match uploads.poll_timeout() {
                Some(until) if open.is_empty() || random.random_bool(0.3) => {
                    now = now.max(until);
                    uploads.handle(now, Input::Tick);
                }
                _ if open.is_empty() => {}
                _ => {
                    let answered = open.swap_remove(random.random_range(0..open.len()));
                    uploads.handle(now, answer(&answered, is_late, &mut random));
                }
            }
        }
        assert!(uploads.is_empty(), "seed {seed}: {uploads:?}");
    }
}

fn answer(output: &Output<u8>, is_late: bool, random: &mut ChaCha8Rng) -> Input<u8> {
    let any = [Failure::SessionOver, Failure::Interrupted, Failure::ChunkLost, Failure::Refused];
    let ends = [Repaired::Whole, Repaired::Lacks, Repaired::Unreadable];
    match output {
        Output::Begin(order) if is_late || random.random_bool(0.4) => Input::Pushed(order.id()),
        Output::Begin(order) => Input::Failed(order.id(), any[random.random_range(0..any.len())]),
        Output::Repair(order) => Input::Repaired(order.id(), ends[random.random_range(0..ends.len())]),
        Output::Gone(_) => unreachable!("nothing answers it"),
    }
}

fn repair(uploads: &mut Uploads<u8>, now: Time, repaired: Repaired) {
    uploads.handle(now, Input::Failed(id(1), Failure::ChunkLost));
    assert_eq!(uploads.poll_output(), Some(Output::Repair(order(1, LETTER))));
    uploads.handle(now, Input::Repaired(id(1), repaired));
}

/// The numbers of those that are to begin.
fn begun(uploads: &mut Uploads<u8>) -> Vec<u64> {
    let begun = std::iter::from_fn(|| uploads.poll_output()).map(|output| match output {
        Output::Begin(order) => u64::from(order.version),
        other => panic!("{other:?} instead of a beginning"),
    });
    begun.collect()
}

fn waits(number: u64, size: u64) -> Waiting<u8> {
    Waiting { order: order(number, size), passed: 0 }
}

fn order(number: u64, size: u64) -> Order<u8> {
    let content = Content::Tree { size, root: Digest::of(&number.to_le_bytes()), depth: 1, holes: 0 };
    Order { peer: 0, file: FileId::ROOT, version: RecordId::try_from(number).unwrap(), content }
}

fn id(number: u64) -> PushId<u8> {
    PushId { peer: 0, version: RecordId::try_from(number).unwrap() }
}

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}
