//! The sending rate, and one packet more when all is silent.
//!
//! **Ours** (`steady.rs`) keeps its rate over losses of the air and yields to a full queue. The others are quinn's, for
//! comparisons: Cubic and NewReno take every loss for a full queue and fall to a thirtieth over 1 % of random loss; BBR
//! models bandwidth and delay, is corrected in [`Probing`], and never yields.
//!
//! **The extra packet.** In an outage, the window is full of packets that nobody will ever
//! acknowledge, and the probe timer doubles, so the end of a 6 s outage is found seconds
//! late. So whoever probes (`silence.rs`) *arms* the controller: the
//! window then has room for one more packet, whatever it is full of. The first such packet
//! after the outage is acknowledged, and with that everything older is known to be lost and
//! is sent again.

use crate::delivery::{Acknowledged, Delivery};
use crate::path_state::PathState;
use crate::steady::Steady;
use quinn::congestion::{BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a connection finds its sending rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Congestion {
    /// Backs off on loss, regains by a cubic curve. Good on clean wired paths.
    Cubic,
    /// Models bandwidth and delay; survives random loss, and does not yield.
    Bbr,
    /// Backs off on loss, regains linearly: the textbook, for comparisons.
    NewReno,
    /// Models bandwidth and delay, keeps its rate over bursts and random loss, and shares a full queue as Cubic does. The
    /// default.
    #[default]
    Steady,
}

/// First window in bytes: 32 full packets, what large web servers send at once today.
/// More would flood a slow hop before anything is known of it.
pub(crate) const INITIAL_WINDOW: u64 = 32 * 1200;

impl Congestion {
    /// Makes the controllers of one connection, which share what they tell it.
    pub(crate) fn factory(self, state: Arc<PathState>) -> Arc<dyn ControllerFactory + Send + Sync> {
        let inner: Arc<dyn ControllerFactory + Send + Sync> = match self {
            Self::Steady => return Arc::new(SteadyFactory(state)),
            Self::Cubic => {
                let mut config = CubicConfig::default();
                config.initial_window(INITIAL_WINDOW);
                Arc::new(config)
            }
            Self::Bbr => {
                let mut config = BbrConfig::default();
                config.initial_window(INITIAL_WINDOW);
                Arc::new(config)
            }
            Self::NewReno => {
                let mut config = NewRenoConfig::default();
                config.initial_window(INITIAL_WINDOW);
                Arc::new(config)
            }
        };
        // The others are known by their behaviour, which comparisons rely on.
        let measures = matches!(self, Self::Bbr);
        Arc::new(ProbingFactory { inner, measures, state })
    }
}

struct SteadyFactory(Arc<PathState>);

impl ControllerFactory for SteadyFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Steady::new(Arc::clone(&self.0), now, current_mtu))
    }
}

struct ProbingFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    measures: bool,
    state: Arc<PathState>,
}

impl ControllerFactory for ProbingFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Probing {
            inner: Arc::clone(&self.inner).build(now, current_mtu),
            in_flight: 0,
            in_flight_max: 0,
            delivered: 0,
            delivery: self.measures.then(Delivery::default),
            mtu: u64::from(current_mtu),
            app_limited: true,
            low_since: None,
            took: None,
            now,
            state: Arc::clone(&self.state),
        })
    }
}

/// BBR's smallest window in packets, which it takes for a moment every ten seconds to let the queue run empty.
const LOWEST_PACKETS: u64 = 4;
/// How long that moment is at most, besides two round trips. A window that stays so low is too low.
const LOWEST_TIME_MAX: Duration = Duration::from_secs(1);

/// Any controller, with room for one packet more while armed, and no window wider than
/// twice what was ever in flight, nor (for BBR) than what the path was seen to deliver. And (for BBR)
/// as much wider than it says as the path has become longer, see `delivery.rs`.
struct Probing {
    inner: Box<dyn Controller>,
    /// Upper estimate of the bytes in flight; exact after each batch of acknowledgements.
    in_flight: u64,
    /// Most bytes that were ever in flight.
    in_flight_max: u64,
    delivered: u64,
    /// What the path delivers; `None` if the window is not to be bounded by it.
    delivery: Option<Delivery>,
    mtu: u64,
    /// Who sends had nothing more to send of late.
    app_limited: bool,
    /// When BBR's window became its smallest.
    low_since: Option<Instant>,
    /// Of the last event.
    now: Instant,
    /// Of the last acknowledgement.
    took: Option<Duration>,
    state: Arc<PathState>,
}

impl Probing {
    /// What BBR would say if it knew how long the path is now.
    fn window_stretched(&self, delivery: &Delivery) -> u64 {
        let window = self.inner.window();
        let lowest = LOWEST_PACKETS * self.mtu;
        if delivery.drains(self.now) {
            return lowest;
        }
        if window > lowest {
            // Saturates where the number is beyond any window.
            return (window as f64 * delivery.stretch()) as u64;
        }
        // Below what it was seen to deliver a path is not kept busy, nor is a short answer in one piece.
        let floor = if self.app_limited { delivery.window_max() } else { delivery.window_filled() };
        let is_moment = |since| self.now.saturating_duration_since(since) < LOWEST_TIME_MAX + 2 * delivery.rtt();
        if !self.app_limited && self.low_since.is_none_or(is_moment) {
            return window;
        }
        window.max(floor.unwrap_or(0).min(INITIAL_WINDOW))
    }
}

