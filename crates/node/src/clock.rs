//! The two clocks of a live replica.

use rustix::time::{ClockId, clock_gettime};
use wayfs_types::{Time, WallTime};

/// Microseconds on `CLOCK_BOOTTIME`: never runs backwards and counts time asleep, so that a
/// resumed laptop sees that its leases are over.
pub fn now() -> Time {
    micros_of(ClockId::Boottime)
}

/// Microseconds on `CLOCK_MONOTONIC`, which stands still while the machine sleeps: nobody gives up a wait for bytes because
/// of a time in which none could come. Not to be compared with [`now`].
pub(crate) fn awake() -> Time {
    micros_of(ClockId::Monotonic)
}

fn micros_of(clock: ClockId) -> Time {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_nsec).unwrap_or(0) / 1000;
    Time::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

/// The date and time of this machine, for people only.
pub fn wall() -> WallTime {
    let time = clock_gettime(ClockId::Realtime);
    WallTime::from_parts(time.tv_sec, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Whole seconds since 1970, for expiries that people set.
pub fn unix_seconds() -> u64 {
    u64::try_from(wall().seconds()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward() {
        let first = now();
        assert!(now() >= first);
        assert!(unix_seconds() > 1_600_000_000);
    }
}
