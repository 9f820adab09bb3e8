//! Members that keep others waiting.
//!
//! Before a change is safe, the clients that look at it confirm that they heard of it, or their lease ends. So whoever looks
//! and never confirms holds up all others for a lease, or two: once is how outages look, again and again is an attack, be it by a member
//! that may only read. Each time counts, a lease that ran out twice as much as a session that ended with something
//! unconfirmed. Whoever has more than one on its account gets no session (and so no lease) for a pause that doubles; after a time
//! without one, all is forgiven. It reads and writes in its cache meanwhile, as without a network.

use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::{OriginId, Time};

/// Longest pause, in leases: with the default lease five minutes, of which a member that never confirms takes 20 s.
const PAUSE_LEASES_MAX: u32 = 30;
/// Accounts that are kept; past that the oldest goes.
const ACCOUNTS_MAX: usize = 4096;

/// What a member did to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// Its session ended with something unconfirmed for which somebody waited.
    Broken,
    /// Its lease ran out so.
    RanOut,
}

#[derive(Debug, Clone, Copy)]
struct Account {
    points: u32,
    noted: Time,
    /// It gets no session before.
    until: Time,
    /// All is forgiven from then on.
    forgiven_at: Time,
}

/// The accounts of all members, since this replica was opened.
#[derive(Debug, Default)]
pub(crate) struct Lapses(BTreeMap<OriginId, Account>);

impl Lapses {
    /// A member kept others waiting.
    pub(crate) fn note(&mut self, origin: OriginId, lapse: Lapse, now: Time, lease: Duration) {
        let before =
            self.0.get(&origin).filter(|account| now < account.forgiven_at).map_or(0, |account| account.points);
        let points = before + if lapse == Lapse::RanOut { 2 } else { 1 };
        let leases = 2_u32.saturating_pow(points - 1).saturating_sub(1).min(PAUSE_LEASES_MAX);
        let pause = lease * leases;
        let forgiven_at = now + pause + pause.max(lease * 6);
        self.0.insert(origin, Account { points, noted: now, until: now + pause, forgiven_at });
        if self.0.len() > ACCOUNTS_MAX
            && let Some(oldest) =
                self.0.iter().min_by_key(|(_, account)| account.forgiven_at).map(|(origin, _)| *origin)
        {
            self.0.remove(&oldest);
        }
    }

    /// Whether something was noted since then.
    pub(crate) fn was_noted(&self, origin: OriginId, since: Time) -> bool {
        self.0.get(&origin).is_some_and(|account| account.noted >= since)
    }

    /// For how long a member still gets no session.
    pub(crate) fn pause_of(&self, origin: OriginId, now: Time) -> Option<Duration> {
        self.0.get(&origin).filter(|account| now < account.until).map(|account| account.until.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[test]
    fn pauses_double_and_are_forgiven() {
        let (mut lapses, origin, mut now) = (Lapses::default(), OriginId::new(3).unwrap(), Time::ZERO);
        lapses.note(origin, Lapse::Broken, now, LEASE);
        assert_eq!(lapses.pause_of(origin, now), None, "an outage is no attack");
        let mut pauses = Vec::new();
        for _ in 0..4 {
            lapses.note(origin, Lapse::RanOut, now, LEASE);
            let pause = lapses.pause_of(origin, now).unwrap();
            pauses.push(pause.as_secs());
            now = now + pause;
            assert_eq!(lapses.pause_of(origin, now), None);
        }
        assert_eq!(pauses, [30, 150, 300, 300]);
        now = now + Duration::from_secs(301);
        lapses.note(origin, Lapse::RanOut, now, LEASE);
        assert_eq!(lapses.pause_of(origin, now), Some(LEASE), "it did well for as long");
    }
}
