//! Members that keep others waiting.
//!
//! Before a change is safe, the clients that look at it confirm that they heard of it, or their lease ends. So whoever looks
//! and never confirms holds up all others for a lease, or two. One that goes on talking meanwhile means it so, or has a machine that
//! does: it gets no session (and so no lease) for a pause that doubles each time. Silence is what every outage looks like, and whoever moves
//! has many of them: only after several in a row the next session waits for a lease. After a time without either, all is
//! forgiven. Meanwhile the member reads and writes in its cache, as without a network.

use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::{OriginId, Time};

/// Longest pause, in leases: with the default lease five minutes, of which a member that never confirms takes 20 s.
const PAUSE_LEASES_MAX: u32 = 30;
/// Outages in a row that cost nothing.
const OUTAGES_FREE: u32 = 4;
/// Accounts that are kept; past that the oldest goes.
const ACCOUNTS_MAX: usize = 4096;

/// What a member did to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// It was silent.
    Outage,
    /// It was heard for half a lease or more, and did not confirm.
    Unconfirmed,
}

#[derive(Debug, Default, Clone, Copy)]
struct Account {
    outages: u32,
    unconfirmed: u32,
    noted: Time,
    /// It gets no session before.
    until: Time,
    /// All is forgiven from then on.
    forgiven_at: Time,
}

impl Account {
    /// For how many leases it gets no session.
    fn pause(&self, last: Lapse) -> u32 {
        match last {
            Lapse::Outage => u32::from(self.outages > OUTAGES_FREE),
            Lapse::Unconfirmed => 2_u32.saturating_pow(self.unconfirmed).saturating_sub(1).min(PAUSE_LEASES_MAX),
        }
    }
}

/// The accounts of all members, since this replica was opened.
#[derive(Debug, Default)]
pub(crate) struct Lapses(BTreeMap<OriginId, Account>);

impl Lapses {
    /// A member kept others waiting, and does so until its lease ends.
    pub(crate) fn note(&mut self, origin: OriginId, lapse: Lapse, (now, lease_end): (Time, Time), lease: Duration) {
        let mut account = self.0.get(&origin).filter(|account| now < account.forgiven_at).copied().unwrap_or_default();
        match lapse {
            Lapse::Outage => account.outages = account.outages.saturating_add(1),
            Lapse::Unconfirmed => account.unconfirmed = account.unconfirmed.saturating_add(1).min(16),
        }
        let pause = lease * account.pause(lapse);
        // Who is not paused comes back when it can: others wait for it no longer then.
        let lease_end = if pause.is_zero() { now } else { lease_end };
        (account.noted, account.until) = (now, account.until.max(now.max(lease_end) + pause));
        account.forgiven_at = account.until + pause.max(lease * 6);
        self.0.insert(origin, account);
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
        let mut pauses = Vec::new();
        for _ in 0..4 {
            lapses.note(origin, Lapse::Unconfirmed, (now, now), LEASE);
            let pause = lapses.pause_of(origin, now).unwrap();
            pauses.push(pause.as_secs());
            now = now + pause;
            assert_eq!(lapses.pause_of(origin, now), None);
        }
        assert_eq!(pauses, [10, 30, 70, 150]);
        now = now + Duration::from_secs(301);
        lapses.note(origin, Lapse::Unconfirmed, (now, now), LEASE);
        assert_eq!(lapses.pause_of(origin, now), Some(LEASE), "it did well for as long");
    }

    #[test]
    fn outages_cost_nothing_but_in_a_row_a_lease() {
        let (mut lapses, origin, mut now) = (Lapses::default(), OriginId::new(3).unwrap(), Time::ZERO);
        for turn in 0..20 {
            lapses.note(origin, Lapse::Outage, (now, now), LEASE);
            assert_eq!(lapses.pause_of(origin, now), (turn >= 4).then_some(LEASE), "outage {turn}");
            now = now + Duration::from_secs(20);
        }
        now = now + Duration::from_secs(61);
        lapses.note(origin, Lapse::Outage, (now, now), LEASE);
        assert_eq!(lapses.pause_of(origin, now), None);
    }
}
