//! Two clocks that must not be mixed up.

use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on a replica's own clock, microseconds since an arbitrary start.
///
/// Never runs backwards and counts time asleep, so that a lease held across a
/// suspend is seen to have expired. Means nothing on another machine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// A point so many microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time passed since an earlier point; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

/// A date and time for people and for `stat`: nanoseconds since 1970, UTC.
///
/// Clocks lie, so nothing is ever ordered by it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WallTime(i64);

impl WallTime {
    /// The first of January 1970.
    pub const EPOCH: Self = Self(0);

    /// From nanoseconds since 1970.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// From seconds and nanoseconds, saturating at the years 1677 and 2262.
    pub const fn from_parts(seconds: i64, nanos: u32) -> Self {
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos as i64))
    }

    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// Nanoseconds past [`WallTime::seconds`], `0..1_000_000_000`.
    pub const fn subsecond_nanos(self) -> u32 {
        self.0.rem_euclid(1_000_000_000) as u32
    }

    /// `YYYYMMDD-HHMMSS` in UTC, as conflict names carry it.
    pub fn compact(self) -> String {
        let days = self.seconds().div_euclid(86_400);
        let second_of_day = self.seconds().rem_euclid(86_400);
        let (year, month, day) = civil_from_days(days);
        format!(
            "{year:04}{month:02}{day:02}-{:02}{:02}{:02}",
            second_of_day / 3600,
            second_of_day / 60 % 60,
            second_of_day % 60
        )
    }
}

/// Proleptic Gregorian date of a day number counted from 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Years are counted from March, so that the leap day ends a year; 719,468
    // days lie between 0000-03-01 and 1970-01-01.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_dates_are_the_calendars() {
        assert_eq!(WallTime::EPOCH.compact(), "19700101-000000");
        assert_eq!(WallTime::from_parts(951_827_696, 0).compact(), "20000229-123456");
        assert_eq!(WallTime::from_parts(-1, 0).compact(), "19691231-235959");
    }

    #[test]
    fn parts_of_a_time_before_1970_round_down() {
        let time = WallTime::from_nanos(-1);
        assert_eq!((time.seconds(), time.subsecond_nanos()), (-1, 999_999_999));
    }

    #[test]
    fn a_clock_that_seems_to_go_back_gives_zero() {
        assert_eq!(Time::ZERO.since(Time::from_micros(5)), Duration::ZERO);
    }
}
