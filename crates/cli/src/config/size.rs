//! Sizes as people write them.

use crate::failure::Failure;

/// Reads `10GiB`, `500M`, `1.5 TiB`, `4096`. Letters alone and with `iB` are powers of 1024, with `B` powers of 1000.
pub(crate) fn parse_size(text: &str) -> Result<u64, Failure> {
    let wrong = || Failure::usage(format_args!("`{text}` is no size"), "Write it like 10GiB, 500MB or 4096 (bytes).");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let (letter, base) = match unit.as_str() {
        "" | "b" => ("", 1024_f64),
        u if u.ends_with("ib") => (&unit[..unit.len() - 2], 1024.0),
        u if u.ends_with('b') => (&unit[..unit.len() - 1], 1000.0),
        u => (u, 1024.0),
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(wrong()),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = value * base.powi(power);
    // Beyond 2^60 it is a typing error.
    if !(0.0..=1e18).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("4096").unwrap(), 4096);
        assert_eq!(parse_size("10GiB").unwrap(), 10 << 30);
        assert_eq!(parse_size("10g").unwrap(), 10 << 30);
        assert_eq!(parse_size("500 MB").unwrap(), 500_000_000);
        assert_eq!(parse_size("1.5k").unwrap(), 1536);
        assert_eq!(parse_size("7B").unwrap(), 7);
        for wrong in ["", "G", "-1", "1 X", "1..2", "99999999999P", "nan"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,20}") {
            let _ = parse_size(&text);
        }
    }
}
