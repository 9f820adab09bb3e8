//! How fast the path really delivers, whatever the timing of single acknowledgements.
//!
//! Quinn's BBR takes the rate between one acknowledgement and the next for the bandwidth.
//! Wireless hops and busy machines deliver acknowledgements in bunches, and a bunch looks
//! like a very fast path: the window grows to hundreds of times what the path holds, and the
//! next frame stands behind seconds of queue. So the rate is measured here as BBR's authors
//! do it: from the moment a packet was sent to the moment it was acknowledged, how much else
//! was delivered? That time is never shorter than a round trip, so a bunch cannot deceive it.
//!
//! Quinn knows the shortest round trip of a connection's whole life. A path that became longer (another relay, a
//! satellite instead of a cable) has a round trip that never comes down to it again: BBR would keep a small part of
//! the path full for as long as the connection lives, and take every acknowledgement for late. So the shortest round trip of
//! the last seconds is measured here, too, from packets with nearly nothing before them. Who has much to send has no such
//! packets, and a long path looks like a long queue to him: if no acknowledgement was quick for ten seconds, the
//! window **drains** for a round trip, and the next packet tells which it is.
//!
//! A path that became slower by much would keep a queue as long as the best rate is remembered, and that queue would pass
//! for a longer path. So what is sent for nobody goes by the rate of the last second or two.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long the best rate is remembered at least; up to twice that. Long enough to outlive
/// BBR's own pauses, short enough to follow a path that became slower.
const MEMORY: Duration = Duration::from_secs(5);
/// The same for the rate that those who yield go by.
const MEMORY_YIELDING: Duration = Duration::from_secs(1);
/// First window of those who yield, in packets.
const YIELDING_PACKETS: u64 = 4;
/// Sendings remembered at once. When there are more, some are not, which makes the measured
/// time longer and the rate lower for those, and the best of many is taken anyway.
const SENDINGS_LEN_MAX: usize = 4096;
/// So long no acknowledgement is quick before the window drains.
const SLOW_MAX: Duration = Duration::from_secs(10);
/// Who heard no acknowledgement for a round trip and this was idle: his queue has gone by itself.
const IDLE_MIN: Duration = Duration::from_millis(500);
/// The window drains no longer, whatever an outage made of the round trips.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Longest time a peer may sit on an acknowledgement (QUIC's default).
const ACK_DELAY_MAX: Duration = Duration::from_millis(25);
/// Window per product of rate and round trip. Anything from 2 on lets a window double in
/// each round trip while the path gives more; the rest is queue, and 3 is what BBR needs.
const GAIN: f64 = 3.0;
/// The same for those who yield. What is above 1 is the queue that remains; it lets the rate grow by as much in each
/// round trip when the path has become faster.
const GAIN_YIELDING: f64 = 1.25;

/// The best of the present and the last stretch of time.
#[derive(Debug, Clone, Copy, Default)]
struct Best {
    present: f64,
    last: f64,
    began: Option<Instant>,
}

impl Best {
    fn get(self) -> f64 {
        self.present.max(self.last)
    }

    fn note(&mut self, rate: f64) {
        self.present = self.present.max(rate);
    }

    /// Begins a new stretch if the present one is as long as this.
    fn turn(&mut self, now: Instant, memory: Duration) {
        match self.began {
            Some(began) if now.saturating_duration_since(began) < memory => return,
            Some(_) => self.last = std::mem::take(&mut self.present),
            None => {}
        }
        self.began = Some(now);
    }
}

#[derive(Debug, Clone, Copy)]
struct Sending {
    at: Instant,
    /// What had been delivered.
    delivered: u64,
    /// What was under way with it, if that was little.
    before: Option<u64>,
}

