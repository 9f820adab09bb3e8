//! How much one number grows with another: a straight line through samples, with the interval of its slope.

use crate::Estimate;
use crate::estimate::student;

/// The slope of the line of least squares through pairs `(x, y)`. No interval, but `samples` 0, if all `x` are alike or fewer
/// than three pairs are given.
pub(super) fn slope(pairs: &[(f64, f64)]) -> Estimate {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count.max(1.0);
    let (x_mean, y_mean) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let spread: f64 = pairs.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    if pairs.len() < 3 || spread <= 0.0 {
        return Estimate { samples: 0, ..Estimate::exact(0.0) };
    }
    let slope = pairs.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>() / spread;
    let rest: f64 = pairs.iter().map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2)).sum();
    let freedom = pairs.len() - 2;
    let half = student(freedom) * (rest / freedom as f64 / spread).sqrt();
    Estimate { mean: slope, low: slope - half, high: slope + half, samples: pairs.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_its_slope_and_noise_an_interval_that_holds_it() {
        let exact: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), 3.0 * f64::from(x) + 1.0)).collect();
        let found = slope(&exact);
        assert!((found.mean - 3.0).abs() < 1e-9 && found.high - found.low < 1e-6, "{found:?}");
        let noisy: Vec<(f64, f64)> =
            exact.iter().enumerate().map(|(n, (x, y))| (*x, y + if n % 2 == 0 { 0.7 } else { -0.7 })).collect();
        let found = slope(&noisy);
        assert!(found.holds(3.0) && !found.holds(0.0) && found.high > found.low, "{found:?}");
    }

    #[test]
    fn noise_without_a_line_holds_zero() {
        let flat: Vec<(f64, f64)> = (0..20).map(|n| (f64::from(n / 4), f64::from(n % 4))).collect();
        assert!(slope(&flat).holds(0.0));
        assert_eq!(slope(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]).samples, 0);
        assert_eq!(slope(&[]).samples, 0);
    }
}
