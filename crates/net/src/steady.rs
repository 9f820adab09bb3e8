//! The controller of our own: it keeps its rate over losses that no full queue made, and yields to a full queue.
//!
//! Two models in one. **The path**: what it delivers and how long it is (`delivery.rs`); the window is at most twice what
//! keeps it busy. **The others**: when a loss shows a queue that is full (`loss.rs`), somebody else may be in it, and for a
//! while the window follows CUBIC, which is what the others do; it is cut to no less than what keeps the path busy at the
//! rate that it delivered of late. While no loss says so, the window doubles in each round trip as long as no queue is
//! seen, and grows by a quarter while one is.
//!
//! Losses in a burst and scattered ones change nothing: sending less would not bring more through.

use crate::congestion::INITIAL_WINDOW;
use crate::delivery::{Acknowledged, Delivery};
use crate::loss::{LossJudge, Path, Verdict};
use crate::path_state::PathState;
use quinn::congestion::Controller;
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Smallest window, in packets.
const LOWEST_PACKETS: u64 = 4;
/// What CUBIC leaves of a window after a loss, and how fast it grows again: per cubic second, in packets.
const BETA: f64 = 0.7;
const CUBIC: f64 = 0.4;
/// Of what keeps the path busy at the best rate of late, a cut leaves so much at least.
const LEFT_MIN: f64 = 0.6;
/// So long after a full queue lost something, others are taken to be there.
const RIVALS_TIME: Duration = Duration::from_secs(8);
/// Window per product of rate and round trip while nobody else is seen.
const GAIN_ALONE: f64 = 2.0;
/// A window that is wide, in bytes: it grows by half in each round trip and does not double.
const WIDE: f64 = 1e6;
/// A stream of quinn bears 1,024 holes at its receiver and ends the connection at more: so many losses there cannot be while no more packets
/// than this are in flight. A wider window grows by so few packets in a round trip that what is lost until it is known that it was too wide, as
/// many in the first of two round trips and twice as many in the second, leaves room for what the path loses by itself.
const HOLED_PACKETS: f64 = 2000.0;
const MORE_PACKETS: f64 = 256.0;
const _: () = assert!(3.0 * MORE_PACKETS < 1024.0 * 0.8);
/// Longest time a peer may sit on an acknowledgement (QUIC's default).
const ACK_DELAY_MAX: Duration = Duration::from_millis(25);
/// A queue is seen when the quickest round trip of a round is longer than the path by an eighth and this.
const QUEUE_MIN: Duration = Duration::from_millis(4);

/// The growth of CUBIC since its last cut.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    began: Instant,
    /// Window before the cut, and what was left of it, in bytes.
    highest: f64,
    lowest: f64,
}

/// The quickest acknowledgement of a round trip.
#[derive(Debug, Clone, Copy)]
struct Round {
    began: Instant,
    quickest: Duration,
}

pub(crate) struct Steady {
    state: Arc<PathState>,
    delivery: Delivery,
    losses: LossJudge,
    mtu: u64,
    window: f64,
    /// Upper estimate of the bytes in flight; exact after each batch of acknowledgements.
    in_flight: u64,
    /// Most bytes that were ever in flight.
    in_flight_max: u64,
    delivered: u64,
    /// Of the last acknowledgement.
    took: Option<Duration>,
    /// Smoothed over a few.
    rtt: Option<Duration>,
    round: Option<Round>,
    /// Whether the last whole round saw a queue.
    sees_queue: bool,
    epoch: Option<Epoch>,
    /// When a full queue last lost something.
    full_at: Option<Instant>,
    now: Instant,
}

impl Steady {
    pub(crate) fn new(state: Arc<PathState>, now: Instant, mtu: u16) -> Self {
        Self {
            state,
            delivery: Delivery::default(),
            losses: LossJudge::default(),
            mtu: u64::from(mtu),
            window: INITIAL_WINDOW as f64,
            in_flight: 0,
            in_flight_max: 0,
            delivered: 0,
            took: None,
            rtt: None,
            round: None,
            sees_queue: false,
            epoch: None,
            full_at: None,
            now,
        }
    }

    fn has_rivals(&self, now: Instant) -> bool {
        self.full_at.is_some_and(|at| now.saturating_duration_since(at) < RIVALS_TIME)
    }

    /// What keeps the path busy, in bytes.
    fn filling(&self, gain: f64, more: Duration) -> f64 {
        gain * self.delivery.rate() * (self.delivery.rtt() + more).as_secs_f64()
    }

    fn note_round_trip(&mut self, now: Instant, took: Duration) {
        self.took = Some(took);
        self.rtt = Some(self.rtt.map_or(took, |rtt| (rtt * 3 + took) / 4));
        let path = self.delivery.rtt();
        let round = self.round.get_or_insert(Round { began: now, quickest: took });
        round.quickest = round.quickest.min(took);
        if now.saturating_duration_since(round.began) >= round.quickest {
            self.sees_queue = round.quickest > path + path / 8 + QUEUE_MIN;
            self.round = Some(Round { began: now, quickest: took });
        }
    }

