//! Timeouts from measured round trips, by kind of call: a write takes longer than a lookup.

use super::round_trip::Smoothed;
use super::{Policy, TIMEOUT_MAX, doubled};
use crate::Kind;
use std::collections::BTreeMap;
use std::time::Duration;

/// Before anything is measured.
const FIRST: Duration = Duration::from_secs(1);
/// Servers collect writes for a while before they answer.
const SHORTEST: Duration = Duration::from_millis(100);

/// Measured timeouts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Adaptive {
    measured: BTreeMap<Kind, Smoothed>,
}

impl Policy for Adaptive {
    fn timeout(&self, kind: Kind, sending: u32) -> Duration {
        let first = self.measured.get(&kind).map_or(FIRST, |it| it.mean + it.deviation * 4);
        doubled(first.clamp(SHORTEST, TIMEOUT_MAX), sending.saturating_sub(1))
    }

    fn on_answer(&mut self, kind: Kind, round_trip: Duration) {
        self.measured.entry(kind).and_modify(|it| it.add(round_trip)).or_insert_with(|| Smoothed::first(round_trip));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_timeouts_of_their_own() {
        let mut policy = Adaptive::default();
        for _ in 0..50 {
            policy.on_answer(Kind::Lookup, Duration::from_millis(4));
            policy.on_answer(Kind::Write, Duration::from_millis(400));
        }
        assert_eq!(policy.timeout(Kind::Lookup, 1), SHORTEST);
        assert_eq!(policy.timeout(Kind::Lookup, 3), SHORTEST * 4);
        assert!((400..450).contains(&policy.timeout(Kind::Write, 1).as_millis()));
        assert_eq!(policy.timeout(Kind::Read, 1), FIRST);
    }
}
