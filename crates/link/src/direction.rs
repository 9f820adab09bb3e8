//! One direction of a link whose settings stand still: the fate of a packet is known when it is offered.
//!
//! A packet waits in a finite drop-tail queue for the bottleneck, then travels
//! for the propagation delay plus jitter. The simulator uses it for whole
//! frames; [`crate::Medium`] is the same line with packets in it, for what changes
//! while they wait.

use crate::capacity::Bottleneck;
use crate::nanos::Nanos;
use crate::propagation::Propagation;
use crate::{Capacity, DelayTrace, Probability, ReceiverConfig, bit_error_loss};
use rand_chacha::rand_core::RngCore;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::Time;

/// Settings of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionConfig {
    /// Speed of the bottleneck. Default: unlimited.
    pub capacity: Capacity,
    /// Bytes that every packet costs the bottleneck beyond its own (headers of the link). Default 0.
    pub overhead_len: u64,
    /// Shortest time from the begin of one transmission to that of the next: the `g` of the LogGP model, a limit on
    /// packets per second whatever their length. A packet that comes alone is not delayed by it. On a channel that is
    /// shared everyone waits. Default 0.
    pub gap: Duration,
    /// Bytes that may wait for the bottleneck. Default 256 KiB. Zero: only a free line takes a packet.
    pub queue_len_max: u64,
    /// Propagation delay, one way. Default 0.
    pub delay: Duration,
    /// Recorded delay, added to `delay`. Default: none.
    pub delay_trace: Option<Arc<DelayTrace>>,
    /// Added to the delay, uniform in `0..jitter`. Default 0.
    pub jitter: Duration,
    /// Whether jitter may change the order. Default: no.
    pub reordering: bool,
    /// Loss per packet. Default: never.
    pub loss: Probability,
    /// Mean bytes between bit errors; a packet with an error is lost. Default: none.
    pub bytes_per_bit_error: Option<f64>,
    /// Packets that such an error takes: those behind the first are lost, too. [`crate::Medium`] has runs, [`Direction`] has not.
    /// Default 1; zero counts as 1.
    pub error_run: u32,
    /// A packet arrives twice. Default: never.
    pub duplication: Probability,
    /// Receive buffer of a slow host at the far end; [`crate::Medium`] has it, [`Direction`] has not. Default: none.
    pub receiver: Option<ReceiverConfig>,
}

impl Default for DirectionConfig {
    fn default() -> Self {
        Self {
            capacity: Capacity::Unlimited,
            overhead_len: 0,
            gap: Duration::ZERO,
            queue_len_max: 256 * 1024,
            delay: Duration::ZERO,
            delay_trace: None,
            jitter: Duration::ZERO,
            reordering: false,
            loss: Probability::NEVER,
            bytes_per_bit_error: None,
            error_run: 1,
            duplication: Probability::NEVER,
            receiver: None,
        }
    }
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It comes out then.
    Arrives(Time),
    /// It comes out twice.
    ArrivesTwice(Time, Time),
    /// Lost on the way.
    Lost,
    /// The queue was full.
    Dropped,
}

/// What happened so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Packets offered.
    pub sent: u64,
    /// Bytes offered.
    pub sent_len: u64,
    /// Packets lost on the way.
    pub lost: u64,
    /// Packets dropped by the full queue.
    pub dropped: u64,
}

/// The state of one direction.
#[derive(Debug, Clone)]
pub struct Direction {
    config: DirectionConfig,
    bottleneck: Bottleneck,
    /// When the bottleneck may begin with the next packet: it has sent all that it accepted, and kept its gap.
    busy_until: Nanos,
    /// Packets not yet through the bottleneck: when each will be, and its length.
    queue: std::collections::VecDeque<(Nanos, u64)>,
    queue_len: u64,
    propagation: Propagation,
    statistics: Statistics,
}

impl Direction {
    /// An idle direction.
    pub fn new(config: DirectionConfig) -> Self {
        Self {
            bottleneck: Bottleneck::new(config.capacity.clone(), Nanos::ZERO),
            config,
            busy_until: Nanos::ZERO,
            queue: std::collections::VecDeque::new(),
            queue_len: 0,
            propagation: Propagation::default(),
            statistics: Statistics::default(),
        }
    }

    /// The settings.
    pub const fn config(&self) -> &DirectionConfig {
        &self.config
    }

