//! The models' own unit of time. A 40-byte packet takes 0.32 us at 1 Gb/s:
//! microseconds would round it to three times its length.

use std::ops::{Add, Sub};
use std::time::Duration;
use wayfs_types::Time;

/// Nanoseconds since the start of the clock.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nanos(u64);

impl Nanos {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The first whole microsecond that is not earlier.
    pub(crate) const fn ceil(self) -> Time {
        Time::from_micros(self.0.div_ceil(1000))
    }

    /// Nanoseconds since an earlier point; zero if it is not earlier.
    pub(crate) const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<Time> for Nanos {
    fn from(time: Time) -> Self {
        Self(time.as_micros().saturating_mul(1000))
    }
}

impl Add<u64> for Nanos {
    type Output = Self;
    fn add(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl Add<Duration> for Nanos {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        self + u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Sub for Nanos {
    type Output = u64;
    fn sub(self, earlier: Self) -> u64 {
        self.since(earlier)
    }
}
