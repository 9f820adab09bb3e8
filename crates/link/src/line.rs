//! A line: two directions and the periods in which neither passes anything.

use crate::capacity::Bottleneck;
use crate::nanos::Nanos;
use crate::propagation::Propagation;
use crate::receiver::{Receiver, ReceiverConfig, WhenFull};
use crate::{BadPeriods, DirectionConfig, Judged, Met, Temporal, TemporalState, bit_error_loss};
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
    /// Lost because the receive buffer at the far end was full.
    pub lost_to_overflow: u64,
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
    receiver: Receiver,
    /// Nothing comes out before what a driver holds, or waits for the host, has.
    held_until: Nanos,
    /// Packets that the last bit error takes yet.
    run_left: u32,
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
            receiver: Receiver::default(),
            held_until: Nanos::ZERO,
            run_left: 0,
            random,
            statistics: WayStatistics::default(),
        }
    }

    /// The host at the far end takes a packet and its duplicate out of its receive buffer, as far as there was room.
    fn receive(&mut self, config: &DirectionConfig, arrivals: [Option<Nanos>; 2], len: u64) -> [Option<Nanos>; 2] {
        let Some(buffer) = &config.receiver else { return arrivals };
        let taken = arrivals.map(|arrival| self.receiver.accept(buffer, arrival?));
        let count = |them: &[Option<Nanos>; 2]| them.iter().flatten().count();
        let statistics = &mut self.statistics;
        match (count(&arrivals), count(&taken)) {
            (0, _) | (1, 1) | (2, 2) => {}
            (came, left) => {
                statistics.duplicated -= u64::from(came == 2);
                let lost = u64::from(left == 0);
                statistics.lost_to_overflow += lost;
                statistics.delivered -= lost;
                statistics.delivered_len -= lost * len;
            }
        }
        taken
    }

    /// Arrivals at the far end: none if it is lost, two if it is duplicated.
    fn arrivals(
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
        if self.is_hit_by_error(config, len) {
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

    /// Whether a bit error, or the run of one before, takes a packet of so many bytes.
    fn is_hit_by_error(&mut self, config: &DirectionConfig, len: u64) -> bool {
        let Some(bytes) = config.bytes_per_bit_error else { return false };
        if self.run_left > 0 {
            self.run_left -= 1;
            return true;
        }
        let is_hit = bit_error_loss(len as usize, bytes).happens(&mut self.random);
        if is_hit {
            self.run_left = config.error_run.saturating_sub(1);
        }
        is_hit
    }
}

/// From what a line draws: the seed of all lines, and its place among them.
#[derive(Debug, Clone, Copy)]
struct LineSeed {
    seed: u64,
    index: usize,
}

impl LineSeed {
    /// Random numbers of a line: of its ways, and of its bad periods.
    fn stream(self, number: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(self.index as u64 * STREAMS_PER_LINE + number);
        random
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
        let stream = |number| LineSeed { seed, index }.stream(number);
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

    /// Draws everything anew, as a new line of this seed and place would; bad periods begin again.
    pub(crate) fn reseed(&mut self, seed: u64, index: usize, now: Time) {
        for (number, way) in (0..).zip(&mut self.ways) {
            way.random = LineSeed { seed, index }.stream(number);
        }
        self.random = LineSeed { seed, index }.stream(2);
        self.restart_bad_periods(now);
    }

    /// Starts in a good period.
    pub(crate) fn restart_bad_periods(&mut self, now: Time) {
        self.leave_bad(now);
        self.bad = TemporalState::Good;
        self.temporal = self
            .config
            .bad_periods
            .filter(|periods| !periods.bad_mean.is_zero())
            .map(|periods| Temporal::new(&periods, now, &mut self.random));
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

    /// What becomes of a packet whose transmission the present state touches.
    pub(crate) fn spoils(&self) -> Spoiled {
        match self.config.state {
            LineState::Cut => Spoiled::ByCut,
            LineState::Connected if self.meets(Judged::ByTouch, Met::Lost) => Spoiled::ByBadPeriod,
            LineState::Connected => Spoiled::No,
        }
    }

    /// Whether it is a bad period with these settings.
    fn meets(&self, judged: Judged, met: Met) -> bool {
        let same = |periods: &BadPeriods| periods.met == met && (met == Met::Held || periods.judged == judged);
        self.bad == TemporalState::Bad && self.config.bad_periods.as_ref().is_some_and(same)
    }

    /// Whether the driver loses what it is called with now.
    pub(crate) fn driver_loses(&self) -> bool {
        self.meets(Judged::AtDriver, Met::Lost)
    }

    /// When the driver lets go what it holds, if it holds something now.
    pub(crate) fn driver_holds_until(&self) -> Option<Nanos> {
        if self.meets(Judged::AtDriver, Met::Held) { self.period_end().map(Nanos::from) } else { None }
    }

    /// From when on the next packet of a way may be transmitted: the driver of the first end holds it, or there is no room for it
    /// at the far end.
    pub(crate) fn may_send_from(&self, way: Way) -> Nanos {
        let held = self.driver_holds_until().filter(|_| way == Way::Up).unwrap_or(Nanos::ZERO);
        let waits = |receiver: &&ReceiverConfig| receiver.when_full == WhenFull::NotSent;
        let room = self.config.way(way).receiver.as_ref().filter(waits);
        held.max(room.map_or(Nanos::ZERO, |receiver| self.ways[way.index()].receiver.room_from(receiver)))
    }

    /// When a packet that is through the bottleneck comes out at the far end: none if it is lost, two if it is duplicated.
    pub(crate) fn arrivals(&mut self, way: Way, spoiled: Spoiled, departure: Nanos, len: u64) -> [Option<Nanos>; 2] {
        let (held_until, lost) = match way {
            Way::Up => (None, false),
            Way::Down => (self.driver_holds_until(), self.driver_loses()),
        };
        let spoiled = if lost && spoiled == Spoiled::No { Spoiled::ByBadPeriod } else { spoiled };
        let Self { config, ways, .. } = self;
        let (config, state) = (config.way(way), &mut ways[way.index()]);
        let arrivals = state.arrivals(config, spoiled, departure, len);
        let released = held_until.unwrap_or(Nanos::ZERO);
        let out = state.receive(config, arrivals.map(|arrival| Some(arrival?.max(released))), len);
        // Settings may change while something is held or waits for the host: what comes later does not pass it.
        let floor = state.held_until;
        if held_until.is_some() || config.receiver.is_some() {
            state.held_until = out.iter().flatten().copied().fold(floor, Nanos::max);
        }
        out.map(|arrival| Some(arrival?.max(floor)))
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
