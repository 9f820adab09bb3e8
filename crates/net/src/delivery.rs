//! How fast the path really delivers, whatever the timing of single acknowledgements.
//!
//! Quinn's BBR takes the rate between one acknowledgement and the next for the bandwidth.
//! Wireless hops and busy machines deliver acknowledgements in bunches, and a bunch looks
//! like a very fast path: the window grows to hundreds of times what the path holds, and the
//! next frame stands behind seconds of queue. So the rate is measured here as BBR's authors
//! do it: from the moment a packet was sent to the moment it was acknowledged, how much else
//! was delivered? That time is never shorter than a round trip, so a bunch cannot deceive it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long the best rate is remembered at least; up to twice that. Long enough to outlive
/// BBR's own pauses, short enough to follow a path that became slower.
const MEMORY: Duration = Duration::from_secs(5);
/// Sendings remembered at once. When there are more, some are not, which makes the measured
/// time longer and the rate lower for those, and the best of many is taken anyway.
const SENDINGS_LEN_MAX: usize = 4096;
/// Longest time a peer may sit on an acknowledgement (QUIC's default).
const ACK_DELAY_MAX: Duration = Duration::from_millis(25);
/// Window per product of rate and round trip. Anything from 2 on lets a window double in
/// each round trip while the path gives more; the rest is queue, and 3 is what BBR needs.
const GAIN: f64 = 3.0;
/// The same for those who yield. What is above 1 is the queue that remains; it lets the rate grow by as much in each
/// round trip when the path has become faster.
const GAIN_YIELDING: f64 = 1.25;

/// Measures one path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delivery {
    delivered: u64,
    /// When something was sent, and how much had been delivered before.
    sendings: VecDeque<(Instant, u64)>,
    /// Best rates, in bytes per second, of the present and the last stretch of [`MEMORY`].
    best: f64,
    best_before: f64,
    stretch_began: Option<Instant>,
    rtt_min: Duration,
    /// When a queue was last seen.
    full_at: Option<Instant>,
    is_full: bool,
}

impl Delivery {
    pub(crate) fn on_sent(&mut self, now: Instant) {
        if self.sendings.len() < SENDINGS_LEN_MAX {
            self.sendings.push_back((now, self.delivered));
        }
    }

    pub(crate) fn on_ack(&mut self, now: Instant, ack: Acknowledged) {
        self.delivered += ack.bytes;
        self.rtt_min = ack.rtt_min;
        // A window of [`GAIN_YIELDING`] fills a longer queue than this, so what it limits goes on to look full.
        let is_late = now.saturating_duration_since(ack.sent) > ack.rtt_min + ack.rtt_min / 8 + ACK_DELAY_MAX;
        if is_late && !ack.app_limited {
            self.full_at = Some(now);
        }
        self.is_full = self.full_at.is_some_and(|at| now.saturating_duration_since(at) < 2 * MEMORY);
        while self.sendings.get(1).is_some_and(|(at, _)| *at <= ack.sent) {
            self.sendings.pop_front();
        }
        let Some((at, before)) = self.sendings.front().filter(|(at, _)| *at <= ack.sent) else { return };
        let took = now.saturating_duration_since(*at).max(ack.rtt_min);
        if took.is_zero() {
            return;
        }
        let rate = (self.delivered - before) as f64 / took.as_secs_f64();
        // A sender with nothing to send learns nothing about the path, and forgets nothing.
        if !ack.app_limited {
            self.turn(now);
        }
        self.best = self.best.max(rate);
    }

    /// The most that should be in flight, in bytes; `None` before anything was delivered.
    pub(crate) fn window_max(&self) -> Option<u64> {
        let rate = self.best.max(self.best_before);
        let window = GAIN * rate * (self.rtt_min + ACK_DELAY_MAX).as_secs_f64();
        // Saturates where the number is beyond any window.
        (rate > 0.0).then_some(window as u64)
    }

    /// The most that should be in flight for those who yield; `None` while the path was not seen full.
    pub(crate) fn window_yielding(&self) -> Option<u64> {
        let rate = self.best.max(self.best_before);
        let window = GAIN_YIELDING * rate * (self.rtt_min + ACK_DELAY_MAX).as_secs_f64();
        // Saturates where the number is beyond any window.
        (self.is_full && rate > 0.0).then_some(window as u64)
    }

    /// Bytes per second that the path delivered when it was full; `None` if it was not seen full lately.
    pub(crate) fn rate_when_full(&self) -> Option<u64> {
        let rate = self.best.max(self.best_before);
        (self.is_full && rate > 0.0).then_some(rate as u64)
    }

