//! Bytes, rates, durations and dates in words.

use std::time::{SystemTime, UNIX_EPOCH};
use wayfs_types::WallTime;

/// `512 B`, `1.5 KiB`, `10 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    scaled(count, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// `12 Mb/s`, as lines are sold.
pub(crate) fn bit_rate(bits_per_second: u64) -> String {
    scaled(bits_per_second, 1000.0, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s", "Eb/s"])
}

fn scaled(count: u64, base: f64, units: [&str; 7]) -> String {
    let mut value = count as f64;
    let mut unit = 0;
    // 999.5 would be written as 1000: it belongs to the next unit.
    while value >= base.min(999.5) && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    if unit == 0 || value >= 9.95 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// `0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `0.08 ms`, `1.2 ms`, `45 ms`.
pub(crate) fn milliseconds(ms: f64) -> String {
    match ms {
        small if small < 0.95 => format!("{small:.2} ms"),
        middle if middle < 9.5 => format!("{middle:.1} ms"),
        large => format!("{large:.0} ms"),
    }
}

/// `1 file`, `3 files`.
pub(crate) fn count(number: u64, one: &str) -> String {
    match (number, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (n, Some(stem)) => format!("{n} {stem}ies"),
        (n, None) => format!("{n} {one}s"),
    }
}

/// `2026-11-22 10:31:05 UTC`.
pub(crate) fn date(unix_ms: i64) -> String {
    let compact = WallTime::from_nanos(unix_ms.saturating_mul(1_000_000)).compact();
    match (compact.get(..8), compact.get(9..)) {
        (Some(day), Some(time)) if compact.len() == 15 => {
            let (year, month, day) = (&day[..4], &day[4..6], &day[6..]);
            format!("{year}-{month}-{day} {}:{}:{} UTC", &time[..2], &time[2..4], &time[4..])
        }
        _ => compact,
    }
}

/// This moment, in milliseconds since 1970, as ages are counted from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now(pub(crate) i64);

impl Now {
    pub(crate) fn by_clock() -> Self {
        Self(now_unix_ms())
    }
}

/// `2026-11-22 10:31:05 UTC (3 min ago)`.
pub(crate) fn date_and_age(unix_ms: i64, now: Now) -> String {
    format!("{} ({})", date(unix_ms), age(unix_ms, now))
}

/// `3 min ago`; a time to come (clocks lie) is `just now` up to a minute, else `by a clock that is ahead`.
pub(crate) fn age(unix_ms: i64, Now(now): Now) -> String {
    match now.saturating_sub(unix_ms) {
        past @ 0.. => format!("{} ago", duration(past.unsigned_abs())),
        -60_000..0 => "just now".to_owned(),
        _ => "by a clock that is ahead".to_owned(),
    }
}

/// This moment.
pub(crate) fn now_unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_rounded() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1023), "1.0 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(10 << 30), "10 GiB");
        assert_eq!(bytes(u64::MAX), "16 EiB");
        assert_eq!(bit_rate(94_700_000), "95 Mb/s");
        assert_eq!(milliseconds(0.083), "0.08 ms");
        assert_eq!(milliseconds(45.4), "45 ms");
        assert_eq!(count(1, "directory"), "1 directory");
        assert_eq!(count(2, "directory"), "2 directories");
        assert_eq!(count(0, "file"), "0 files");
    }

    #[test]
    fn durations_are_rounded() {
        let cases = [(420, "0.4 s"), (12_000, "12 s"), (180_000, "3 min"), (7_200_000, "2 h"), (200_000_000, "2 d")];
        for (ms, text) in cases {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn dates_and_ages() {
        assert_eq!(date(951_827_696_000), "2000-02-29 12:34:56 UTC");
        assert_eq!(age(0, Now(180_000)), "3 min ago");
        assert_eq!(age(5_000, Now(0)), "just now");
        assert_eq!(age(500_000, Now(0)), "by a clock that is ahead");
    }

    proptest! {
        #[test]
        fn any_number_has_words(number in any::<u64>(), time in any::<i64>(), ms in any::<f64>()) {
            let _ = (bytes(number), bit_rate(number), duration(number), date(time), age(time, Now(0)), milliseconds(ms));
        }
    }
}
