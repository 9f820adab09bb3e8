//! The clock of the engine: counts time asleep, as the packets' limit of delay must.

use rustix::time::{ClockId, clock_gettime};
use wayfs_types::Time;

/// Now.
pub(crate) fn now() -> Time {
    let at = clock_gettime(ClockId::Boottime);
    let micros = at.tv_sec.cast_unsigned() * 1_000_000 + at.tv_nsec.cast_unsigned() / 1000;
    Time::from_micros(micros)
}