    fn grow(&mut self, now: Instant, bytes: u64) {
        let bytes = bytes as f64;
        if !self.has_rivals(now) {
            self.epoch = None;
            let share: f64 = if self.sees_queue {
                0.25
            } else if self.window > WIDE {
                0.5
            } else {
                1.0
            };
            self.window += bytes * share.min(self.share_max());
            let most = self.filling(GAIN_ALONE, ACK_DELAY_MAX).max(INITIAL_WINDOW as f64);
            self.window = self.window.min(most);
            return;
        }
        let mtu = self.mtu as f64;
        let rtt = self.rtt.unwrap_or_default().as_secs_f64();
        let Some(Epoch { began, highest, lowest }) = self.epoch else { return };
        let since = now.saturating_duration_since(began).as_secs_f64() + rtt;
        let turn = ((highest - lowest).max(0.0) / mtu / CUBIC).cbrt();
        let cubic = highest + CUBIC * (since - turn).powi(3) * mtu;
        // As Reno would, with the same share of each cut.
        let reno = lowest + 3.0 * (1.0 - BETA) / (1.0 + BETA) * since / rtt.max(0.001) * mtu;
        let target = cubic.max(reno).min(1.5 * self.window);
        self.window += ((target - self.window).max(0.0) / self.window * bytes).min(bytes * self.share_max().min(0.5));
    }

    /// Most that the window may grow by per byte that arrived.
    fn share_max(&self) -> f64 {
        let mtu = self.mtu as f64;
        if self.window > HOLED_PACKETS * mtu { MORE_PACKETS * mtu / self.window } else { 1.0 }
    }

    fn cut(&mut self, now: Instant) {
        let least = self.filling(LEFT_MIN, Duration::ZERO).max((LOWEST_PACKETS * self.mtu) as f64);
        // A window that was not full says nothing about the queue.
        let used = self.window.min((self.in_flight_max as f64).max(least));
        // Who gives way before he was back where he was leaves the room to those who came later.
        let highest = match self.epoch {
            Some(epoch) if used < epoch.highest => used * (1.0 + BETA) / 2.0,
            Some(_) | None => used,
        };
        self.window = (used * BETA).max(least);
        self.epoch = Some(Epoch { began: now, highest: highest.max(self.window), lowest: self.window });
    }
}

impl Controller for Steady {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        let before = self.in_flight;
        self.now = now;
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
        let is_little = before < LOWEST_PACKETS * self.mtu;
        self.delivery.on_sent(now, is_little.then_some(before.saturating_add(bytes)));
        self.losses.on_sent(now, bytes);
        self.state.disarm();
        self.state.note_sent(now, bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &quinn_proto::RttEstimator) {
        self.delivered += bytes;
        self.delivery.on_ack(now, Acknowledged { sent, bytes, app_limited, rtt_min: rtt.min() });
        self.losses.on_ack(now, sent, bytes);
        self.note_round_trip(now, now.saturating_duration_since(sent));
        if !app_limited {
            self.grow(now, bytes);
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        (self.in_flight, self.now) = (in_flight, now);
        self.state.disarm();
        let took = self.took.take();
        let rate = self.delivery.rate();
        self.state.note_acked(|view| {
            view.delivered = self.delivered;
            // Saturates where the number is beyond any rate.
            view.rate = (rate > 0.0).then_some(rate as u64);
            view.rate_when_full = self.delivery.rate_when_full();
            view.on_acked(now, took, in_flight);
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, _is_persistent: bool, lost_bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        self.state.update(|view| view.in_flight = view.in_flight.saturating_sub(lost_bytes));
        let path = Path {
            rtt_min: self.delivery.rtt(),
            rtt: self.rtt.unwrap_or_default(),
            rate: self.delivery.rate(),
            mtu: self.mtu,
            is_excused: self.state.take_excuse(),
        };
        // No bytes: a router on the way says that its queue grows.
        let verdict =
            if lost_bytes == 0 { Verdict::FullQueue } else { self.losses.judge(now, sent, lost_bytes, &path) };
        if verdict == Verdict::Scattered && self.window > HOLED_PACKETS * self.mtu as f64 {
            // Too few for a full queue, but each is a hole: what is too much goes, down to where there cannot be too many.
            self.window = (self.window - lost_bytes as f64).max(HOLED_PACKETS * self.mtu as f64);
        }
        if verdict != Verdict::FullQueue {
            return;
        }
        // Once for all that was under way together.
        let is_new = self.full_at.is_none_or(|at| sent > at);
        if is_new {
            self.full_at = Some(now);
            self.cut(now);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = u64::from(new_mtu);
    }

    fn window(&self) -> u64 {
        let lowest = LOWEST_PACKETS * self.mtu;
        // Saturates where the number is beyond any window.
        let mut window = if self.delivery.drains(self.now) { lowest } else { self.window as u64 };
        // After an hour of small frames, the first body would flood the path: a window may only double what was tried.
        window = window.min(self.in_flight_max.saturating_mul(2).max(INITIAL_WINDOW)).max(lowest);
        if self.state.yields() {
            window = window.min(self.delivery.window_yielding(self.now, self.mtu));
        }
        if self.state.is_armed() {
            // The sender asks for strictly more room than two packets may need.
            window.max(self.in_flight.saturating_add(3 * self.mtu))
        } else {
            window
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            state: Arc::clone(&self.state),
            delivery: self.delivery.clone(),
            losses: self.losses.clone(),
            ..*self
        })
    }

    fn initial_window(&self) -> u64 {
        INITIAL_WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests;
