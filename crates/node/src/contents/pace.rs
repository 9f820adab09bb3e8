//! How many chunks are asked for at once: as many as keep the line busy.
//!
//! On a thin line each chunk more makes all that are under way later, those that somebody waits for among them; on a long fast one
//! too few leave it idle for a round trip. What a line brings is seen while chunks come over it.
//!
//! A line over which nothing came yet **opens**: the transport sends twice as much in each round trip, and no more than it was asked
//! for. What comes meanwhile says how far it has opened, not what it carries, so the window doubles, too, from answer to answer, as long
//! as more comes each time.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wayfs_content::CHUNK_AVG;

/// Fewest: the next one is on its way while one is checked and stored.
const MIN: usize = 2;
/// Most: 16 MiB are what a line of 200 Mb/s has under way in 600 ms. A server keeps fewer than a hundred chunks in memory.
const MAX: usize = 64;
/// While nothing is known of the line: a second of a line of 8 Mb/s.
pub(crate) const UNKNOWN: usize = 4;
/// Fewer bytes tell more about the round trip than about the line.
const MEASURED_LEN_MIN: u64 = 64 << 10;
/// Round trips' worth that is asked for: a line that carries more than was seen is found to do so.
const ROUND_TRIPS: u32 = 2;
/// What is asked for beyond them. Chunks differ in length by a factor of sixteen.
const RESERVE: Duration = Duration::from_secs(1);
/// What is asked for of a line that opens comes within this time, at the rate seen last. More would be a queue on a thin one.
const OPENING_MAX: Duration = Duration::from_secs(10);
/// A line has opened when what comes grew by less than a quarter in so many windows.
const STILL_MAX: u32 = 2;
/// Answers of which the quickest tells how far away contents are: the others waited for their turn on the line.
const ANSWERS: usize = 16;

/// What a line brings, once that was seen. A leaf in the order of locks.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Bytes per second.
    rate: Option<u64>,
    /// From a question to the beginning of its answer, the newest last.
    answers: VecDeque<Duration>,
    opening: Opening,
}

/// How far a line has opened.
#[derive(Debug)]
struct Opening {
    /// Chunks that are to be under way.
    window: usize,
    /// How often it was looked at. What was asked for before says nothing of the present window.
    round: Round,
    best: u64,
    still: u32,
}

/// When something was asked for, by how far the line had opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round(u32);

impl Default for Opening {
    fn default() -> Self {
        Self { window: UNKNOWN, round: Round(0), best: 0, still: 0 }
    }
}

impl Opening {
    /// What was asked for in a round came at this rate.
    fn note(&mut self, asked: Round, rate: u64) {
        if asked != self.round || self.is_over() {
            return;
        }
        self.round.0 += 1;
        if rate > self.best + self.best / 4 {
            (self.best, self.still) = (rate, 0);
            self.window = (self.window * 2).min(MAX);
        } else {
            self.still += 1;
        }
    }

    fn is_over(&self) -> bool {
        self.still >= STILL_MAX
    }

    /// Chunks that are to be under way while it opens.
    fn at_once(&self, rate: u64) -> Option<usize> {
        let is_thin = (self.window * CHUNK_AVG) as f64 > rate as f64 * OPENING_MAX.as_secs_f64();
        (!self.is_over() && !is_thin).then_some(self.window)
    }
}

impl Pace {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So long after the question a chunk began to come. Whoever gives it may have to get it first, over a longer line than ours to it.
    pub(crate) fn answered(&self, took: Duration) {
        let mut seen = self.seen();
        seen.answers.push_back(took);
        if seen.answers.len() > ANSWERS {
            seen.answers.pop_front();
        }
    }

    /// To be told of with what is asked for now.
    pub(crate) fn round(&self) -> Round {
        self.seen().opening.round
    }