/// Measures one path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delivery {
    delivered: u64,
    /// When something was sent, and how much had been delivered before.
    sendings: VecDeque<Sending>,
    /// Best rates, in bytes per second, in stretches of [`MEMORY`].
    best: Best,
    /// The same in stretches of [`MEMORY_YIELDING`], from acknowledgements of a sender that always had something to send.
    recent: Best,
    /// The shortest round trip of the connection's life.
    rtt_min: Duration,
    /// Those of the present and the last stretch of [`MEMORY`], without the queue.
    rtt: Option<Duration>,
    rtt_before: Option<Duration>,
    rtt_stretch_began: Option<Instant>,
    acked_at: Option<Instant>,
    /// Since when no acknowledgement was quick, and the quickest of those.
    slow_since: Option<Instant>,
    quickest: Option<Duration>,
    /// The window is low until a packet tells how long the path is, or this moment.
    drains_until: Option<Instant>,
    /// When a queue was last seen.
    full_at: Option<Instant>,
    is_full: bool,
}

impl Delivery {
    /// A packet leaves; `before`: bytes under way with it, if they are few.
    pub(crate) fn on_sent(&mut self, now: Instant, before: Option<u64>) {
        if self.sendings.len() < SENDINGS_LEN_MAX {
            self.sendings.push_back(Sending { at: now, delivered: self.delivered, before });
        }
    }

    pub(crate) fn on_ack(&mut self, now: Instant, ack: Acknowledged) {
        self.delivered += ack.bytes;
        self.rtt_min = ack.rtt_min;
        let rtt_min = self.rtt();
        // A window of [`GAIN_YIELDING`] fills a longer queue than this, so what it limits goes on to look full.
        let is_late = now.saturating_duration_since(ack.sent) > rtt_min + rtt_min / 8 + ACK_DELAY_MAX;
        if is_late && !ack.app_limited {
            self.full_at = Some(now);
        }
        self.watch_quickest(now, now.saturating_duration_since(ack.sent));
        self.is_full = self.full_at.is_some_and(|at| now.saturating_duration_since(at) < 2 * MEMORY);
        while self.sendings.get(1).is_some_and(|sending| sending.at <= ack.sent) {
            self.sendings.pop_front();
        }
        let Some(sending) = self.sendings.front().copied().filter(|sending| sending.at <= ack.sent) else { return };
        if let Some(before) = sending.before.filter(|_| sending.at == ack.sent) {
            self.note_round_trip(now, now.saturating_duration_since(ack.sent), before);
        }
        let took = now.saturating_duration_since(sending.at).max(ack.rtt_min);
        if took.is_zero() {
            return;
        }
        let rate = (self.delivered - sending.delivered) as f64 / took.as_secs_f64();
        // A sender with nothing to send learns nothing about the path, and forgets nothing.
        if !ack.app_limited {
            self.best.turn(now, MEMORY);
            self.recent.turn(now, MEMORY_YIELDING.max(took));
            self.recent.note(rate);
        }
        self.best.note(rate);
    }

    /// The best rate of the last seconds, in bytes per second; zero before anything was delivered.
    pub(crate) fn rate(&self) -> f64 {
        self.best.get()
    }

    /// The best rate of the last second or two, where there was always something to send; else as [`Self::rate`].
    fn rate_recent(&self, now: Instant) -> f64 {
        let is_fresh = |began| now.saturating_duration_since(began) < MEMORY;
        let recent = self.recent.began.filter(|began| is_fresh(*began)).map_or(0.0, |_| self.recent.get());
        if recent > 0.0 { recent.min(self.rate()) } else { self.rate() }
    }

    /// The most that should be in flight, in bytes; `None` before anything was delivered.
    pub(crate) fn window_max(&self) -> Option<u64> {
        let rate = self.rate();
        let window = GAIN * rate * (self.rtt() + ACK_DELAY_MAX).as_secs_f64();
        // Saturates where the number is beyond any window.
        (rate > 0.0).then_some(window as u64)
    }

