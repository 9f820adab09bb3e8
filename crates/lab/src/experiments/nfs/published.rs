//! What was published: seconds for 1 MB in blocks of 4096 bytes (1995, tables 1 to 9). The figures of 1996 are not in our text of it.

use super::plan::{BOTH, BOTH_REAL, Condition, HELD, HYBRID, NO_CHANGES, REAL, Way};

/// Row, way, clients, mean bad period in milliseconds; shortest, mean and longest time in seconds.
const TABLES: [(&str, Way, usize, u64, [f64; 3]); 26] = [
    (NO_CHANGES, Way::Read, 1, 0, [30.1, 30.7, 32.2]),
    (NO_CHANGES, Way::Write, 1, 0, [13.9, 14.2, 14.9]),
    (NO_CHANGES, Way::Read, 1, 40, [43.3, 49.2, 51.9]),
    (NO_CHANGES, Way::Read, 1, 80, [54.8, 67.7, 78.4]),
    (NO_CHANGES, Way::Write, 1, 40, [22.5, 24.7, 27.7]),
    (NO_CHANGES, Way::Write, 1, 80, [33.4, 45.5, 54.4]),
    (HYBRID, Way::Read, 1, 40, [42.1, 48.0, 54.4]),
    (HYBRID, Way::Read, 1, 80, [43.8, 48.7, 52.9]),
    (HYBRID, Way::Write, 1, 40, [21.9, 24.6, 26.7]),
    (HYBRID, Way::Write, 1, 80, [22.6, 24.4, 27.5]),
    (HELD, Way::Read, 1, 40, [35.1, 38.3, 41.8]),
    (HELD, Way::Read, 1, 80, [31.1, 31.7, 33.5]),
    (HELD, Way::Write, 1, 40, [14.2, 16.9, 20.0]),
    (HELD, Way::Write, 1, 80, [15.0, 15.3, 15.6]),
    (BOTH, Way::Read, 1, 40, [34.0, 37.0, 42.2]),
    (BOTH, Way::Read, 1, 80, [31.3, 31.9, 33.2]),
    (BOTH, Way::Write, 1, 40, [15.3, 16.7, 18.0]),
    (BOTH, Way::Write, 1, 80, [14.3, 14.8, 15.1]),
    (NO_CHANGES, Way::Read, 2, 40, [50.0, 56.1, 64.5]),
    (NO_CHANGES, Way::Read, 2, 80, [52.3, 61.9, 70.4]),
    (NO_CHANGES, Way::Write, 2, 40, [35.9, 46.1, 51.6]),
    (NO_CHANGES, Way::Write, 2, 80, [31.7, 45.0, 68.1]),
    (BOTH, Way::Read, 2, 40, [30.6, 33.4, 36.9]),
    (BOTH, Way::Read, 2, 80, [32.9, 35.2, 38.5]),
    (BOTH, Way::Write, 2, 40, [20.0, 25.3, 34.4]),
    (BOTH, Way::Write, 2, 80, [20.5, 25.5, 30.2]),
];

/// Kilobits per second of one read at 160 ms, without and with both (1996, figure 9).
pub(super) const FIGURE_9_KBPS: [f64; 2] = [84.0, 192.0];
/// By how many per cent two clients gained at most, reading and writing.
pub(super) const TWO_CLIENTS_GAIN: [f64; 2] = [43.0, 45.0];

/// Shortest, mean and longest published time of a cell. The real tool stands beside what the papers emulated.
pub(super) fn seconds(row: &str, condition: &Condition) -> Option<[f64; 3]> {
    let row = match row {
        REAL => HELD,
        BOTH_REAL => BOTH,
        other => other,
    };
    let same = |(name, way, clients, bad_ms, _): &&(&str, Way, usize, u64, [f64; 3])| {
        (*name, *way, *clients, *bad_ms) == (row, condition.way, condition.clients, condition.bad_ms)
    };
    TABLES.iter().find(same).map(|(_, _, _, _, seconds)| *seconds)
}
