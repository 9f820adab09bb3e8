//! When to send again what was not acknowledged: BSD's ticks, or microseconds (RFC 6298).
//!
//! The coarse variant is that of 4.4BSD, in its own fixed-point arithmetic: one segment is timed at a time, in ticks of
//! 500 ms, and a timer of `n` ticks ends with the `n`-th tick from now, so it lasts up to a tick less than `n` of them. The smallest
//! deviation that this arithmetic comes down to is 3, so the timeout over a short path is 3 ticks: 1 to 1.5 s.

use crate::Timers;
use std::ops::Range;
use std::time::Duration;
use wayfs_types::Time;

/// A slow tick of BSD.
const SLOW: Duration = Duration::from_millis(500);
/// A fast tick of BSD: what is left of delayed acknowledgements goes then.
const FAST: Duration = Duration::from_millis(200);
/// Delay of acknowledgements of Linux.
const FINE_ACK_DELAY: Duration = Duration::from_millis(40);
/// Bounds of BSD's timeout in ticks: 1 s and 64 s.
const TICKS: std::ops::RangeInclusive<u32> = 2..=128;
/// Timeout before anything is measured, in ticks and as a time.
const TICKS_INITIAL: u32 = 12;
const FINE_INITIAL: Duration = Duration::from_secs(1);
/// Longest fine timeout.
const FINE_MAX: Duration = Duration::from_secs(60);
/// Doublings of the timeout, at most.
const SHIFT_MAX: u32 = 6;

/// Round trips measured so far, and the timeout that follows from them.
#[derive(Debug, Clone)]
pub(crate) struct Rto {
    timers: Timers,
    /// Doublings since the last measurement.
    shift: u32,
    ticks: Ticks,
    fine: Option<Fine>,
}

/// The estimator of 4.4BSD.
#[derive(Debug, Default, Clone)]
struct Ticks {
    /// Mean in eighths of a tick; zero before the first sample.
    srtt: i64,
    /// Deviation in quarters of a tick.
    rttvar: i64,
}

#[derive(Debug, Clone)]
struct Fine {
    srtt: Duration,
    rttvar: Duration,
}

impl Rto {
    pub(crate) fn new(timers: Timers) -> Self {
        Self { timers, shift: 0, ticks: Ticks::default(), fine: None }
    }

    /// A segment that was sent once, at the start, came back acknowledged at the end.
    pub(crate) fn sample(&mut self, Range { start: sent, end: now }: Range<Time>) {
        self.shift = 0;
        match self.timers {
            Timers::Coarse { phase } => {
                let clock = TickClock { phase, every: SLOW };
                let elapsed = clock.ticks_by(now) - clock.ticks_by(sent);
                self.ticks.sample(i64::try_from(elapsed).unwrap_or(i64::MAX));
            }
            Timers::Fine { .. } => self.sample_fine(now.since(sent)),
        }
    }

    fn sample_fine(&mut self, rtt: Duration) {
        let Some(fine) = &mut self.fine else {
            self.fine = Some(Fine { srtt: rtt, rttvar: rtt / 2 });
            return;
        };
        fine.rttvar = fine.rttvar * 3 / 4 + fine.srtt.abs_diff(rtt) / 4;
        fine.srtt = fine.srtt * 7 / 8 + rtt / 8;
    }

    /// Doubles the timeout until the next measurement.
    pub(crate) fn back_off(&mut self) {
        self.shift = (self.shift + 1).min(SHIFT_MAX);
    }

    /// When a retransmission timer that is set now ends.
    pub(crate) fn deadline(&self, now: Time) -> Time {
        match self.timers {
            Timers::Coarse { phase } => TickClock { phase, every: SLOW }.nth_after(now, self.coarse_ticks()),
            Timers::Fine { rto_min } => now + self.fine_timeout(rto_min),
        }
    }

    /// When a delayed acknowledgement goes at the latest.
    pub(crate) fn ack_deadline(&self, now: Time) -> Time {
        match self.timers {
            Timers::Coarse { phase } => TickClock { phase, every: FAST }.nth_after(now, 1),
            Timers::Fine { .. } => now + FINE_ACK_DELAY,
        }
    }

