//! The four parameters of the LogGP model, and what each does to a line.

use crate::LinePlan;
use std::time::Duration;
use wayfs_link::{Capacity, DirectionConfig, LineConfig};

/// A parameter of the LogGP model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Knob {
    /// `L`: the time on the way, one way.
    Latency,
    /// `o`: processor time per packet at the end that serves.
    Overhead,
    /// `g`: shortest time between packets.
    Gap,
    /// `G`: time per byte.
    GapPerByte,
}

/// What a line is when nothing is varied, or when one thing is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setting {
    /// `L` in microseconds.
    pub(super) latency_us: f64,
    /// `o` in microseconds per packet.
    pub(super) overhead_us: f64,
    /// `g` in microseconds per packet.
    pub(super) gap_us: f64,
    /// `G` in microseconds per KB (1000 bytes): 8000 divided by it is the rate in kb/s.
    pub(super) per_kb_us: f64,
    /// Bytes that may wait for the line.
    pub(super) queue_len: u64,
}

impl Knob {
    /// All, in the order of the paper.
    #[cfg(test)]
    const ALL: [Self; 4] = [Self::Latency, Self::Overhead, Self::Gap, Self::GapPerByte];

    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency L",
            Self::Overhead => "overhead o",
            Self::Gap => "gap g",
            Self::GapPerByte => "gap per byte G",
        }
    }

    /// Its letter.
    pub(super) const fn letter(self) -> &'static str {
        match self {
            Self::Latency => "L",
            Self::Overhead => "o",
            Self::Gap => "g",
            Self::GapPerByte => "G",
        }
    }

    /// Its unit.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Latency => "us",
            Self::Overhead | Self::Gap => "us/packet",
            Self::GapPerByte => "us/KB",
        }
    }

    /// The setting with this parameter at a value.
    pub(super) const fn at(self, value: f64, mut rest: Setting) -> Setting {
        match self {
            Self::Latency => rest.latency_us = value,
            Self::Overhead => rest.overhead_us = value,
            Self::Gap => rest.gap_us = value,
            Self::GapPerByte => rest.per_kb_us = value,
        }
        rest
    }

    /// The value of this parameter in a setting.
    #[cfg(test)]
    const fn of(self, setting: &Setting) -> f64 {
        match self {
            Self::Latency => setting.latency_us,
            Self::Overhead => setting.overhead_us,
            Self::Gap => setting.gap_us,
            Self::GapPerByte => setting.per_kb_us,
        }
    }
}

impl Setting {
    /// The line, both ways alike. The overhead is the host's, not the line's.
    pub(super) fn line(&self) -> LinePlan {
        let rate =
            if self.per_kb_us > 0.0 { Capacity::Rate((8e9 / self.per_kb_us) as u64) } else { Capacity::Unlimited };
        let direction = DirectionConfig {
            capacity: rate,
            delay: microseconds(self.latency_us),
            gap: microseconds(self.gap_us),
            queue_len_max: self.queue_len,
            ..DirectionConfig::default()
        };
        LinePlan { config: LineConfig::symmetric(direction), ..LinePlan::default() }
    }

    /// The processor time per packet at the end that serves.
    pub(super) fn overhead(&self) -> Duration {
        microseconds(self.overhead_us)
    }
}

fn microseconds(value: f64) -> Duration {
    Duration::from_secs_f64(value.max(0.0) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Setting =
        Setting { latency_us: 0.0, overhead_us: 0.0, gap_us: 0.0, per_kb_us: 8.0, queue_len: 1 << 20 };

    #[test]
    fn each_knob_turns_one_thing() {
        let direction = |setting: Setting| setting.line().config.up;
        assert_eq!(direction(BASE).capacity, Capacity::Rate(1_000_000_000));
        assert_eq!(direction(Knob::GapPerByte.at(800.0, BASE)).capacity, Capacity::Rate(10_000_000));
        assert_eq!(direction(Knob::Latency.at(250.0, BASE)).delay, Duration::from_micros(250));
        assert_eq!(direction(Knob::Gap.at(250.0, BASE)).gap, Duration::from_micros(250));
        assert_eq!(Knob::Overhead.at(250.0, BASE).overhead(), Duration::from_micros(250));
        for knob in Knob::ALL {
            assert_eq!(knob.of(&knob.at(3.0, BASE)), 3.0);
            assert_eq!(Knob::ALL.iter().filter(|other| other.of(&knob.at(3.0, BASE)) != other.of(&BASE)).count(), 1);
        }
    }
}
