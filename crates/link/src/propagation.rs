//! The way behind the bottleneck: fixed delay, recorded delay, jitter, order.

use crate::DirectionConfig;
use crate::loss::unit;
use crate::nanos::Nanos;
use rand_chacha::rand_core::RngCore;
use std::time::Duration;
use wayfs_types::Time;

/// Why a recorded delay cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DelayTraceError {
    /// No sample, or a length of zero: such a trace could not repeat.
    #[error("the trace of delays is empty or has no length")]
    Empty,
    /// A sample is not later than the one before, the first is not at zero, or one lies behind the end.
    #[error("sample {0} of the trace of delays is out of order")]
    Order(usize),
}

/// A one-way delay that changes by steps and repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayTrace {
    /// From when on which delay holds.
    samples: Vec<DelaySample>,
    length: Duration,
}

/// From when on a recorded delay holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelaySample {
    /// Since the begin of the trace.
    pub at: Duration,
    /// The delay.
    pub delay: Duration,
}

impl DelayTrace {
    /// From samples, the first at zero; after `length` it starts again.
    ///
    /// # Errors
    /// [`DelayTraceError`] names the sample.
    pub fn new(samples: Vec<DelaySample>, length: Duration) -> Result<Self, DelayTraceError> {
        if samples.is_empty() || length.is_zero() {
            return Err(DelayTraceError::Empty);
        }
        for (index, DelaySample { at, .. }) in samples.iter().enumerate() {
            let in_order = if index == 0 { at.is_zero() } else { samples[index - 1].at < *at };
            if !in_order || *at >= length {
                return Err(DelayTraceError::Order(index));
            }
        }
        Ok(Self { samples, length })
    }

    /// The delay that a packet meets which leaves the bottleneck so long after the begin of the trace.
    pub fn at(&self, time: Time) -> Duration {
        let length = u64::try_from(self.length.as_micros()).unwrap_or(u64::MAX).max(1);
        let offset = Duration::from_micros(time.as_micros() % length);
        let next = self.samples.partition_point(|sample| sample.at <= offset);
        self.samples[next - 1].delay
    }
}

/// What the propagation of one direction remembers: the last arrival, to keep the order.
#[derive(Debug, Default, Clone)]
pub(crate) struct Propagation {
    last_arrival: Nanos,
    /// When a trace begins.
    origin: Nanos,
}

impl Propagation {
    /// A trace begins at `origin`.
    pub(crate) const fn new(origin: Nanos) -> Self {
        Self { last_arrival: Nanos::ZERO, origin }
    }

    /// Lets a new trace begin.
    pub(crate) const fn restart_trace(&mut self, now: Nanos) {
        self.origin = now;
    }

    /// When a packet arrives that left the bottleneck at `departure`.
    pub(crate) fn arrival(&mut self, config: &DirectionConfig, departure: Nanos, random: &mut impl RngCore) -> Nanos {
        let recorded = config
            .delay_trace
            .as_ref()
            .map_or(Duration::ZERO, |trace| trace.at(Nanos::new(departure - self.origin).ceil()));
        let jitter = if config.jitter.is_zero() { Duration::ZERO } else { config.jitter.mul_f64(unit(random)) };
        let arrival = departure + config.delay + recorded + jitter;
        if config.reordering {
            return arrival;
        }
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    const fn sample(at: u64, delay: u64) -> DelaySample {
        DelaySample { at: ms(at), delay: ms(delay) }
    }

    #[test]
    fn recorded_delays_change_by_steps_and_repeat() {
        let trace = DelayTrace::new(vec![sample(0, 10), sample(5, 20)], ms(8)).unwrap();
        let delays: Vec<u128> = [0, 4, 5, 7, 8, 13].map(|t| trace.at(Time::from_micros(t * 1000)).as_millis()).to_vec();
        assert_eq!(delays, [10, 10, 20, 20, 10, 20]);
    }

    #[test]
    fn recorded_delays_out_of_order_are_refused() {
        assert_eq!(DelayTrace::new(vec![], ms(1)), Err(DelayTraceError::Empty));
        assert_eq!(DelayTrace::new(vec![sample(1, 1)], ms(2)), Err(DelayTraceError::Order(0)));
        assert_eq!(DelayTrace::new(vec![sample(0, 1), sample(9, 1)], ms(9)), Err(DelayTraceError::Order(1)));
    }
}