    fn coarse_ticks(&self) -> u32 {
        let base = if self.ticks.srtt == 0 {
            TICKS_INITIAL
        } else {
            u32::try_from((self.ticks.srtt >> 3) + self.ticks.rttvar).unwrap_or(*TICKS.end())
        };
        (base << self.shift).clamp(*TICKS.start(), *TICKS.end())
    }

    fn fine_timeout(&self, rto_min: Duration) -> Duration {
        let base = self.fine.as_ref().map_or(FINE_INITIAL, |fine| fine.srtt + (fine.rttvar * 4).max(rto_min));
        (base * (1 << self.shift)).min(FINE_MAX)
    }
}

impl Ticks {
    /// `tcp_xmit_timer` of 4.4BSD; `elapsed` is how many ticks came between.
    fn sample(&mut self, elapsed: i64) {
        if self.srtt == 0 {
            // The count begins at one.
            self.srtt = (elapsed + 1) << 3;
            self.rttvar = (elapsed + 1) << 1;
            return;
        }
        let delta = elapsed - (self.srtt >> 3);
        self.srtt = (self.srtt + delta).max(1);
        self.rttvar = (self.rttvar + delta.abs() - (self.rttvar >> 2)).max(1);
    }
}

/// A timer of the kernel that runs all the time.
#[derive(Debug, Clone, Copy)]
struct TickClock {
    phase: Duration,
    every: Duration,
}

impl TickClock {
    fn offset(self) -> u64 {
        micros(self.phase) % micros(self.every)
    }

    /// How many ticks have come by then.
    fn ticks_by(self, at: Time) -> u64 {
        (at.as_micros() + micros(self.every) - self.offset()) / micros(self.every)
    }

    /// The time of the `n`-th tick after now.
    fn nth_after(self, now: Time, n: u32) -> Time {
        let number = self.ticks_by(now) + u64::from(n);
        Time::from_micros(number * micros(self.every) + self.offset() - micros(self.every))
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Time {
        Time::from_micros(milliseconds * 1000)
    }

    fn coarse(phase: u64) -> Rto {
        Rto::new(Timers::Coarse { phase: Duration::from_millis(phase) })
    }

    #[test]
    fn a_coarse_timer_ends_with_a_tick() {
        let rto = coarse(100);
        // Twelve ticks: the first of them at 100 ms, or at 600 ms if that one is past.
        assert_eq!(rto.deadline(ms(99)), ms(100 + 11 * 500));
        assert_eq!(rto.deadline(ms(100)), ms(100 + 12 * 500));
        assert_eq!(rto.ack_deadline(ms(100)), ms(300));
        assert_eq!(rto.ack_deadline(ms(299)), ms(300));
    }

    #[test]
    fn short_round_trips_bring_a_coarse_timeout_to_three_ticks() {
        let mut rto = coarse(0);
        for n in 0..50 {
            rto.sample(ms(n * 1000 + 10)..ms(n * 1000 + 20));
        }
        assert_eq!(rto.deadline(ms(60_010)), ms(61_500));
    }

    #[test]
    fn timeouts_double_up_to_a_bound_until_something_is_measured() {
        let mut rto = coarse(0);
        rto.sample(ms(10)..ms(20));
        for _ in 0..20 {
            rto.back_off();
        }
        assert_eq!(rto.deadline(ms(0)), ms(64_000));
        rto.sample(ms(10)..ms(20));
        assert!(rto.deadline(ms(0)) <= ms(2000));
    }

    #[test]
    fn a_fine_timeout_is_the_round_trip_and_its_deviation() {
        let mut rto = Rto::new(Timers::Fine { rto_min: Duration::from_millis(200) });
        assert_eq!(rto.deadline(ms(0)), ms(1000));
        for _ in 0..100 {
            rto.sample(ms(0)..ms(50));
        }
        let deadline = rto.deadline(ms(0));
        assert!(ms(249) < deadline && deadline < ms(252), "{deadline:?}");
    }
}