    /// So many bytes of contents came over the line, those of other chunks among them, while one was waited for so long that was asked
    /// for in a round.
    pub(crate) fn note(&self, asked: Round, bytes: u64, took: Duration) {
        if bytes < MEASURED_LEN_MIN {
            return;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let rate = bytes.saturating_mul(1_000_000) / micros;
        let mut seen = self.seen();
        seen.rate = Some(rate);
        seen.opening.note(asked, rate);
    }

    /// How many chunks are to be under way on a line of this round trip.
    pub(crate) fn at_once(&self, rtt: Duration) -> usize {
        let seen = self.seen();
        let Some(rate) = seen.rate else { return UNKNOWN };
        let there_and_back = seen.answers.iter().min().map_or(rtt, |quickest| rtt.max(*quickest));
        let ahead = rate as f64 * (ROUND_TRIPS * there_and_back + RESERVE).as_secs_f64();
        let by_rate = ((ahead / CHUNK_AVG as f64) as usize).clamp(MIN, MAX);
        seen.opening.at_once(rate).map_or(by_rate, |opening| opening.max(by_rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many came over a line of so many bytes per second that is busy all the time.
    fn at_once(rate: u64, rtt: Duration) -> usize {
        let pace = Pace::default();
        for _ in 0..8 {
            let under_way = (pace.at_once(rtt) * CHUNK_AVG) as u64;
            // What is under way comes at the rate of the line, or once in a round trip.
            let took = Duration::from_secs_f64(under_way as f64 / rate as f64).max(rtt);
            pace.note(pace.round(), under_way, took);
        }
        pace.at_once(rtt)
    }

    #[test]
    fn a_thin_line_has_two_and_a_fast_one_sixty_four() {
        let (near, far) = (Duration::from_millis(1), Duration::from_millis(200));
        assert_eq!(at_once(15_000, far), 2, "0.12 Mb/s");
        assert_eq!(at_once(125_000, near), 2, "1 Mb/s");
        assert_eq!(at_once(1_250_000, near), 4, "10 Mb/s");
        assert_eq!(at_once(12_500_000, near), 47, "100 Mb/s");
        assert_eq!(at_once(12_500_000, far), MAX, "and far away");
    }

    #[test]
    fn a_long_line_has_under_way_what_fits_into_it() {
        // Megabits a second, milliseconds there and back.
        for (rate, rtt) in [(1_000, 40), (300, 100), (100, 600)] {
            let (rate, rtt) = (rate * 125_000, Duration::from_millis(rtt));
            let under_way = (at_once(rate, rtt) * CHUNK_AVG) as f64;
            assert!(under_way >= rate as f64 * rtt.as_secs_f64(), "{under_way} bytes on {rate}, {rtt:?}");
        }
    }

    /// A client near its station read over a satellite with two chunks under way: each took a second and more, so what came in a
    /// second was what had been asked for.
    #[test]
    fn what_a_station_gets_from_afar_is_asked_for_as_if_the_line_were_as_long() {
        let (rate, near, far) = (12_500_000, Duration::from_millis(1), Duration::from_millis(600));
        let pace = Pace::default();
        for _ in 0..8 {
            let under_way = (pace.at_once(near) * CHUNK_AVG) as u64;
            let took = Duration::from_secs_f64(under_way as f64 / rate as f64).max(Duration::from_millis(1100));
            pace.answered(far);
            pace.answered(took);
            pace.note(pace.round(), under_way, took);
        }
        let under_way = (pace.at_once(near) * CHUNK_AVG) as f64;
        assert!(under_way >= rate as f64 * far.as_secs_f64(), "{under_way} bytes");
    }

    #[test]
    fn a_thin_line_on_which_all_wait_for_their_turn_is_not_asked_for_more() {
        let pace = Pace::default();
        for _ in 0..32 {
            let under_way = (pace.at_once(Duration::from_millis(80)) * CHUNK_AVG) as u64;
            pace.answered(Duration::from_millis(90));
            pace.answered(Duration::from_secs(9));
            pace.note(pace.round(), under_way, Duration::from_secs_f64(under_way as f64 / 125_000.0));
        }
        assert_eq!(pace.at_once(Duration::from_millis(80)), 2, "1 Mb/s");
    }

    #[test]
    fn a_line_that_became_thin_is_seen_and_so_is_one_that_recovered() {
        let pace = Pace::default();
        pace.note(pace.round(), 4 << 20, Duration::from_millis(40));
        assert_eq!(pace.at_once(Duration::ZERO), MAX);
        pace.note(pace.round(), 4 << 20, Duration::from_secs(300));
        assert_eq!(pace.at_once(Duration::ZERO), 2);
        pace.note(pace.round(), 1 << 20, Duration::from_millis(10));
        assert_eq!(pace.at_once(Duration::ZERO), MAX);
    }

    /// A transport that begins with ten packets and sends twice as much in each round trip, up to what the line carries.
    struct Transport {
        window: f64,
        carries: f64,
    }

    impl Transport {
        /// How many round trips so many bytes take.
        fn send(&mut self, bytes: f64) -> f64 {
            let (mut left, mut trips) = (bytes, 1.0);
            while left > self.window && self.window < self.carries {
                left -= self.window;
                self.window = (self.window * 2.0).min(self.carries);
                trips += 1.0;
            }
            trips + (left / self.carries).min(left / self.window)
        }
    }

    #[test]
    fn a_far_line_opens_as_fast_as_its_transport() {
        let (pace, rtt) = (Pace::default(), Duration::from_millis(600));
        let mut transport = Transport { window: 14_000.0, carries: 7.5e6 };
        let (mut came, mut trips) = (0.0, 0.0);
        while came < 50e6 {
            let bytes = (pace.at_once(rtt) * CHUNK_AVG) as f64;
            let took = transport.send(bytes);
            pace.note(pace.round(), bytes as u64, rtt.mul_f64(took));
            (came, trips) = (came + bytes, trips + took);
        }
        // The line alone takes seven for the bytes, and nine until it is open.
        assert!(trips < 25.0, "{trips} round trips");
        assert_eq!(pace.at_once(rtt), MAX);
    }

    #[test]
    fn what_was_asked_for_before_the_window_opened_does_not_open_it() {
        let (pace, near) = (Pace::default(), Duration::from_millis(1));
        let first = pace.round();
        for _ in 0..UNKNOWN {
            pace.note(first, 1 << 20, Duration::from_millis(900));
        }
        assert_eq!(pace.at_once(near), 2 * UNKNOWN, "the first of them did");
        for _ in 0..STILL_MAX {
            pace.note(pace.round(), 1 << 20, Duration::from_millis(900));
        }
        assert_eq!(pace.at_once(near), UNKNOWN, "it carries no more");
    }

    #[test]
    fn a_small_file_tells_nothing() {
        let pace = Pace::default();
        pace.note(pace.round(), 9_000, Duration::from_secs(1));
        assert_eq!(pace.at_once(Duration::ZERO), UNKNOWN);
    }
}
