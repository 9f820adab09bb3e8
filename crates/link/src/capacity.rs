//! How fast bytes leave the queue: a constant rate, or a recorded trace of
//! delivery opportunities (mahimahi's format).
//!
//! An opportunity carries 1500 bytes. A packet may need several, and several
//! small ones share one; what nobody waits for is wasted, as on the real link.

use crate::nanos::Nanos;
use std::sync::Arc;

/// Bytes that one line of a trace may carry.
const OPPORTUNITY_LEN: u64 = 1500;

/// Nanoseconds in a unit of a trace.
const MILLISECOND: u64 = 1_000_000;

/// Why a trace cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is not a whole number of milliseconds.
    #[error("line {0} of the trace is not a number of milliseconds")]
    Number(usize),
    /// Times run backwards.
    #[error("line {0} of the trace is earlier than the one before")]
    Backwards(usize),
    /// No line, or the last at time zero: such a trace could not repeat.
    #[error("the trace is empty or ends at time zero")]
    Empty,
}

/// The speed of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// Nothing ever waits.
    Unlimited,
    /// Bits per second, at least 1.
    Rate(u64),
    /// Milliseconds at which 1500 bytes may leave; repeats from its start after the last.
    Trace(Arc<[u64]>),
}

impl Capacity {
    /// Reads a trace: one line per opportunity, milliseconds from the start.
    ///
    /// # Errors
    /// [`TraceError`] names the line.
    pub fn parse_trace(text: &str) -> Result<Self, TraceError> {
        let mut times = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let time: u64 = line.trim().parse().map_err(|_| TraceError::Number(index + 1))?;
            if times.last().is_some_and(|last| *last > time) {
                return Err(TraceError::Backwards(index + 1));
            }
            times.push(time);
        }
        if times.last().is_none_or(|last| *last == 0) { Err(TraceError::Empty) } else { Ok(Self::Trace(times.into())) }
    }

    /// Bits per second on the long run; `None` if unlimited.
    pub fn mean_bits_per_second(&self) -> Option<f64> {
        match self {
            Self::Unlimited => None,
            Self::Rate(rate) => Some(*rate as f64),
            Self::Trace(times) => {
                let period_ms = times.last().copied().unwrap_or(1).max(1);
                Some(times.len() as f64 * OPPORTUNITY_LEN as f64 * 8.0 * 1000.0 / period_ms as f64)
            }
        }
    }
}

/// The bottleneck of one direction: a capacity, and how far a trace of it is used up.
#[derive(Debug, Clone)]
pub(crate) struct Bottleneck {
    capacity: Capacity,
    /// When a trace begins.
    origin: Nanos,
    /// The opportunity that was used last, counted from the start over all repetitions.
    opportunity: u64,
    /// Bytes that it still has room for.
    room: u64,
}

impl Bottleneck {
    /// A trace begins at `origin`.
    pub(crate) const fn new(capacity: Capacity, origin: Nanos) -> Self {
        Self { capacity, origin, opportunity: 0, room: OPPORTUNITY_LEN }
    }

    /// When a packet is through whose transmission begins at `start`, which must not run backwards.
    pub(crate) fn departure(&mut self, start: Nanos, len: u64) -> Nanos {
        match &self.capacity {
            Capacity::Unlimited => start,
            Capacity::Rate(rate) => start + BitsPerSecond(*rate).time_of(len),
            Capacity::Trace(times) => {
                let times = Arc::clone(times);
                self.trace_departure(&times, start, len)
            }
        }
    }

    fn trace_departure(&mut self, times: &[u64], start: Nanos, len: u64) -> Nanos {
        let first = first_opportunity(times, start - self.origin);
        if self.opportunity < first {
            (self.opportunity, self.room) = (first, OPPORTUNITY_LEN);
        }
        let mut rest = len.max(1);
        while rest > self.room {
            rest -= self.room;
            (self.opportunity, self.room) = (self.opportunity + 1, OPPORTUNITY_LEN);
        }
        self.room -= rest;
        (self.origin + opportunity_time(times, self.opportunity)).max(start)
    }
}

struct BitsPerSecond(u64);

