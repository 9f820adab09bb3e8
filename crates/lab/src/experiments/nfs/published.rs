//! What was published: seconds for 1 MB in blocks of 4096 bytes (1995, tables 1 and 2).

use super::measure::Way;

/// Client, way, mean bad period in milliseconds, mean seconds.
const TABLE: [(&str, Way, u64, f64); 8] = [
    ("no changes", Way::Read, 40, 49.2),
    ("no changes", Way::Read, 80, 67.7),
    ("hybrid", Way::Read, 40, 48.0),
    ("hybrid", Way::Read, 80, 48.7),
    ("no changes", Way::Write, 40, 24.7),
    ("no changes", Way::Write, 80, 45.5),
    ("hybrid", Way::Write, 40, 24.6),
    ("hybrid", Way::Write, 80, 24.4),
];

/// The published time of a cell.
pub(super) fn seconds(client: &str, way: Way, bad_ms: u64) -> Option<f64> {
    let zero = match way {
        Way::Read => 30.7,
        Way::Write => 14.2,
    };
    let found = TABLE.iter().find(|(name, of, bad, _)| *name == client && *of == way && *bad == bad_ms);
    found.map(|(_, _, _, seconds)| *seconds).or((client == "no changes" && bad_ms == 0).then_some(zero))
}
