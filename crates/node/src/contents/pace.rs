//! How many chunks are asked for at once: as many as keep the line busy.
//!
//! On a thin line each chunk more makes all that are under way later, those that somebody waits for among them; on a long fast one
//! too few leave it idle for a round trip. What a line brings is seen while chunks come over it.

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

    /// So many bytes of contents came over the line, those of other chunks among them, while one was waited for so long.
    pub(crate) fn note(&self, bytes: u64, took: Duration) {
        if bytes < MEASURED_LEN_MIN {
            return;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let rate = bytes.saturating_mul(1_000_000) / micros;
        self.seen().rate = Some(rate);
    }

    /// How many chunks are to be under way on a line of this round trip.
    pub(crate) fn at_once(&self, rtt: Duration) -> usize {
        let seen = self.seen();
        let Some(rate) = seen.rate else { return UNKNOWN };
        let there_and_back = seen.answers.iter().min().map_or(rtt, |quickest| rtt.max(*quickest));
        let ahead = rate as f64 * (ROUND_TRIPS * there_and_back + RESERVE).as_secs_f64();
        ((ahead / CHUNK_AVG as f64) as usize).clamp(MIN, MAX)
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
            pace.note(under_way, took);
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
            pace.note(under_way, took);
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
            pace.note(under_way, Duration::from_secs_f64(under_way as f64 / 125_000.0));
        }
        assert_eq!(pace.at_once(Duration::from_millis(80)), 2, "1 Mb/s");
    }

    #[test]
    fn a_line_that_became_thin_is_seen_and_so_is_one_that_recovered() {
        let pace = Pace::default();
        pace.note(4 << 20, Duration::from_millis(40));
        assert_eq!(pace.at_once(Duration::ZERO), MAX);
        pace.note(4 << 20, Duration::from_secs(300));
        assert_eq!(pace.at_once(Duration::ZERO), 2);
        pace.note(1 << 20, Duration::from_millis(10));
        assert_eq!(pace.at_once(Duration::ZERO), MAX);
    }

    #[test]
    fn a_small_file_tells_nothing() {
        let pace = Pace::default();
        pace.note(9_000, Duration::from_secs(1));
        assert_eq!(pace.at_once(Duration::ZERO), UNKNOWN);
    }
}
