//! Ours: what is lost is seen by what is answered, not by a clock.
//!
//! A bad period loses everything, in both directions, and then nothing. So while calls are in flight and nothing is answered, a small
//! call is sent at intervals that hardly grow: it costs two short packets, and tells within an interval that the path is back. What
//! was sent before a call that is answered, and is not answered itself, was lost: it is sent again at once. No call's own timer
//! matters but in the end: those of `timeout` double, for a server that takes calls and answers none.

use super::round_trip::Smoothed;
use super::{Policy, Probing, TIMEOUT_MAX, doubled};
use crate::Kind;
use std::collections::BTreeMap;
use std::time::Duration;

/// Before anything is measured: most paths answer sooner.
const FIRST: Duration = Duration::from_millis(200);
/// Below this, the machine's own scheduling would look like a silence.
const SHORTEST: Duration = Duration::from_millis(15);
/// Probes at about the same interval: two seconds of them, and then they double.
const PROBES_LINEAR: u32 = 40;
/// By what intervals grow meanwhile.
const STEP: Duration = Duration::from_millis(2);
/// The last resort of single calls, in round trips.
const ROUND_TRIPS: u32 = 8;

/// Probing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ours {
    measured: BTreeMap<Kind, Smoothed>,
    gap: Option<Smoothed>,
}

impl Policy for Ours {
    fn timeout(&self, kind: Kind, sending: u32) -> Duration {
        let first = self.measured.get(&kind).map_or(FIRST * ROUND_TRIPS, |it| it.mean * ROUND_TRIPS);
        doubled(first.clamp(Duration::from_secs(1), TIMEOUT_MAX), sending.saturating_sub(1))
    }

    fn on_answer(&mut self, kind: Kind, round_trip: Duration) {
        self.measured.entry(kind).and_modify(|it| it.add(round_trip)).or_insert_with(|| Smoothed::first(round_trip));
    }

    fn on_gap(&mut self, gap: Duration) {
        Smoothed::update(&mut self.gap, gap);
    }

    fn probing(&self) -> Option<&dyn Probing> {
        Some(self)
    }
}

impl Probing for Ours {
    fn silence(&self, probes: u32, slowest: Kind, in_flight: usize) -> Duration {
        let trip = self.measured.get(&slowest).map(|it| it.mean + it.deviation * 2);
        let gap = self.gap.map(|it| it.mean + it.deviation * 2);
        // With several in flight, answers come as fast as the path carries them; a single one takes a round trip.
        let quiet = match (in_flight, gap, trip) {
            (2.., Some(gap), _) => gap,
            (_, _, Some(trip)) => trip,
            (_, _, None) => FIRST,
        };
        let quiet = quiet.clamp(SHORTEST, TIMEOUT_MAX);
        if probes == 0 {
            return quiet;
        }
        let interval = quiet.min(FIRST / 4) + STEP * probes.min(PROBES_LINEAR);
        doubled(interval, probes.saturating_sub(PROBES_LINEAR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_hardly_grow_at_first_and_double_when_nobody_is_there() {
        let mut policy = Ours::default();
        for _ in 0..50 {
            policy.on_gap(Duration::from_millis(35));
            policy.on_answer(Kind::Read, Duration::from_millis(140));
        }
        let silence = |probes, in_flight| policy.silence(probes, Kind::Read, in_flight).as_millis();
        assert_eq!((silence(0, 4), silence(1, 4), silence(10, 4)), (35, 37, 55));
        assert_eq!(silence(0, 1), 140);
        assert_eq!(silence(42, 4), 460);
        assert_eq!(silence(1000, 4), 60_000);
    }
}