    /// What happened so far.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Bytes waiting for the bottleneck at `now`.
    pub fn queued(&mut self, now: Time) -> u64 {
        while self.queue.front().is_some_and(|(departure, _)| *departure <= now.into()) {
            let (_, len) = self.queue.pop_front().expect("looked at just before");
            self.queue_len -= len;
        }
        self.queue_len
    }

    /// Offers a packet at `now`, which must not run backwards.
    pub fn send(&mut self, now: Time, len: usize, random: &mut impl RngCore) -> Fate {
        self.statistics.sent += 1;
        self.statistics.sent_len += len as u64;
        let waiting = self.queued(now);
        if waiting > 0 && waiting + len as u64 > self.config.queue_len_max {
            self.statistics.dropped += 1;
            return Fate::Dropped;
        }
        let start = self.busy_until.max(now.into());
        let departure = self.bottleneck.departure(start, len as u64 + self.config.overhead_len);
        self.busy_until = departure.max(start + self.config.gap);
        if departure > now.into() {
            self.queue.push_back((departure, len as u64));
            self.queue_len += len as u64;
        }
        if self.is_lost(len, random) {
            self.statistics.lost += 1;
            return Fate::Lost;
        }
        let arrival = self.propagation.arrival(&self.config, departure, random).ceil();
        if self.config.duplication.happens(random) {
            let second = self.propagation.arrival(&self.config, departure, random).ceil();
            return Fate::ArrivesTwice(arrival, second);
        }
        Fate::Arrives(arrival)
    }

    fn is_lost(&self, len: usize, random: &mut impl RngCore) -> bool {
        let by_error = self.config.bytes_per_bit_error.is_some_and(|bytes| bit_error_loss(len, bytes).happens(random));
        by_error || self.config.loss.happens(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn arrivals(config: DirectionConfig, packets: u64) -> Vec<Time> {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut line = Direction::new(config);
        (0..packets)
            .filter_map(|n| match line.send(Time::from_micros(n * 10), 1250, &mut random) {
                Fate::Arrives(at) | Fate::ArrivesTwice(at, _) => Some(at),
                Fate::Lost | Fate::Dropped => None,
            })
            .collect()
    }

    #[test]
    fn the_bottleneck_spaces_packets_out() {
        let config = DirectionConfig {
            capacity: Capacity::Rate(10_000_000),
            delay: Duration::from_millis(5),
            ..Default::default()
        };
        let times: Vec<u64> = arrivals(config, 3).iter().map(|t| t.as_micros()).collect();
        assert_eq!(times, [6000, 7000, 8000]);
    }

    #[test]
    fn packets_keep_the_gap_and_one_alone_does_not_wait() {
        let gap = Duration::from_micros(300);
        let fast = DirectionConfig { gap, ..Default::default() };
        let times: Vec<u64> = arrivals(fast, 3).iter().map(|t| t.as_micros()).collect();
        assert_eq!(times, [0, 300, 600]);
        // A transmission of 1 ms keeps the gap by itself.
        let slow = DirectionConfig { capacity: Capacity::Rate(10_000_000), gap, ..Default::default() };
        let times: Vec<u64> = arrivals(slow, 3).iter().map(|t| t.as_micros()).collect();
        assert_eq!(times, [1000, 2000, 3000]);
    }

    #[test]
    fn a_full_queue_drops_the_tail() {
        let config = DirectionConfig { capacity: Capacity::Rate(1_000_000), queue_len_max: 5000, ..Default::default() };
        assert_eq!(arrivals(config, 100).len(), 4);
    }

    #[test]
    fn jitter_keeps_the_order_unless_told_otherwise() {
        let jitter = Duration::from_millis(20);
        let kept = arrivals(DirectionConfig { jitter, ..Default::default() }, 500);
        assert!(kept.is_sorted());
        let mixed = arrivals(DirectionConfig { jitter, reordering: true, ..Default::default() }, 500);
        assert!(!mixed.is_sorted());
    }

    #[test]
    fn one_seed_is_one_trace() {
        let config = DirectionConfig {
            loss: Probability::new(0.2).unwrap(),
            jitter: Duration::from_millis(1),
            ..Default::default()
        };
        assert_eq!(arrivals(config.clone(), 1000), arrivals(config, 1000));
    }
}
