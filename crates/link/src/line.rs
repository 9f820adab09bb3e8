//! A line: two directions and the periods in which neither passes anything.

use crate::capacity::Bottleneck;
use crate::nanos::Nanos;
use crate::propagation::Propagation;
use crate::{DirectionConfig, Durations, Temporal, TemporalState, bit_error_loss};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::VecDeque;
use std::time::Duration;
use wayfs_types::Time;

/// Streams of random numbers that a line draws from: each way, and the bad periods.
const STREAMS_PER_LINE: u64 = 3;

/// The way that a packet takes over a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the first end to the second (client to server, mobile to base).
    Up,
    /// From the second end to the first.
    Down,
}

impl Way {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }
}

/// Periods in which everything in either direction is lost (see [`Temporal`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPeriods {
    /// Mean length of a good period.
    pub good_mean: Duration,
    /// Mean length of a bad period. Zero: never bad.
    pub bad_mean: Duration,
    /// How lengths are drawn around their mean.
    pub durations: Durations,
}

/// Whether a line is there at all.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum LineState {
    /// It carries packets.
    #[default]
    Connected,
    /// It swallows everything offered and what waits in its queues; what is on its way arrives.
    Cut,
}

/// Settings of a line.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct LineConfig {
    /// From the first end to the second.
    pub up: DirectionConfig,
    /// From the second end to the first.
    pub down: DirectionConfig,
    /// Default: none.
    pub bad_periods: Option<BadPeriods>,
    /// Default: connected.
    pub state: LineState,
}

impl LineConfig {
    /// Both directions alike.
    pub fn symmetric(direction: DirectionConfig) -> Self {
        Self { up: direction.clone(), down: direction, ..Self::default() }
    }

    /// Settings of one direction.
    pub const fn way(&self, way: Way) -> &DirectionConfig {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}

/// What happened in one direction, in packets unless it says bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WayStatistics {
    /// Offered.
    pub offered: u64,
    /// Bytes offered.
    pub offered_len: u64,
    /// Delivered, or on the way and certain to be.
    pub delivered: u64,
    /// Bytes delivered.
    pub delivered_len: u64,
    /// Refused by the full queue.
    pub dropped: u64,
    /// Lost to a bit error.
    pub lost_to_errors: u64,
    /// Lost by the plain dice.
    pub lost_at_random: u64,
    /// Lost because a bad period touched their transmission.
    pub lost_to_bad_periods: u64,
    /// Lost because the line was cut.
    pub lost_to_cuts: u64,
    /// Delivered once more.
    pub duplicated: u64,
    /// Most bytes that ever waited.
    pub queue_len_highest: u64,
}

/// What happened on a line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LineStatistics {
    /// From the first end to the second.
    pub up: WayStatistics,
    /// From the second end to the first.
    pub down: WayStatistics,
    /// Bad periods that ended.
    pub bad_periods: u64,
    /// Their length in total.
    pub bad_time: Duration,
}

/// Why a transmission came to nothing, or did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoiled {
    No,
    ByBadPeriod,
    ByCut,
}

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    pub(crate) len: u64,
    pub(crate) packet: P,
}

/// State of one direction.
#[derive(Debug)]
pub(crate) struct WayState<P> {
    pub(crate) queue: VecDeque<Waiting<P>>,
    /// Bytes waiting, the packet in transmission included.
    pub(crate) queue_len: u64,
    pub(crate) bottleneck: Bottleneck,
    pub(crate) propagation: Propagation,
    random: ChaCha8Rng,
    pub(crate) statistics: WayStatistics,
}

impl<P> WayState<P> {
    fn new(config: &DirectionConfig, random: ChaCha8Rng, now: Time) -> Self {
        Self {
            queue: VecDeque::new(),
            queue_len: 0,
            bottleneck: Bottleneck::new(config.capacity.clone(), now.into()),
            propagation: Propagation::new(now.into()),
            random,
            statistics: WayStatistics::default(),
        }
    }