    fn turn(&mut self, now: Instant) {
        match self.stretch_began {
            Some(began) if now.saturating_duration_since(began) < MEMORY => {}
            Some(_) => {
                self.best_before = std::mem::take(&mut self.best);
                self.stretch_began = Some(now);
            }
            None => self.stretch_began = Some(now),
        }
    }
}

/// What an acknowledgement of one packet says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledged {
    pub(crate) sent: Instant,
    pub(crate) bytes: u64,
    pub(crate) app_limited: bool,
    pub(crate) rtt_min: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// Sends a packet of 1000 bytes each millisecond, and has them acknowledged in bunches
    /// of the given number.
    fn run(delivery: &mut Delivery, start: Instant, bunch: u32, packets: u32) {
        let sent = |number: u32| start + Duration::from_millis(u64::from(number));
        for number in 0..packets {
            delivery.on_sent(sent(number));
            let waiting = number.saturating_sub(RTT.as_millis() as u32);
            if waiting > 0 && waiting % bunch == 0 {
                for acked in waiting - bunch..waiting {
                    let ack = Acknowledged { sent: sent(acked), bytes: 1000, app_limited: false, rtt_min: RTT };
                    delivery.on_ack(sent(number), ack);
                }
            }
        }
    }

    fn rate(delivery: &Delivery) -> f64 {
        delivery.window_max().unwrap() as f64 / GAIN / (RTT + ACK_DELAY_MAX).as_secs_f64()
    }

    #[test]
    fn nothing_is_known_before_the_first_delivery() {
        let mut delivery = Delivery::default();
        delivery.on_sent(Instant::now());
        assert_eq!(delivery.window_max(), None);
    }

    #[test]
    fn bunches_of_acknowledgements_do_not_look_like_a_fast_path() {
        for bunch in [1, 10, 40] {
            let mut delivery = Delivery::default();
            run(&mut delivery, Instant::now(), bunch, 2000);
            let rate = rate(&delivery);
            assert!((500_000.0..2_100_000.0).contains(&rate), "bunches of {bunch}: {rate}");
        }
    }

    #[test]
    fn a_path_that_became_slower_is_followed() {
        let start = Instant::now();
        let mut delivery = Delivery { best: 1e9, ..Delivery::default() };
        run(&mut delivery, start, 1, 2 * MEMORY.as_millis() as u32 + 1000);
        assert!(rate(&delivery) < 2_100_000.0);
    }

    #[test]
    fn a_path_is_full_when_acknowledgements_are_late_and_for_a_while_after() {
        let (start, mut delivery) = (Instant::now(), Delivery::default());
        let mut ack = |sent_ms: u64, took_ms: u64, app_limited: bool| {
            let sent = start + Duration::from_millis(sent_ms);
            delivery.on_sent(sent);
            let now = sent + Duration::from_millis(took_ms);
            delivery.on_ack(now, Acknowledged { sent, bytes: 1000, app_limited, rtt_min: RTT });
            delivery.window_yielding()
        };
        assert_eq!(ack(0, 40, false), None);
        assert_eq!(ack(100, 60, true), None, "somebody else's queue, perhaps");
        assert!(ack(200, 60, false).is_some());
        assert!(ack(9000, 20, false).is_some());
        assert_eq!(ack(11_000, 20, false), None);
    }

    #[test]
    fn the_rate_of_a_full_path_is_known_while_it_was_full_lately() {
        let (start, mut delivery) = (Instant::now(), Delivery::default());
        let mut rate_after = |sent_ms: u64, took_ms: u64| {
            let sent = start + Duration::from_millis(sent_ms);
            delivery.on_sent(sent);
            let ack = Acknowledged { sent, bytes: 1000, app_limited: false, rtt_min: RTT };
            delivery.on_ack(sent + Duration::from_millis(took_ms), ack);
            delivery.rate_when_full()
        };
        assert_eq!(rate_after(0, 20), None, "a path without a queue may be any number of times faster");
        assert_eq!(rate_after(100, 100), Some(50_000), "the best that was seen");
        assert_eq!(rate_after(11_000, 20), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut delivery = Delivery::default();
        for _ in 0..2 * SENDINGS_LEN_MAX {
            delivery.on_sent(Instant::now());
        }
        assert_eq!(delivery.sendings.len(), SENDINGS_LEN_MAX);
    }
}
