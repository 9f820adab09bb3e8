//! A mean and how sure of it we are.

use serde::{Deserialize, Serialize};

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond, the normal's.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The normal's.
const Z_95: f64 = 1.960;

/// A mean with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// How many samples.
    pub samples: u64,
}

/// How often something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hits {
    /// It did.
    pub hits: u64,
    /// It could have.
    pub trials: u64,
}

impl Estimate {
    /// A number without uncertainty: counted, or measured once.
    pub const fn exact(value: f64) -> Self {
        Self { mean: value, low: value, high: value, samples: 1 }
    }

    /// A quantile with its 95 % interval by the ranks of the samples, which holds whatever their distribution.
    pub(crate) fn quantile(samples: &mut [f64], share: f64) -> Self {
        let value = quantile(samples, share);
        let count = samples.len() as f64;
        if samples.len() < 2 {
            return Self { samples: samples.len() as u64, ..Self::exact(value) };
        }
        // How many samples lie below the quantile is binomial; 1.96 standard deviations to each side.
        let half = 1.96 * (count * share * (1.0 - share)).sqrt();
        let at = |rank: f64| samples[(rank.max(1.0) as usize).min(samples.len()) - 1];
        let (low, high) = (at((count * share - half).floor()), at((count * share + half).ceil() + 1.0));
        Self { mean: value, low, high, samples: samples.len() as u64 }
    }

    /// Of independent samples, by Student's t. One sample has no interval, none is zero.
    pub fn of(samples: &[f64]) -> Self {
        let count = samples.len();
        if count < 2 {
            return Self { samples: count as u64, ..Self::exact(samples.first().copied().unwrap_or_default()) };
        }
        let mean = samples.iter().sum::<f64>() / count as f64;
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
        let half = student(count - 1) * (variance / count as f64).sqrt();
        Self { mean, low: mean - half, high: mean + half, samples: count as u64 }
    }

    /// Of the share of hits, by Wilson's interval.
    pub fn share(Hits { hits, trials }: Hits) -> Self {
        if trials == 0 {
            return Self { samples: 0, ..Self::exact(0.0) };
        }
        let (n, p) = (trials as f64, hits as f64 / trials as f64);
        let squared = Z_95 * Z_95;
        let centre = (p + squared / (2.0 * n)) / (1.0 + squared / n);
        let half = Z_95 / (1.0 + squared / n) * (p * (1.0 - p) / n + squared / (4.0 * n * n)).sqrt();
        Self { mean: p, low: (centre - half).max(0.0), high: (centre + half).min(1.0), samples: trials }
    }

    /// The same in another unit.
    pub fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, low: self.low * factor, high: self.high * factor, ..self }
    }

    /// This by another that is not zero, both independent: the relative half widths of their intervals add up as squares.
    pub fn over(self, other: &Self) -> Self {
        let mean = self.mean / other.mean;
        let relative = |it: &Self| (it.high - it.low) / 2.0 / it.mean;
        let half = mean * relative(&self).hypot(relative(other));
        // Without an interval of either, the quotient has none that would mean anything.
        let samples = self.samples.min(other.samples);
        if samples < 2 {
            Self { samples, ..Self::exact(mean) }
        } else {
            Self { mean, low: mean - half, high: mean + half, samples }
        }
    }

    /// Whether the interval holds a value.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Two-sided 95 % quantile of Student's t; endless for no degree of freedom.
pub(crate) fn student(degrees_of_freedom: usize) -> f64 {
    match degrees_of_freedom.checked_sub(1) {
        Some(place) => T_95.get(place).copied().unwrap_or(Z_95),
        None => f64::INFINITY,
    }
}

/// The value that a share of samples does not exceed (nearest rank); zero of none. Sorts them.
pub(crate) fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let rank = (share * samples.len() as f64).ceil().max(1.0) as usize;
    samples.get(rank.min(samples.len()).saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_interval_is_the_textbooks() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((estimate.mean - 3.0).abs() < 1e-9);
        // 2.776 * sqrt(2.5 / 5)
        assert!((estimate.high - 3.0 - 1.963).abs() < 0.001, "{estimate:?}");
        assert_eq!(Estimate::of(&[7.0]).high, 7.0);
        assert_eq!(Estimate::of(&[]).samples, 0);
    }

    #[test]
    fn wilsons_interval_is_the_textbooks_and_stays_within_zero_and_one() {
        let estimate = Estimate::share(Hits { hits: 10, trials: 100 });
        assert!((estimate.low - 0.0552).abs() < 0.0005 && (estimate.high - 0.1744).abs() < 0.0005, "{estimate:?}");
        assert_eq!(Estimate::share(Hits { hits: 0, trials: 10 }).low, 0.0);
        assert!(Estimate::share(Hits { hits: 0, trials: 10 }).high > 0.2);
    }

    #[test]
    fn a_quotient_is_as_unsure_as_both_its_parts() {
        let part = |mean: f64, half: f64| Estimate { mean, low: mean - half, high: mean + half, samples: 5 };
        let quotient = part(20.0, 0.6).over(&part(10.0, 0.4));
        assert!((quotient.mean - 2.0).abs() < 1e-9);
        assert!((quotient.high - 2.1).abs() < 1e-9 && (quotient.low - 1.9).abs() < 1e-9, "{quotient:?}");
        assert_eq!(part(20.0, 0.6).over(&Estimate::exact(10.0)).high, 2.0);
    }

    #[test]
    fn the_interval_of_a_median_is_the_textbooks() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let median = Estimate::quantile(&mut samples, 0.5);
        // Ranks 40 and 61 of 100: Conover, Practical Nonparametric Statistics, by the normal approximation.
        assert_eq!((median.low, median.mean, median.high), (40.0, 50.0, 61.0));
        let tail = Estimate::quantile(&mut samples, 0.99);
        assert_eq!((tail.mean, tail.high), (99.0, 100.0));
        assert_eq!(Estimate::quantile(&mut [7.0], 0.5).mean, 7.0);
    }

    #[test]
    fn quantiles_are_samples() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.99), 3.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