impl BitsPerSecond {
    /// Nanoseconds that so many bytes take, rounded up.
    fn time_of(&self, len: u64) -> u64 {
        let nanos = (u128::from(len) * 8 * 1_000_000_000).div_ceil(u128::from(self.0.max(1)));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Length of a trace in milliseconds.
fn period(times: &[u64]) -> u64 {
    times.last().copied().unwrap_or(1).max(1)
}

/// Nanoseconds from the begin of the trace.
fn opportunity_time(times: &[u64], opportunity: u64) -> u64 {
    let count = times.len() as u64;
    let milliseconds =
        (opportunity / count).saturating_mul(period(times)).saturating_add(times[(opportunity % count) as usize]);
    milliseconds.saturating_mul(MILLISECOND)
}

/// The first opportunity that is not before so many nanoseconds from the begin of the trace.
fn first_opportunity(times: &[u64], start: u64) -> u64 {
    let milliseconds = start.div_ceil(MILLISECOND);
    let (round, offset) = (milliseconds / period(times), milliseconds % period(times));
    // At the seam the last opportunities of a round and those at zero of the next fall on one time; the earlier come first.
    if offset == 0 && round > 0 {
        return (round - 1) * times.len() as u64 + times.partition_point(|t| *t < period(times)) as u64;
    }
    round * times.len() as u64 + times.partition_point(|t| *t < offset) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Nanos {
        Nanos::new(milliseconds * MILLISECOND)
    }

    fn trace(text: &str) -> Bottleneck {
        Bottleneck::new(Capacity::parse_trace(text).unwrap(), Nanos::ZERO)
    }

    #[test]
    fn a_rate_takes_its_time() {
        let mut line = Bottleneck::new(Capacity::Rate(1_000_000), Nanos::ZERO);
        assert_eq!(line.departure(Nanos::ZERO, 1250), ms(10));
        let mut fast = Bottleneck::new(Capacity::Rate(1_000_000_000), Nanos::ZERO);
        assert_eq!(fast.departure(Nanos::ZERO, 40), Nanos::new(320));
    }

    #[test]
    fn a_trace_repeats_and_big_packets_take_several_opportunities() {
        let mut line = trace("1\n2\n10\n");
        assert_eq!(line.departure(Nanos::ZERO, 1500), ms(1));
        assert_eq!(line.departure(ms(1), 3000), ms(10));
        assert_eq!(line.departure(ms(10), 100), ms(11));
    }

    #[test]
    fn every_opportunity_of_a_millisecond_counts() {
        let mut line = trace("5\n5\n5\n20\n");
        let departures: Vec<Nanos> = (0..4).map(|_| line.departure(Nanos::ZERO, 1500)).collect();
        assert_eq!(departures, [ms(5), ms(5), ms(5), ms(20)]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_what_nobody_waits_for_is_wasted() {
        let mut line = trace("5\n6\n7\n");
        assert_eq!(line.departure(Nanos::ZERO, 700), ms(5));
        assert_eq!(line.departure(ms(5), 800), ms(5));
        assert_eq!(line.departure(ms(5), 1), ms(6));
        assert_eq!(line.departure(Nanos::new(6 * MILLISECOND + 1), 1), ms(7));
    }

    #[test]
    fn a_trace_begins_at_its_origin() {
        let mut line = Bottleneck::new(Capacity::parse_trace("5\n8\n").unwrap(), ms(100));
        assert_eq!(line.departure(ms(101), 1500), ms(105));
        assert_eq!(line.departure(ms(105), 1500), ms(108));
        assert_eq!(line.departure(ms(108), 1500), ms(113));
    }

    #[test]
    fn a_trace_gives_its_mean_rate() {
        let capacity = Capacity::parse_trace("0\n0\n3\n4\n").unwrap();
        let mut line = Bottleneck::new(capacity.clone(), Nanos::ZERO);
        let mut end = Nanos::ZERO;
        for _ in 0..4000 {
            end = line.departure(end, 1500);
        }
        let rate = 4000.0 * 1500.0 * 8.0 / ((end - Nanos::ZERO) as f64 / 1e9);
        let expected = capacity.mean_bits_per_second().unwrap();
        assert!((rate / expected - 1.0).abs() < 0.01, "{rate} {expected}");
    }

    #[test]
    fn broken_traces_are_refused_by_line() {
        assert_eq!(Capacity::parse_trace("1\nx"), Err(TraceError::Number(2)));
        assert_eq!(Capacity::parse_trace("5\n4"), Err(TraceError::Backwards(2)));
        assert_eq!(Capacity::parse_trace(""), Err(TraceError::Empty));
    }
}
