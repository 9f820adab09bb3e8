//! Long lines, from fast ones to those of satellites.

use crate::{LabError, LinePlan, read_line};
use std::path::Path;

/// A wide area.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// What settings and reports call it.
    pub(super) name: &'static str,
    /// What it is, in words.
    pub(super) about: &'static str,
    /// As `docs/lab.md` says what a line is. Queues hold what is under way in a round trip.
    description: &'static str,
    pub(super) megabits: u64,
}

/// All of them, by growing distance.
pub(super) const LINES: &[Line] = &[
    Line {
        name: "gigabit-40ms",
        about: "1 Gb/s, 40 ms there and back",
        description: "both = { rate_mbps = 1000, delay_ms = 20, queue_kib = 4880 }",
        megabits: 1000,
    },
    Line {
        name: "lossy-40ms",
        about: "1 Gb/s, 40 ms there and back, 1 % of the packets lost",
        description: "both = { rate_mbps = 1000, delay_ms = 20, queue_kib = 4880, loss = 0.01 }",
        megabits: 1000,
    },
    Line {
        name: "long-100ms",
        about: "300 Mb/s, 100 ms there and back",
        description: "both = { rate_mbps = 300, delay_ms = 50, queue_kib = 3660 }",
        megabits: 300,
    },
    Line {
        name: "satellite-600ms",
        about: "100 Mb/s, 600 ms there and back",
        description: "both = { rate_mbps = 100, delay_ms = 300, queue_kib = 7320 }",
        megabits: 100,
    },
];

/// Those of a quick run: what the emulator carries on a busy machine, too.
pub(super) const QUICK: &[Line] = &[LINES[2], LINES[3]];

impl Line {
    /// What the emulator makes of it.
    pub(super) fn plan(&self) -> Result<LinePlan, LabError> {
        read_line(self.description, Path::new("."))
    }

    /// Bytes that it carries in so many milliseconds, in whole MiB.
    pub(super) const fn bytes_in(&self, milliseconds: u64) -> u64 {
        let bytes = self.megabits * 125 * milliseconds;
        bytes.div_ceil(1 << 20) << 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_one_and_holds_a_round_trip_in_its_queue() {
        for line in LINES {
            let plan = line.plan().unwrap();
            let way = plan.config.up;
            let round_trip = 2.0 * way.delay.as_secs_f64();
            let under_way = line.megabits as f64 * 125_000.0 * round_trip;
            assert!((0.95..1.05).contains(&(way.queue_len_max as f64 / under_way)), "{}", line.name);
        }
        assert_eq!(LINES[3].bytes_in(4000), 48 << 20);
    }
}
