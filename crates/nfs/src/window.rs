//! How many calls may be in flight: enough that the path is never idle, not so many that they wait in its queue.

use std::time::Duration;

/// A window that follows round trips.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    calls: f64,
    max: usize,
    /// Shortest round trip; forgotten slowly, since the path may have become longer.
    shortest: Option<Duration>,
}

/// Calls at the beginning, and at least.
const FIRST: f64 = 3.0;
const LEAST: f64 = 2.0;
/// A call that waits behind others for more than that many times its own round trip waits in a queue.
const GROW_BELOW: f64 = 3.0;
const SHRINK_ABOVE: f64 = 5.0;
/// What a loss leaves of it: little less, since most losses here are bursts.
const LOSS: f64 = 0.9;
/// Per answer: by so much the shortest round trip is forgotten.
const FORGET: f64 = 1.00005;

impl Window {
    /// At most `max` calls, at least one.
    pub const fn new(max: usize) -> Self {
        Self { calls: FIRST, max, shortest: None }
    }

    /// Calls that may be in flight.
    pub fn calls(&self) -> usize {
        (self.calls as usize).clamp(1, self.max.max(1))
    }

    /// A call of the transfer had to be sent again: perhaps a queue was full.
    pub fn on_loss(&mut self) {
        self.calls = (self.calls * LOSS).max(LEAST.min(self.max.max(1) as f64));
    }

    /// A call of the transfer was answered `round_trip` after its only sending.
    pub fn on_answer(&mut self, round_trip: Duration) {
        let shortest = self.shortest.map_or(round_trip, |shortest| shortest.mul_f64(FORGET).min(round_trip));
        self.shortest = Some(shortest);
        let stretched = round_trip.as_secs_f64() / shortest.as_secs_f64().max(1e-6);
        if stretched < GROW_BELOW {
            // Doubles in a round trip while it is small.
            self.calls += if self.calls < 16.0 { 0.5 } else { 4.0 / self.calls };
        } else if stretched > SHRINK_ABOVE {
            self.calls -= 1.0 / self.calls;
        }
        let most = self.max.max(1) as f64 + 0.5;
        self.calls = self.calls.clamp(LEAST.min(most), most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_path_gets_a_few_calls_and_a_long_one_many() {
        // One call takes 40 ms of the channel: `n` in flight take `n` times that.
        let mut narrow = Window::new(64);
        narrow.on_answer(Duration::from_millis(40));
        for _ in 0..500 {
            narrow.on_answer(Duration::from_millis(40) * narrow.calls() as u32);
        }
        assert!((2..=5).contains(&narrow.calls()), "{narrow:?}");
        let mut long = Window::new(64);
        for _ in 0..2000 {
            long.on_answer(Duration::from_millis(200));
        }
        assert_eq!(long.calls(), 64);
        for _ in 0..100 {
            long.on_loss();
        }
        assert_eq!(long.calls(), 2);
        let mut single = Window::new(1);
        for _ in 0..10 {
            single.on_answer(Duration::from_millis(40));
        }
        assert_eq!(single.calls(), 1);
    }
}
