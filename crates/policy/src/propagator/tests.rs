use super::*;
use crate::RECENT;
use proptest::prelude::*;
use wayfs_types::OriginId;

pub(crate) fn at(seconds: u64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

fn version(sequence: u64) -> RecordId {
    RecordId::new(OriginId::new(1).unwrap(), sequence).unwrap()
}

pub(crate) fn file(number: u64) -> FileId {
    FileId::made_by(version(number))
}

fn propagator(setting: &str) -> Propagator {
    Propagator::new(setting.parse().unwrap())
}

fn sent(propagator: &mut Propagator, now: Time) -> Vec<u64> {
    std::iter::from_fn(|| propagator.poll_send(now)).map(|send| send.version.sequence()).collect()
}

#[test]
fn write_through_sends_each_version_at_once() {
    let mut p = propagator("write-through");
    p.on_update(at(1), file(1), version(10));
    assert_eq!(p.poll_timeout(), Some(at(1)));
    assert_eq!(sent(&mut p, at(1)), [10]);
    p.on_update(at(2), file(1), version(11));
    assert_eq!(sent(&mut p, at(2)), [11]);
    assert_eq!(p.unsent(), 0);
}

#[test]
fn on_demand_sends_nothing() {
    let mut p = propagator("on-demand");
    p.on_update(at(1), file(1), version(10));
    p.on_shared(at(2), file(1), version(10));
    assert_eq!(p.poll_timeout(), None);
    p.on_back_fetch(at(3), file(1), version(10));
    assert_eq!((sent(&mut p, at(4)), p.unsent()), (vec![], 0));
}

#[test]
fn a_period_sends_only_what_is_current_at_its_end() {
    let mut p = propagator("periodic:15s");
    p.on_update(at(1), file(1), version(10));
    p.on_update(at(5), file(1), version(11));
    p.on_update(at(6), file(2), version(12));
    p.on_removed(file(2));
    assert_eq!(sent(&mut p, at(14)), []);
    assert_eq!(sent(&mut p, at(15)), [11]);
}

#[test]
fn the_invalidation_heuristic_sends_what_made_the_home_break_a_callback() {
    let mut p = propagator("ih:2");
    p.on_update(at(1), file(1), version(10));
    p.on_update(at(1), file(2), version(11));
    p.on_shared(at(2), file(1), version(10));
    assert_eq!(sent(&mut p, at(2)), [10]);
    // News of an older version says nothing of the newest.
    p.on_shared(at(3), file(2), version(9));
    assert_eq!(sent(&mut p, at(3)), []);
}

#[test]
fn a_producers_recent_updates_go_with_a_back_fetch() {
    let mut p = propagator("ihsl:2,0");
    p.on_update(at(0), file(1), version(10));
    let later = at(100) + RECENT;
    p.on_update(at(100), file(2), version(11));
    p.on_update(later, file(3), version(12));
    p.on_back_fetch(later, file(3), version(12));
    assert_eq!(sent(&mut p, later), [11]);
    assert_eq!(p.unsent(), 1);
}

#[test]
fn an_adaptive_delay_learns_from_the_first_back_fetch() {
    let mut p = propagator("atd");
    p.on_update(at(0), file(1), version(10));
    p.on_back_fetch(at(80), file(1), version(10));
    p.on_update(at(100), file(1), version(11));
    assert_eq!(p.poll_timeout(), Some(at(170)));
    assert_eq!(sent(&mut p, at(170)), [11]);
    // Sent but overwritten unread: twice as long.
    p.on_update(at(200), file(1), version(12));
    assert_eq!(p.poll_timeout(), Some(at(340)));
    p.on_update(at(300), file(1), version(13));
    assert_eq!(p.poll_timeout(), Some(at(440)));
}

#[test]
fn a_read_elsewhere_keeps_the_delay_as_it_is() {
    let mut p = propagator("atd");
    p.on_update(at(0), file(1), version(10));
    p.on_back_fetch(at(80), file(1), version(10));
    p.on_update(at(100), file(1), version(11));
    sent(&mut p, at(170));
    p.on_elsewhere(at(180), file(1), Access::Read);
    p.on_update(at(200), file(1), version(12));
    assert_eq!(p.poll_timeout(), Some(at(270)));
}

#[test]
fn a_version_overwritten_elsewhere_is_not_sent() {
    let mut p = propagator("periodic:15s");
    p.on_update(at(1), file(1), version(10));
    p.on_elsewhere(at(2), file(1), Access::Write);
    assert_eq!(sent(&mut p, at(20)), []);
}

#[test]
fn what_waits_goes_within_the_bound_however_often_it_is_rewritten() {
    let mut p = propagator("on-demand+within:1h");
    for minute in 0..60 {
        p.on_update(at(minute * 60), file(1), version(10 + minute));
        assert_eq!(sent(&mut p, at(minute * 60)), []);
    }
    assert_eq!(p.poll_timeout(), Some(at(3600)));
    assert_eq!(sent(&mut p, at(3600)), [69]);
}

#[test]
fn the_bound_shortens_a_longer_delay() {
    let mut p = propagator("periodic:1d+within:1m");
    p.on_update(at(10), file(1), version(10));
    assert_eq!(p.poll_timeout(), Some(at(70)));
}

#[test]
fn one_version_too_many_makes_the_oldest_due() {
    let mut p = propagator("on-demand");
    p.unsent_max = 2;
    for number in 1..=3 {
        p.on_update(at(number), file(number), version(number));
    }
    assert_eq!(sent(&mut p, at(3)), [1]);
}

#[test]
fn what_was_sent_for_another_reason_is_not_sent_again() {
    let mut p = propagator("periodic:15s");
    p.on_update(at(1), file(1), version(10));
    p.on_sent(file(1), version(9));
    p.on_sent(file(1), version(10));
    assert_eq!(sent(&mut p, at(20)), []);
}

proptest! {
    /// Whatever happens: nothing is sent twice, nothing that is not the newest, and the indexes agree.
    #[test]
    fn only_the_newest_unsent_version_is_ever_sent(
        setting in proptest::sample::select(vec![
            "write-through", "on-demand", "periodic:7s", "ih:2", "ihsl:2,1", "ttnu:0.5", "atd", "atd+within:1m",
        ]),
        events in proptest::collection::vec((0u8..7, 1u64..5, 0u64..20), 1..200),
    ) {
        let mut p = propagator(setting);
        let mut newest = BTreeMap::new();
        let (mut now, mut next) = (0, 10);
        for (event, number, pause) in events {
            now += pause;
            next += 1;
            let (now, file) = (at(now), file(number));
            let known = newest.get(&file).copied().unwrap_or(version(9));
            match event {
                0 | 1 => {
                    p.on_update(now, file, version(next));
                    newest.insert(file, version(next));
                }
                2 => p.on_shared(now, file, known),
                3 => p.on_back_fetch(now, file, known),
                4 => p.on_elsewhere(now, file, Access::Read),
                5 => {
                    p.on_elsewhere(now, file, Access::Write);
                    newest.remove(&file);
                }
                _ => {
                    while let Some(send) = p.poll_send(now) {
                        prop_assert_eq!(newest.get(&send.file), Some(&send.version));
                        prop_assert!(!p.unsent.contains_key(&send.file));
                    }
                    prop_assert!(p.poll_timeout().is_none_or(|due| due > now));
                }
            }
            prop_assert_eq!(p.by_update.len(), p.unsent.len());
            prop_assert!(p.by_due.iter().all(|(due, file)| p.unsent[file].due == Some(*due)));
        }
    }
}