    /// The most that should be in flight for those who yield. While the path was not seen full that is a few packets at
    /// first and twice as much in each round trip: on a thin path the window that others begin with is seconds of queue.
    pub(crate) fn window_yielding(&self, now: Instant, mtu: u64) -> u64 {
        let full = self.filled(self.rate_recent(now)).filter(|_| self.is_full);
        // Two packets in flight keep a line busy, and let its end acknowledge one while the other is sent.
        full.map_or(YIELDING_PACKETS * mtu + self.delivered, |held| held.max(3 * mtu))
    }

    /// What keeps the path busy and lets it show that it is faster; `None` before anything was delivered.
    pub(crate) fn window_filled(&self) -> Option<u64> {
        self.filled(self.rate())
    }

    fn filled(&self, rate: f64) -> Option<u64> {
        let window = GAIN_YIELDING * rate * (self.rtt() + ACK_DELAY_MAX).as_secs_f64();
        // Saturates where the number is beyond any window.
        (rate > 0.0).then_some(window as u64)
    }

    /// How many times longer the path is than it was in the connection's best moment; 1 and more.
    pub(crate) fn stretch(&self) -> f64 {
        if self.rtt_min.is_zero() { 1.0 } else { self.rtt().as_secs_f64() / self.rtt_min.as_secs_f64() }
    }

    /// The shortest round trip of late, without queue and delayed acknowledgements.
    pub(crate) fn rtt(&self) -> Duration {
        self.rtt.into_iter().chain(self.rtt_before).min().unwrap_or_default().max(self.rtt_min)
    }

    /// Whether the window is to be low until the queue has gone.
    pub(crate) fn drains(&self, now: Instant) -> bool {
        self.drains_until.is_some_and(|until| now < until)
    }

    fn watch_quickest(&mut self, now: Instant, took: Duration) {
        let rtt = self.rtt();
        let was_idle = self.acked_at.replace(now).is_some_and(|at| now.saturating_duration_since(at) > took + IDLE_MIN);
        if was_idle || took <= rtt + rtt / 2 + ACK_DELAY_MAX {
            (self.quickest, self.slow_since) = (None, None);
            return;
        }
        let quickest = self.quickest.map_or(took, |quickest| quickest.min(took));
        self.quickest = Some(quickest);
        let since = *self.slow_since.get_or_insert(now);
        if now.saturating_duration_since(since) > SLOW_MAX {
            (self.quickest, self.slow_since) = (None, None);
            self.drains_until = Some(now + (quickest * 3).min(DRAIN_MAX));
        }
    }

    fn note_round_trip(&mut self, now: Instant, took: Duration, before: u64) {
        let rate = self.rate_recent(now);
        let queue = if rate > 0.0 { Duration::from_secs_f64((before as f64 / rate).min(60.0)) } else { Duration::ZERO };
        match self.rtt_stretch_began {
            Some(began) if now.saturating_duration_since(began) < MEMORY => {}
            Some(_) => {
                self.rtt_before = self.rtt.take();
                self.rtt_stretch_began = Some(now);
            }
            None => self.rtt_stretch_began = Some(now),
        }
        let rtt = took.saturating_sub(queue + ACK_DELAY_MAX);
        if self.drains_until.take().is_some() {
            // That is what it was for: what was known before is of another path, or confirmed.
            (self.rtt, self.rtt_before) = (None, None);
        }
        self.rtt = Some(self.rtt.map_or(rtt, |known| known.min(rtt)));
    }

