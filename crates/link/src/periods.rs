//! Bad periods as settings: how long they are, and what becomes of a packet that meets one.

use crate::Durations;
use std::time::Duration;

/// Periods in which nothing passes in either direction (see [`crate::Temporal`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPeriods {
    /// Mean length of a good period. Default 1 s.
    pub good_mean: Duration,
    /// Mean length of a bad period. Zero, the default: never bad.
    pub bad_mean: Duration,
    /// How lengths are drawn around their mean. Default: uniform.
    pub durations: Durations,
    /// Lengths are multiples of this, as those of a kernel's timer are. Default zero: any length.
    pub tick: Duration,
    /// When it is decided whether a packet meets one. Default: by touch.
    pub judged: Judged,
    /// What becomes of a packet that does. Default: lost.
    pub met: Met,
}

/// When it is decided whether a packet meets a bad period.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// It does if a bad period touches any part of its transmission: the physical link.
    #[default]
    ByTouch,
    /// By the state when the driver of the first end (the mobile) is called: with a packet to be sent, before it waits in any
    /// queue; with one that was received, after its transmission. So the model of 1995 did, which sat in that driver.
    AtDriver,
}

/// What becomes of a packet that meets a bad period.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// It is lost.
    #[default]
    Lost,
    /// The driver of the first end holds it and lets it go when the period ends, in both directions: how the papers emulated
    /// retransmission on the link at its best.
    Held,
}

impl Default for BadPeriods {
    fn default() -> Self {
        Self {
            good_mean: Duration::from_secs(1),
            bad_mean: Duration::ZERO,
            durations: Durations::Uniform,
            tick: Duration::ZERO,
            judged: Judged::ByTouch,
            met: Met::Lost,
        }
    }
}

impl BadPeriods {
    /// As in the driver of 1995 and 1996: multiples of 20 ms, uniform in 0 to twice the mean, judged when the driver is called.
    #[must_use]
    pub(crate) fn at_driver(self) -> Self {
        Self { durations: Durations::Uniform, tick: DRIVER_TICK, judged: Judged::AtDriver, met: Met::Lost, ..self }
    }
}

/// Granularity of the timers of that kernel.
pub(crate) const DRIVER_TICK: Duration = Duration::from_millis(20);
