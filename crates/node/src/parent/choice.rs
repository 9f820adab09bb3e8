//! Which server is the best parent, and when another is worth a move. Pure.

use std::time::Duration;

/// A move must save at least this part of the round trip: below, noise would make us wander.
const GAIN_PERCENT_MIN: u32 = 30;
/// And at least this much: a move costs a revalidation of the watched directories.
const GAIN_MIN: Duration = Duration::from_millis(3);

/// Whether a server with round-trip time `other` is worth leaving one with `current` for.
pub(crate) fn is_worth_a_move(current: Duration, other: Duration) -> bool {
    let gain = current.saturating_sub(other);
    gain >= GAIN_MIN && gain * 100 >= current * GAIN_PERCENT_MIN
}

/// Whether the path has become so much worse since it was chosen that others should be measured soon.
pub(crate) fn has_decayed(when_chosen: Duration, now: Duration) -> bool {
    now > when_chosen * 2 && now > when_chosen + Duration::from_millis(20)
}

/// The nearest first. Each is asked once: round-trip times change while one looks, and an order that changes
/// while it is sorted by is a panic of the standard library.
pub(crate) fn sort_by_rtt<T>(servers: &mut [T], rtt: impl FnMut(&T) -> Duration) {
    servers.sort_by_cached_key(rtt);
}

/// The next pause between attempts: doubled, from 0.1 to 2 s.
pub(crate) fn next_pause(pause: Duration) -> Duration {
    (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)
}

/// First pause after a lost session.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause: what a user who comes back online waits at most.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn round_trip_times_may_change_while_they_are_sorted() {
        let mut servers: Vec<u64> = (0..100).collect();
        let mut asked = 0;
        sort_by_rtt(&mut servers, |server| {
            asked += 1;
            ms((server * 37 + asked * asked * 7) % 101)
        });
        assert_eq!(asked, 100);
        servers.sort_unstable();
        assert_eq!(servers, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_small_or_noisy_gain_moves_nobody() {
        assert!(!is_worth_a_move(ms(2), ms(1)));
        assert!(!is_worth_a_move(ms(100), ms(80)));
        assert!(!is_worth_a_move(ms(10), ms(20)));
        assert!(is_worth_a_move(ms(80), ms(4)));
    }

    #[test]
    fn two_servers_never_both_look_better_than_the_other() {
        for a in 0..200 {
            for b in 0..200 {
                assert!(!(is_worth_a_move(ms(a), ms(b)) && is_worth_a_move(ms(b), ms(a))));
            }
        }
    }

    #[test]
    fn a_path_that_doubled_is_looked_at() {
        assert!(has_decayed(ms(20), ms(50)));
        assert!(!has_decayed(ms(2), ms(10)));
    }
}
