//! Which server is the best parent, and when another is worth a move. Pure.

use std::time::Duration;

/// A move must save at least this part of the round trip: below, noise would make us wander.
const GAIN_PERCENT_MIN: u32 = 30;
/// And at least this much: a move costs a revalidation of the watched directories.
const GAIN_MIN: Duration = Duration::from_millis(3);

/// A move from one server to another, by their round trips.
#[derive(Debug, Clone, Copy)]
struct Move {
    from: Duration,
    to: Duration,
}

impl Move {
    fn is_worth_it(self) -> bool {
        let gain = self.from.saturating_sub(self.to);
        gain >= GAIN_MIN && gain * 100 >= self.from * GAIN_PERCENT_MIN
    }
}

/// Why a client that is connected leaves its server for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw {
    /// The user chose the other.
    ByHand,
    /// It is so much nearer.
    Nearer,
    /// It is about as near, and the one that all clients of the site take.
    Shared,
}

/// A server as a client at another one sees it: how far it is, and where it stands in the order that all clients share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen<R> {
    pub(crate) rtt: Duration,
    pub(crate) rank: R,
}

/// What draws a client to another server, when the nearest of all is as far as `nearest`.
///
/// It cannot go round in a circle: whoever is at a server to which he was drawn because it is shared is within half of what a
/// move must save of the nearest, so nothing near draws him away, and each such move goes down in `rank`.
pub(crate) fn draw<R: Ord>(parent: &Seen<R>, other: &Seen<R>, nearest: Duration) -> Option<Draw> {
    if (Move { from: parent.rtt, to: other.rtt }).is_worth_it() {
        return Some(Draw::Nearer);
    }
    let more = other.rtt.saturating_sub(nearest.min(parent.rtt)) * JOIN_MARGIN;
    let is_as_near = more < GAIN_MIN || more * 100 < other.rtt * GAIN_PERCENT_MIN;
    (other.rank < parent.rank && is_as_near).then_some(Draw::Shared)
}

/// A server that is joined is at most this part of what a move must save farther than the nearest: half of it is kept for noise.
const JOIN_MARGIN: u32 = 2;
/// Who left a server for a nearer one does not join it again for so long, however alike the two look meanwhile: load that comes and
/// goes makes far servers look as near as others.
pub(crate) const JOIN_PAUSE: Duration = Duration::from_secs(3600);

/// Round trips over the path to the parent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathRtt {
    pub(crate) when_chosen: Duration,
    pub(crate) now: Duration,
}

impl PathRtt {
    /// Whether the path has become so much worse since it was chosen that others should be measured soon.
    pub(crate) fn has_decayed(self) -> bool {
        self.now > self.when_chosen * 2 && self.now > self.when_chosen + Duration::from_millis(20)
    }
}

/// How often in a row another server must be worth a move, both measured anew at the same time: what a busy machine, or a
/// busy line, does to one round trip is over, or the same for both, in another.
pub(crate) const ROUNDS: usize = 3;
/// Pause between two of these rounds.
pub(crate) const ROUND_PAUSE: Duration = Duration::from_secs(1);

/// More than this a busy machine adds to a round trip hardly ever: on two cores with fifty programs at work, 50 ms were seen.
const NOISE_MAX: Duration = Duration::from_millis(100);
/// How often servers are measured before one is chosen that looks nearer, or a client moves to it; the least counts. What a busy machine
/// adds to one round trip it seldom adds to all: of two servers on one machine at a load of 16 one looked so much nearer three times
/// in a row at one in 20 tries, with the least of 4 in the later rounds at one in 120, with that of 5 never. Another look costs some 30 ms.
pub(crate) const LOOKS_MAX: usize = 5;

/// Whether noise may be why the server that all would take is not about as near as the nearest: another measurement tells.
pub(crate) fn is_contested<R: Ord>(measured: impl IntoIterator<Item = (Duration, R)>) -> bool {
    let measured: Vec<(Duration, R)> = measured.into_iter().collect();
    let nearest = measured.iter().map(|(rtt, _)| *rtt).min().unwrap_or_default();
    let first = measured.iter().min_by(|(_, one), (_, other)| one.cmp(other)).map_or(nearest, |(rtt, _)| *rtt);
    Move { from: first, to: nearest }.is_worth_it() && first - nearest < NOISE_MAX
}