    /// Arrivals of a packet that is through the bottleneck: none if it is lost, two if it is duplicated.
    pub(crate) fn arrivals(
        &mut self,
        config: &DirectionConfig,
        spoiled: Spoiled,
        departure: Nanos,
        len: u64,
    ) -> [Option<Nanos>; 2] {
        match spoiled {
            Spoiled::No => {}
            Spoiled::ByBadPeriod => {
                self.statistics.lost_to_bad_periods += 1;
                return [None; 2];
            }
            Spoiled::ByCut => {
                self.statistics.lost_to_cuts += 1;
                return [None; 2];
            }
        }
        let errors = config.bytes_per_bit_error.map(|bytes| bit_error_loss(len as usize, bytes));
        if errors.is_some_and(|loss| loss.happens(&mut self.random)) {
            self.statistics.lost_to_errors += 1;
            return [None; 2];
        }
        if config.loss.happens(&mut self.random) {
            self.statistics.lost_at_random += 1;
            return [None; 2];
        }
        self.statistics.delivered += 1;
        self.statistics.delivered_len += len;
        let first = self.propagation.arrival(config, departure, &mut self.random);
        if !config.duplication.happens(&mut self.random) {
            return [Some(first), None];
        }
        self.statistics.duplicated += 1;
        [Some(first), Some(self.propagation.arrival(config, departure, &mut self.random))]
    }
}

/// State of a line.
#[derive(Debug)]
pub(crate) struct Line<P> {
    pub(crate) config: LineConfig,
    pub(crate) ways: [WayState<P>; 2],
    temporal: Option<Temporal>,
    random: ChaCha8Rng,
    /// Present state of the bad periods.
    pub(crate) bad: TemporalState,
    bad_since: Time,
    bad_periods: u64,
    bad_time: Duration,
    pub(crate) schedule: VecDeque<(Time, LineConfig)>,
}

impl<P> Line<P> {
    pub(crate) fn new(config: LineConfig, seed: u64, index: usize, now: Time) -> Self {
        let stream = |number: u64| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(index as u64 * STREAMS_PER_LINE + number);
            random
        };
        let ways = [WayState::new(&config.up, stream(0), now), WayState::new(&config.down, stream(1), now)];
        let mut line = Self {
            config,
            ways,
            temporal: None,
            random: stream(2),
            bad: TemporalState::Good,
            bad_since: now,
            bad_periods: 0,
            bad_time: Duration::ZERO,
            schedule: VecDeque::new(),
        };
        line.restart_bad_periods(now);
        line
    }

    /// Starts in a good period.
    pub(crate) fn restart_bad_periods(&mut self, now: Time) {
        self.leave_bad(now);
        self.bad = TemporalState::Good;
        self.temporal = self.config.bad_periods.filter(|periods| !periods.bad_mean.is_zero()).map(|periods| {
            Temporal::new(periods.good_mean, periods.bad_mean, periods.durations, now, &mut self.random)
        });
    }

    /// When the present good or bad period ends.
    pub(crate) fn period_end(&self) -> Option<Time> {
        self.temporal.as_ref().map(Temporal::until)
    }

    /// Enters the next period; `now` is [`Self::period_end`].
    pub(crate) fn next_period(&mut self, now: Time) {
        let Some(temporal) = &mut self.temporal else { return };
        let next = temporal.state(now, &mut self.random);
        self.leave_bad(now);
        self.bad = next;
        self.bad_since = now;
    }

    fn leave_bad(&mut self, now: Time) {
        if self.bad == TemporalState::Bad {
            self.bad_periods += 1;
            self.bad_time += now.since(self.bad_since);
        }
    }

    /// What becomes of a packet whose transmission begins in the present state.
    pub(crate) const fn spoils(&self) -> Spoiled {
        match (self.config.state, self.bad) {
            (LineState::Cut, _) => Spoiled::ByCut,
            (LineState::Connected, TemporalState::Bad) => Spoiled::ByBadPeriod,
            (LineState::Connected, TemporalState::Good) => Spoiled::No,
        }
    }

    pub(crate) const fn statistics(&self) -> LineStatistics {
        LineStatistics {
            up: self.ways[0].statistics,
            down: self.ways[1].statistics,
            bad_periods: self.bad_periods,
            bad_time: self.bad_time,
        }
    }
}
