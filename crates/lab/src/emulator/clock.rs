//! The emulator's clock: monotonic, from zero.

use wayfs_types::Time;

/// Nanoseconds since it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: u64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: monotonic() }
    }

    pub(crate) fn nanos(self) -> u64 {
        monotonic().saturating_sub(self.start)
    }

    pub(crate) fn now(self) -> Time {
        Time::from_micros(self.nanos() / 1000)
    }
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The clock counts from the machine's start, so neither part is negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