/// The best first: of those that are about as near as the nearest (nobody who is there would move for it) the one that all
/// machines choose, whatever noise they see: by `rank`. Behind them the others by their round trips. Each is measured once:
/// round-trip times change while one looks.
pub(crate) fn in_order_of_choice<T, R: Ord>(
    servers: Vec<T>,
    rtt: impl Fn(&T) -> Duration,
    rank: impl Fn(&T) -> R,
) -> Vec<T> {
    let mut measured: Vec<(Duration, T)> = servers.into_iter().map(|server| (rtt(&server), server)).collect();
    let nearest = measured.iter().map(|(rtt, _)| *rtt).min().unwrap_or_default();
    measured.sort_by_cached_key(|(rtt, server)| {
        let is_farther = Move { from: *rtt, to: nearest }.is_worth_it();
        (is_farther, if is_farther { *rtt } else { Duration::ZERO }, rank(server))
    });
    measured.into_iter().map(|(_, server)| server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Recorded round trips, a series of milliseconds a line.
    const RECORDED: &str = include_str!("fixtures/rtt.txt");

    /// The same on a busy machine, to a server on it.
    const BUSY: &str = include_str!("fixtures/rtt-busy.txt");

    fn recorded() -> Vec<Vec<Duration>> {
        series(RECORDED)
    }

    fn series(text: &str) -> Vec<Vec<Duration>> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let number = |text: &str| Duration::from_secs_f64(text.parse::<f64>().unwrap() / 1e3);
        lines.map(|line| line.split(' ').map(number).collect()).collect()
    }

    /// Proves [S-same-server].
    #[test]
    fn clients_of_one_site_choose_the_same_of_two_servers_that_are_as_near() {
        let (mut nearest, mut chosen, mut count) = (0, 0, 0);
        for series in recorded() {
            // Four measurements of one path: of two servers, by two clients.
            for measured in series.chunks_exact(4) {
                let by_rank =
                    |pair: &[Duration]| in_order_of_choice(vec![1, 0], |server| pair[*server], |server| *server)[0];
                count += 1;
                chosen += usize::from(by_rank(&measured[..2]) == by_rank(&measured[2..]));
                nearest += usize::from((measured[0] <= measured[1]) == (measured[2] <= measured[3]));
            }
        }
        assert!(nearest * 10 < count * 6, "the nearest is a matter of luck: {nearest} of {count}");
        assert!(chosen * 100 >= count * 99, "they differ too often: {chosen} of {count}");
    }

    #[test]
    fn noise_moves_nobody_and_a_real_gain_does() {
        for series in recorded() {
            let moves = |gain: u32| series.chunks_exact(MEASURED).filter(|measured| moves(measured, gain)).count();
            assert_eq!(moves(1), 0, "two servers behind one path");
            let (found, looked) = (moves(2), series.len() / MEASURED);
            assert!(found * 100 >= looked * 95, "one twice as far is left: {found} of {looked}");
        }
    }

    /// Round trips of two servers that are measured before a move, those of one between those of the other.
    const MEASURED: usize = 2 * (1 + (ROUNDS - 1) * LOOKS_MAX);

    /// Whether a client leaves the first server for the second, if the first were so many times as far as it is.
    fn moves(measured: &[Duration], gain: u32) -> bool {
        let (first, later) = measured.split_at(2);
        let least = |of: &[Duration], server| of.iter().skip(server).step_by(2).min().copied().unwrap();
        let is_worth = |of: &[Duration]| Move { from: least(of, 0) * gain, to: least(of, 1) }.is_worth_it();
        is_worth(first) && later.chunks_exact(2 * LOOKS_MAX).all(is_worth)
    }

    /// Proves [S-same-server].
    #[test]
    fn a_busy_machine_moves_nobody() {
        for series in series(BUSY) {
            let moved = series.windows(MEASURED).filter(|measured| moves(measured, 1)).count();
            assert_eq!(moved, 0, "of {}", series.len());
        }
    }

    #[test]
    fn a_difference_that_noise_may_have_made_is_looked_at_again() {
        assert!(is_contested([(ms(1), "home"), (ms(8), "a station")]), "one that all would take, and is farther");
        assert!(!is_contested([(ms(8), "home"), (ms(1), "a station")]), "it is the nearest");
        assert!(!is_contested([(ms(1), "home"), (ms(3), "a station")]), "it is taken");
        assert!(!is_contested([(ms(1), "home"), (ms(140), "a station")]), "no noise is so loud");
        assert!(!is_contested::<&str>([]));
    }

    #[test]
    fn who_is_much_farther_is_behind() {
        let rtts = [ms(30), ms(4), ms(5), ms(12)];
        let order = in_order_of_choice(vec![0, 1, 2, 3], |server| rtts[*server], |server| std::cmp::Reverse(*server));
        assert_eq!(order, [2, 1, 3, 0]);
        assert!(in_order_of_choice(Vec::<usize>::new(), |_| ms(1), |server| *server).is_empty());
    }

    #[test]
    fn a_small_or_noisy_gain_moves_nobody() {
        assert!(!Move { from: ms(2), to: ms(1) }.is_worth_it());
        assert!(!Move { from: ms(100), to: ms(80) }.is_worth_it());
        assert!(!Move { from: ms(10), to: ms(20) }.is_worth_it());
        assert!(Move { from: ms(80), to: ms(4) }.is_worth_it());
    }

    #[test]
    fn two_servers_never_both_look_better_than_the_other() {
        for a in 0..200 {
            for b in 0..200 {
                assert!(
                    !(Move { from: ms(a), to: ms(b) }.is_worth_it() && Move { from: ms(b), to: ms(a) }.is_worth_it())
                );
            }
        }
    }

    /// Where a client ends that is at `parent`, by the rules of [`draw`] and [`in_order_of_choice`]; how many moves it took.
    fn settles(rtts: &[Duration], mut parent: usize) -> (usize, usize) {
        let nearest = rtts.iter().copied().min().unwrap();
        let seen = |server: usize| Seen { rtt: rtts[server], rank: server };
        for moves in 0..=2 * rtts.len() {
            let others = (0..rtts.len()).filter(|server| *server != parent).collect();
            let order = in_order_of_choice(others, |server| rtts[*server], |server| *server);
            match order.into_iter().find(|other| draw(&seen(parent), &seen(*other), nearest).is_some()) {
                Some(other) => parent = other,
                None => return (parent, moves),
            }
        }
        panic!("it goes round in a circle: {rtts:?}");
    }

    /// Proves [S-same-server].
    #[test]
    fn clients_that_are_connected_come_together_at_one_server_and_stay_there() {
        for distances in [[1, 2, 40], [2, 1, 3], [40, 1, 2], [40, 41, 42], [90, 40, 44]] {
            let rtts = distances.map(ms);
            let ends: Vec<usize> = (0..3).map(|parent| settles(&rtts, parent).0).collect();
            let chosen = in_order_of_choice(vec![0, 1, 2], |server| rtts[*server], |server| *server)[0];
            assert_eq!(ends, [chosen; 3], "{distances:?}");
        }
    }

    #[test]
    fn no_distances_send_a_client_round_in_a_circle() {
        for a in 0..60 {
            for b in 0..60 {
                for c in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
                    for parent in 0..3 {
                        assert!(settles(&[ms(a), ms(b), ms(c)], parent).1 <= 3, "{a}, {b}, {c} from {parent}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_noise_adds_brings_nobody_back_from_where_he_was_drawn() {
        // A server that is joined at the edge of what is as near, and looks farther by half of what a move must save.
        for nearest in 1..200 {
            let joined = (0..400).rev().map(ms).find(|other| {
                draw(&Seen { rtt: ms(nearest), rank: 1 }, &Seen { rtt: *other, rank: 0 }, ms(nearest)).is_some()
            });
            let joined = joined.expect("one that is as near");
            let noise = Duration::from_micros(1400);
            assert!(!Move { from: joined + noise, to: ms(nearest) }.is_worth_it(), "{nearest} ms and {joined:?}");
        }
    }

    #[test]
    fn a_path_that_doubled_is_looked_at() {
        assert!(PathRtt { when_chosen: ms(20), now: ms(50) }.has_decayed());
        assert!(!PathRtt { when_chosen: ms(2), now: ms(10) }.has_decayed());
    }
}