    /// Bytes per second that the path delivered when it was full; `None` if it was not seen full lately.
    pub(crate) fn rate_when_full(&self) -> Option<u64> {
        let rate = self.rate();
        (self.is_full && rate > 0.0).then_some(rate as u64)
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

    fn best(present: f64) -> Best {
        Best { present, ..Best::default() }
    }

    /// Sends a packet of 1000 bytes each millisecond, and has them acknowledged in bunches
    /// of the given number.
    fn run(delivery: &mut Delivery, start: Instant, bunch: u32, packets: u32) {
        let sent = |number: u32| start + Duration::from_millis(u64::from(number));
        for number in 0..packets {
            delivery.on_sent(sent(number), None);
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
        delivery.on_sent(Instant::now(), None);
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
        let mut delivery = Delivery { best: best(1e9), ..Delivery::default() };
        run(&mut delivery, start, 1, 2 * MEMORY.as_millis() as u32 + 1000);
        assert!(rate(&delivery) < 2_100_000.0);
    }

    #[test]
    fn a_path_is_full_when_acknowledgements_are_late_and_for_a_while_after() {
        let (start, mut delivery) = (Instant::now(), Delivery::default());
        let mut ack = |sent_ms: u64, took_ms: u64, app_limited: bool| {
            let sent = start + Duration::from_millis(sent_ms);
            delivery.on_sent(sent, None);
            let now = sent + Duration::from_millis(took_ms);
            delivery.on_ack(now, Acknowledged { sent, bytes: 1000, app_limited, rtt_min: RTT });
            delivery.rate_when_full().is_some()
        };
        assert!(!ack(0, 40, false));
        assert!(!ack(100, 60, true), "somebody else's queue, perhaps");
        assert!(ack(200, 60, false));
        assert!(ack(9000, 20, false));
        assert!(!ack(11_000, 20, false));
    }

    /// A sender that always has something and yields, over a line that becomes thinner after five seconds: bytes in flight each
    /// millisecond, for ten.
    fn in_flight(before: f64, after: f64) -> Vec<u64> {
        const PACKET: u64 = 1200;
        let (start, mut delivery) = (Instant::now(), Delivery::default());
        let (mut on_the_way, mut free_at) = (VecDeque::new(), Duration::ZERO);
        let mut now = Duration::ZERO;
        let change = Duration::from_secs(5);
        let mut in_flight = Vec::new();
        while now < 2 * change {
            now += Duration::from_millis(1);
            while on_the_way.front().is_some_and(|(_, arrives)| *arrives <= now) {
                let (sent, arrives): (Duration, Duration) = on_the_way.pop_front().unwrap();
                let ack = Acknowledged { sent: start + sent, bytes: PACKET, app_limited: false, rtt_min: RTT };
                delivery.on_ack(start + arrives, ack);
            }
            let window = delivery.window_yielding(start + now, PACKET);
            while (on_the_way.len() as u64 + 1) * PACKET < window {
                let rate = if now < change { before } else { after };
                free_at = free_at.max(now) + Duration::from_secs_f64(PACKET as f64 / rate);
                let before = on_the_way.len() as u64 * PACKET;
                delivery.on_sent(start + now, (before < 4 * PACKET).then_some(before + PACKET));
                on_the_way.push_back((now, free_at + RTT));
            }
            in_flight.push(on_the_way.len() as u64 * PACKET);
        }
        in_flight
    }

    #[test]
    fn who_yields_keeps_no_long_queue_where_the_path_became_much_slower() {
        let in_flight = in_flight(200_000.0, 7000.0);
        assert!(in_flight[3000..5000].iter().all(|bytes| *bytes > 200 * 20), "the path is kept busy");
        assert!(in_flight[9000..].iter().all(|bytes| *bytes <= 3 * 1200), "{:?}", in_flight[9000..].iter().max());
    }

    #[test]
    fn who_yields_floods_no_thin_path_before_anything_is_known_of_it() {
        let in_flight = in_flight(7000.0, 7000.0);
        assert!(in_flight.iter().all(|bytes| *bytes <= 4 * 1200), "{:?}", in_flight.iter().max());
    }

    #[test]
    fn the_rate_of_a_full_path_is_known_while_it_was_full_lately() {
        let (start, mut delivery) = (Instant::now(), Delivery::default());
        let mut rate_after = |sent_ms: u64, took_ms: u64| {
            let sent = start + Duration::from_millis(sent_ms);
            delivery.on_sent(sent, None);
            let ack = Acknowledged { sent, bytes: 1000, app_limited: false, rtt_min: RTT };
            delivery.on_ack(sent + Duration::from_millis(took_ms), ack);
            delivery.rate_when_full()
        };
        assert_eq!(rate_after(0, 20), None, "a path without a queue may be any number of times faster");
        assert_eq!(rate_after(100, 100), Some(50_000), "the best that was seen");
        assert_eq!(rate_after(11_000, 20), None);
    }

    /// A packet of 1000 bytes each 100 ms, with as many bytes under way before it.
    fn sparse(delivery: &mut Delivery, start: Instant, packets: u32, took: Duration, before: Option<u64>) -> Instant {
        for number in 0..packets {
            let sent = start + Duration::from_millis(100) * number;
            delivery.on_sent(sent, before);
            delivery.on_ack(sent + took, Acknowledged { sent, bytes: 1000, app_limited: true, rtt_min: RTT });
        }
        start + Duration::from_millis(100) * packets
    }

    #[test]
    fn a_path_that_became_longer_is_followed_and_so_is_one_that_became_shorter() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        let at = sparse(&mut delivery, start, 100, RTT, Some(0));
        assert_eq!(delivery.rtt(), RTT);
        let long = Duration::from_millis(425);
        let at = sparse(&mut delivery, at, 20, long, Some(0));
        assert_eq!(delivery.rtt(), RTT, "a moment's queue of others, perhaps");
        let at = sparse(&mut delivery, at, 100, long, Some(0));
        assert!((delivery.rtt().as_millis() as i64 - 400).abs() < 30, "{:?}", delivery.rtt());
        assert!((15.0..21.0).contains(&delivery.stretch()));
        sparse(&mut delivery, at, 1, RTT, Some(0));
        assert_eq!((delivery.rtt(), delivery.stretch()), (RTT, 1.0), "at once");
    }

    #[test]
    fn who_sends_without_a_pause_drains_to_learn_that_the_path_is_longer() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        let at = sparse(&mut delivery, start, 10, RTT, Some(0));
        let long = Duration::from_millis(425);
        let at = sparse(&mut delivery, at, 105, long, None);
        assert!(delivery.drains(at) && delivery.rtt() == RTT);
        let at = sparse(&mut delivery, at, 1, long, Some(0));
        assert!(!delivery.drains(at) && delivery.rtt() > Duration::from_millis(390));
        let at = sparse(&mut delivery, at, 200, long, None);
        assert!(!delivery.drains(at), "it is known");
        let at = sparse(&mut delivery, at, 1, RTT, None);
        assert_eq!(delivery.rtt(), long - ACK_DELAY_MAX, "not by a packet in a crowd");
        sparse(&mut delivery, at, 1, RTT, Some(0));
        assert_eq!(delivery.rtt(), RTT);
    }

    #[test]
    fn a_slow_burst_after_a_pause_is_no_reason_to_drain() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        let mut at = sparse(&mut delivery, start, 10, RTT, Some(0));
        for _ in 0..5 {
            at = sparse(&mut delivery, at + 2 * SLOW_MAX, 20, Duration::from_millis(200), None);
            assert!(!delivery.drains(at));
        }
    }

    #[test]
    fn a_queue_of_our_own_is_no_longer_path() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        // 7 kB/s: 4800 bytes before it take 0.7 s.
        let at = sparse(&mut delivery, start, 1, Duration::from_millis(143), Some(0));
        let at = sparse(&mut delivery, at, 200, Duration::from_millis(20), None);
        (delivery.best, delivery.recent) = (best(7000.0), Best::default());
        sparse(&mut delivery, at, 200, Duration::from_millis(700), Some(4800));
        assert!(delivery.rtt() < Duration::from_millis(40), "{:?}", delivery.rtt());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut delivery = Delivery::default();
        for _ in 0..2 * SENDINGS_LEN_MAX {
            delivery.on_sent(Instant::now(), None);
        }
        assert_eq!(delivery.sendings.len(), SENDINGS_LEN_MAX);
    }
}
