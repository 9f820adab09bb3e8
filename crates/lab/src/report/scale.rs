//! From values to places on an axis, and where its marks are.

use crate::figure::Scale;

/// An axis with its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Range {
    /// An axis that shows all values. Linear ones begin at zero unless that would waste more than half of them.
    pub(crate) fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let usable = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high) =
            values.filter(usable).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match scale {
            Scale::Linear => {
                if low > 0.0 && low < 0.5 * high {
                    low = 0.0;
                }
                let step = step(high - low);
                (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
                if low >= high {
                    (low, high) = (low - step, high + step);
                }
            }
            Scale::Logarithmic => {
                (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()));
                if low >= high {
                    high = low * 10.0;
                }
            }
        }
        Self { scale, low, high }
    }

    /// Where a value lies, 0 to 1; `None` off a logarithmic axis.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Linear => Some((value - self.low) / (self.high - self.low)),
            Scale::Logarithmic if value > 0.0 => Some((value / self.low).log10() / (self.high / self.low).log10()),
            Scale::Logarithmic => None,
        }
    }

    /// Values that get a mark with a number.
    pub(crate) fn marks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low);
                let count = ((self.high - self.low) / step).round() as usize;
                (0..=count).map(|n| self.low + n as f64 * step).collect()
            }
            Scale::Logarithmic => {
                let decades = (self.high / self.low).log10().round() as i32;
                let every = (decades / 8 + 1) as usize;
                let first = self.low.log10().round() as i32;
                let powers = (first..=first + decades).step_by(every);
                let within: &[f64] = if decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let all = powers.flat_map(|power| within.iter().map(move |m| m * 10_f64.powi(power)));
                all.filter(|value| *value <= self.high * 1.000_001).collect()
            }
        }
    }
}

/// A round distance of marks: 1, 2 or 5 times a power of ten, five to ten of them.
fn step(span: f64) -> f64 {
    if span <= 0.0 || !span.is_finite() {
        return 1.0;
    }
    let rough = span / 8.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = match rough / power {
        f if f <= 1.0 => 1.0,
        f if f <= 2.0 => 2.0,
        f if f <= 5.0 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// A number as short as its size allows.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        0.0 => return "0".to_owned(),
        s if !(1e-3..1e6).contains(&s) => return format!("{value:.2e}"),
        s if s >= 1000.0 => format!("{value:.0}"),
        s if s >= 100.0 => format!("{value:.1}"),
        s if s >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_has_round_marks_and_holds_everything() {
        let range = Range::of(Scale::Linear, [3.0, 97.0].into_iter());
        assert_eq!(range.place(0.0), Some(0.0));
        assert_eq!(range.marks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let far = Range::of(Scale::Linear, [1000.0, 1010.0].into_iter());
        assert_eq!(far.place(1000.0), Some(0.0));
    }

    #[test]
    fn a_logarithmic_axis_goes_by_decades_and_leaves_zero_out() {
        let range = Range::of(Scale::Logarithmic, [0.0, 3.0, 2000.0].into_iter());
        assert_eq!(range.marks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(range.place(0.0), None);
        assert!((range.place(100.0).unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn axes_of_nothing_and_of_one_value_can_be_drawn() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            for values in [vec![], vec![0.0], vec![5.0], vec![f64::NAN]] {
                let range = Range::of(scale, values.into_iter());
                assert!(range.low < range.high, "{range:?}");
                assert!(range.marks().len() >= 2, "{range:?}");
            }
        }
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 12.5, 100.0, 1234.6, 0.05, 2e7, -3.0].map(short);
        assert_eq!(numbers, ["0", "12.5", "100", "1235", "0.05", "2.00e7", "-3"]);
    }
}