impl Controller for Probing {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let before = self.in_flight;
        self.now = now;
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
        self.state.disarm();
        self.state.note_sent(now, bytes);
        if let Some(delivery) = &mut self.delivery {
            let is_little = before < LOWEST_PACKETS * self.mtu;
            delivery.on_sent(now, is_little.then_some(before.saturating_add(bytes)));
        }
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &quinn_proto::RttEstimator) {
        self.delivered += bytes;
        self.took = Some(now.saturating_duration_since(sent));
        if let Some(delivery) = &mut self.delivery {
            delivery.on_ack(now, Acknowledged { sent, bytes, app_limited, rtt_min: rtt.min() });
        }
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        self.in_flight = in_flight;
        self.state.disarm();
        let took = self.took.take();
        self.state.note_acked(|view| {
            view.delivered = self.delivered;
            if let Some(delivery) = &self.delivery {
                // Saturates where the number is beyond any rate.
                view.rate = Some(delivery.rate() as u64).filter(|rate| *rate > 0);
                view.rate_when_full = delivery.rate_when_full();
            }
            view.on_acked(now, took, in_flight);
        });
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        (self.now, self.app_limited) = (now, app_limited);
        let is_low = self.inner.window() <= LOWEST_PACKETS * self.mtu;
        self.low_since = if is_low { self.low_since.or(Some(now)) } else { None };
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        self.state.update(|view| view.in_flight = view.in_flight.saturating_sub(lost_bytes));
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = u64::from(new_mtu);
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        // BBR's first phase widens the window by all that is acknowledged, used or not. After
        // an hour of small frames, the first body would then flood the path: a window may
        // only double what was tried before.
        let tried = self.in_flight_max.saturating_mul(2).max(INITIAL_WINDOW);
        let delivered = self.delivery.as_ref().and_then(Delivery::window_max).unwrap_or(u64::MAX);
        let modelled = self.delivery.as_ref().map_or_else(|| self.inner.window(), |it| self.window_stretched(it));
        let mut window = modelled.min(tried).min(delivered.max(INITIAL_WINDOW));
        if self.state.yields()
            && let Some(delivery) = &self.delivery
        {
            window = window.min(delivery.window_yielding(self.now, self.mtu));
        }
        if self.state.is_armed() {
            // The sender asks for strictly more room than two packets may need.
            window.max(self.in_flight.saturating_add(3 * self.mtu))
        } else {
            window
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            in_flight: self.in_flight,
            in_flight_max: self.in_flight_max,
            delivered: self.delivered,
            delivery: self.delivery.clone(),
            mtu: self.mtu,
            app_limited: self.app_limited,
            low_since: self.low_since,
            now: self.now,
            took: self.took,
            state: Arc::clone(&self.state),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(congestion: Congestion) -> (Arc<PathState>, Box<dyn Controller>) {
        let state = Arc::new(PathState::default());
        (Arc::clone(&state), congestion.factory(state).build(Instant::now(), 1200))
    }

    #[test]
    fn an_armed_controller_has_room_for_one_packet_whatever_is_in_flight() {
        for congestion in [Congestion::Steady, Congestion::Bbr, Congestion::Cubic, Congestion::NewReno] {
            let (state, mut controller) = built(congestion);
            let in_flight = controller.window() + 1_000_000;
            controller.on_sent(Instant::now(), in_flight, 1);
            assert!(controller.window() < in_flight);
            state.arm();
            assert!(controller.window() > in_flight + 2 * 1200);
            controller.on_sent(Instant::now(), 1200, 2);
            assert!(controller.window() < in_flight, "one packet only");
        }
    }

    #[test]
    fn a_window_is_at_most_twice_what_was_tried() {
        let mut controller = Probing {
            inner: Box::new(Boundless),
            in_flight: 0,
            in_flight_max: 0,
            delivered: 0,
            delivery: None,
            mtu: 1200,
            app_limited: true,
            low_since: None,
            now: Instant::now(),
            took: None,
            state: Arc::default(),
        };
        assert_eq!(controller.window(), INITIAL_WINDOW);
        controller.on_sent(Instant::now(), INITIAL_WINDOW, 1);
        assert_eq!(controller.window(), 2 * INITIAL_WINDOW);
        controller.on_end_acks(Instant::now(), 0, true, Some(1));
        controller.on_sent(Instant::now(), 100, 2);
        assert_eq!(controller.window(), 2 * INITIAL_WINDOW);
    }

    /// A controller that sees no limit anywhere.
    struct Boundless;

    impl Controller for Boundless {
        fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}
        fn on_mtu_update(&mut self, _: u16) {}
        fn window(&self) -> u64 {
            u64::MAX
        }
        fn clone_box(&self) -> Box<dyn Controller> {
            Box::new(Self)
        }
        fn initial_window(&self) -> u64 {
            u64::MAX
        }
        fn into_any(self: Box<Self>) -> Box<dyn Any> {
            self
        }
    }
}
