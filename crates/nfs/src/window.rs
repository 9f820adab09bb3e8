//! How many calls may be in flight: enough that the path is never idle, not so many that they wait in its queue.

use crate::{BlockSize, Sending};
use std::collections::BTreeMap;
use std::time::Duration;

/// A window that follows round trips.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    calls: f64,
    max: usize,
    /// Shortest round trip of blocks of up to so many bytes (a power of two); forgotten slowly, since the path may have become longer.
    shortest: BTreeMap<u32, Duration>,
}

/// Calls at the beginning, and at least.
const FIRST: f64 = 3.0;
const LEAST: f64 = 2.0;
/// A call that waits behind others for more than that many times its own round trip waits in a queue.
const GROW_BELOW: f64 = 3.0;
const SHRINK_ABOVE: f64 = 5.0;
/// The same for blocks longer than this, a few of which fill a queue of 64 KiB.
const LONG: u32 = 8192;
const GROW_BELOW_LONG: f64 = 1.3;
const SHRINK_ABOVE_LONG: f64 = 2.5;
/// What a loss leaves of it: little less, since most losses here are bursts.
const LOSS: f64 = 0.9;
/// Of one block no more than so many losses count: it may have met a server that was away.
const SENDINGS_COUNTED: u32 = 8;
/// Lengths of blocks that are told apart.
const LEN_MIN: u32 = 512;
const LEN_MAX: u32 = 65_536;
/// Per answer: by so much the shortest round trip is forgotten.
const FORGET: f64 = 1.00005;

impl Window {
    /// At most `max` calls, at least one.
    pub const fn new(max: usize) -> Self {
        Self { calls: FIRST, max, shortest: BTreeMap::new() }
    }

    /// Calls that may be in flight.
    pub fn calls(&self) -> usize {
        (self.calls as usize).clamp(1, self.max.max(1))
    }

    /// A call of the transfer had to be sent again: perhaps a queue was full.
    pub fn on_loss(&mut self) {
        self.calls = (self.calls * LOSS).max(LEAST.min(self.max.max(1) as f64));
    }

    /// Blocks became longer by this ratio: as many bytes as before stay in flight.
    fn on_longer_blocks(&mut self, ratio: f64) {
        self.calls = (self.calls / ratio).max(LEAST.min(self.max.max(1) as f64));
    }

    /// What is known of blocks of that length, or the most that it can be by what is known of others.
    fn shortest_of(&self, class: u32) -> Option<Duration> {
        let known = self.shortest.range(..=class).next_back();
        let scaled = known.map(|(of, shortest)| shortest.mul_f64(f64::from(class) / f64::from(*of)));
        scaled.or_else(|| self.shortest.first_key_value().map(|(_, shortest)| *shortest))
    }

    /// A call of the transfer with a block of `len` bytes was answered `round_trip` after its only sending.
    pub(crate) fn on_answer(&mut self, len: u32, round_trip: Duration) {
        let class = len.clamp(LEN_MIN, LEN_MAX).next_power_of_two();
        let known = self.shortest_of(class);
        let shortest = known.map_or(round_trip, |shortest| shortest.mul_f64(FORGET).min(round_trip));
        self.shortest.insert(class, shortest);
        let stretched = round_trip.as_secs_f64() / shortest.as_secs_f64().max(1e-6);
        let (grow_below, shrink_above) =
            if class > LONG { (GROW_BELOW_LONG, SHRINK_ABOVE_LONG) } else { (GROW_BELOW, SHRINK_ABOVE) };
        if stretched < grow_below {
            // Doubles in a round trip while it is small.
            self.calls += if self.calls < 16.0 { 0.5 } else { 4.0 / self.calls };
        } else if stretched > shrink_above {
            self.calls -= 1.0 / self.calls;
        }
        let most = self.max.max(1) as f64 + 0.5;
        self.calls = self.calls.clamp(LEAST.min(most), most);
    }
}

/// A block that was answered.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredBlock {
    /// Its bytes.
    pub len: u32,
    /// How often it was sent.
    pub sendings: u32,
    /// How long after its only sending the answer came; `None` if it was sent more than once.
    pub round_trip: Option<Duration>,
}

/// Takes in what a block tells of the path.
pub fn learn(block: &mut BlockSize, window: &mut Window, answered: AnsweredBlock) {
    let AnsweredBlock { len, sendings, round_trip } = answered;
    let (before, sendings) = (block.size(), sendings.min(SENDINGS_COUNTED));
    for sending in 1..=sendings {
        block.on_sending(len, if sending < sendings { Sending::Lost } else { Sending::Answered });
    }
    match round_trip {
        Some(round_trip) => window.on_answer(len, round_trip),
        None => window.on_loss(),
    }
    if block.size() > before {
        window.on_longer_blocks(f64::from(block.size()) / f64::from(before.max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_path_gets_a_few_calls_and_a_long_one_many() {
        // One call takes 40 ms of the channel: `n` in flight take `n` times that.
        let mut narrow = Window::new(64);
        narrow.on_answer(4096, Duration::from_millis(40));
        for _ in 0..500 {
            narrow.on_answer(4096, Duration::from_millis(40) * narrow.calls() as u32);
        }
        assert!((2..=5).contains(&narrow.calls()), "{narrow:?}");
        let mut long = Window::new(64);
        for _ in 0..2000 {
            long.on_answer(4096, Duration::from_millis(200));
        }
        assert_eq!(long.calls(), 64);
        for _ in 0..100 {
            long.on_loss();
        }
        assert_eq!(long.calls(), 2);
        let mut single = Window::new(1);
        for _ in 0..10 {
            single.on_answer(4096, Duration::from_millis(40));
        }
        assert_eq!(single.calls(), 1);
    }
    #[test]
    fn longer_blocks_take_no_more_of_the_queue() {
        let mut window = Window::new(64);
        let trip = |calls: usize, len: u32| Duration::from_millis(10 * u64::from(len) / 1024) * calls as u32;
        window.on_answer(8192, trip(1, 8192));
        for _ in 0..500 {
            window.on_answer(8192, trip(window.calls(), 8192));
        }
        let in_flight = window.calls() as u32 * 8192;
        window.on_longer_blocks(2.0);
        for _ in 0..500 {
            window.on_answer(16_384, trip(window.calls(), 16_384));
        }
        assert!((2..=3).contains(&window.calls()), "{window:?}");
        // Shorter ones again: a queue of longer ones was no longer path.
        for _ in 0..500 {
            window.on_answer(4096, trip(window.calls(), 4096));
        }
        assert!(window.calls() as u32 * 4096 <= in_flight, "{window:?}");
    }
}
