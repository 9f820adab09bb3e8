//! How fast bytes leave the queue: a constant rate, or a recorded trace of
//! delivery opportunities (mahimahi's format).

use std::time::Duration;
use wayfs_types::Time;

/// Bytes that one line of a trace may carry.
const OPPORTUNITY_LEN: u64 = 1500;

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
    Trace(Vec<u64>),
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
        if times.last().is_none_or(|last| *last == 0) { Err(TraceError::Empty) } else { Ok(Self::Trace(times)) }
    }

    /// When a packet is through the bottleneck that is free from `free` on.
    pub(crate) fn departure(&self, free: Time, len: usize) -> Time {
        match self {
            Self::Unlimited => free,
            Self::Rate(bits_per_second) => {
                let micros = (len as u128 * 8 * 1_000_000).div_ceil(u128::from((*bits_per_second).max(1)));
                free + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
            }
            Self::Trace(times) => trace_departure(times, free, len),
        }
    }
}

/// A packet takes as many opportunities as it has 1500-byte pieces, strictly after `free`.
fn trace_departure(times: &[u64], free: Time, len: usize) -> Time {
    let period = times.last().copied().unwrap_or(1).max(1);
    let free_ms = free.as_micros() / 1000;
    let (mut round, offset) = (free_ms / period, free_ms % period);
    let mut index = times.partition_point(|t| *t <= offset);
    let pieces = (len as u64).div_ceil(OPPORTUNITY_LEN).max(1) as usize;
    index += pieces - 1;
    round += (index / times.len()) as u64;
    Time::from_micros((round * period + times[index % times.len()]) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_takes_its_time() {
        let line = Capacity::Rate(1_000_000);
        assert_eq!(line.departure(Time::ZERO, 1250), Time::from_micros(10_000));
    }

    #[test]
    fn a_trace_repeats_and_big_packets_take_several_opportunities() {
        let line = Capacity::parse_trace("1\n2\n10\n").unwrap();
        assert_eq!(line.departure(Time::ZERO, 100).as_micros(), 1000);
        assert_eq!(line.departure(Time::from_micros(1000), 3000).as_micros(), 10_000);
        assert_eq!(line.departure(Time::from_micros(10_000), 100).as_micros(), 11_000);
    }

    #[test]
    fn broken_traces_are_refused_by_line() {
        assert_eq!(Capacity::parse_trace("1\nx"), Err(TraceError::Number(2)));
        assert_eq!(Capacity::parse_trace("5\n4"), Err(TraceError::Backwards(2)));
        assert_eq!(Capacity::parse_trace(""), Err(TraceError::Empty));
    }
}
