//! A moment in the past, as people and programs write it.

use crate::show::now_unix_ms;

/// Milliseconds since 1970 of `10m` ago, of `2026-11-30T08:00:00Z`, or of the number itself (`unix_ms` of an event).
///
/// # Errors
/// What is neither, in words.
pub(super) fn since(text: &str) -> Result<i64, String> {
    let number = text.parse::<u32>().is_err().then(|| text.parse::<i64>().ok()).flatten();
    number.or_else(|| ago(text).map(|ms| now_unix_ms().saturating_sub(ms))).or_else(|| moment(text)).ok_or_else(|| {
        "no time: say how long ago (90s, 10m, 2h, 1d), a moment (2026-11-30T08:00:00Z), or an event's unix_ms"
            .to_owned()
    })
}

/// `90s`, `10m`, `2h`, `1d` in milliseconds.
fn ago(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u32>().ok().map(|number| i64::from(number) * unit)
}

/// `2026-11-30T08:00:00Z`, also with a space between and ` UTC` behind, as the tools print it.
fn moment(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix(" UTC"))?;
    let (date, time) = text.split_once(['T', ' '])?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let is_date = (1970..=2262).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_since_1970(Date { year, month, day }) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(seconds * 1_000)
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let parts: Option<Vec<i64>> = text.split(between).map(|part| part.parse::<u16>().ok().map(i64::from)).collect();
    parts?.try_into().ok()
}

/// Of the Gregorian calendar.
struct Date {
    year: i64,
    /// From 1.
    month: i64,
    /// From 1.
    day: i64,
}

/// The year begins in March, so that the leap day is its last.
fn days_since_1970(Date { year, month, day }: Date) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    year * 365 + year / 4 - year / 100 + year / 400 + (month_from_march * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::date;

    #[test]
    fn moments_are_read_as_they_are_printed() {
        for ms in [0, 951_827_696_000, 1_709_210_096_000, 1_795_737_600_000] {
            assert_eq!(since(&date(ms)), Ok(ms));
            assert_eq!(since(&date(ms).replacen(' ', "T", 1).replace(" UTC", "Z")), Ok(ms));
        }
        assert_eq!(since("1795737600123"), Ok(1_795_737_600_123));
        let hour_ago = now_unix_ms() - since("60m").unwrap();
        assert!((3_600_000..3_700_000).contains(&hour_ago), "{hour_ago}");
        assert_eq!(ago("2h"), ago("120m"));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in
            ["", "m", "10", "10x", "-5m", "1.5h", "2026-11-30", "2026-13-01T00:00:00Z", "2026-11-30T08:00Z", "é", "10é"]
        {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
