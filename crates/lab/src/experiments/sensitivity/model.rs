//! The queueing model that is drawn through the points.
//!
//! The server is an open network of one station with a queue (whatever saturates first) and stations without
//! (everything else: the line, disks that are not busy). With arrivals at random, a request spends on average
//! ```text
//! R(X) = D + S / (1 - X / C)
//! ```
//! at a delivered rate of `X`: `D` where nobody waits, and `S` at the queue, stretched by those before it; at the rate `C` it
//! saturates. The three numbers by which the papers describe a curve follow: the base response `R(0) = D + S`,
//! the slope there `S / C`, and the saturation point `C`. `C = 1 / S` for a single server without parallelism;
//! the fit leaves both free.

use crate::load::Level;

/// A fitted model. Times in milliseconds, rates per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Model {
    /// Where nobody waits.
    delay: f64,
    /// At the queue, if nobody else is there.
    service: f64,
    /// The rate at which the queue saturates.
    pub(super) saturation: f64,
}

/// How many saturation points are tried between the highest rate that was kept up with and ten times that.
const TRIED: i32 = 200;
/// A fitted saturation lies at least so far above the highest rate that was kept up with.
const ROOM: f64 = 1.02;

impl Model {
    /// Fits levels that kept up. `saturation` is the highest rate that was delivered under more load than could be
    /// served, if that was tried; else it is fitted, too. `None` from fewer than two levels.
    pub(super) fn fit(levels: &[Level], saturation: Option<f64>) -> Option<Self> {
        let points: Vec<(f64, f64)> = levels
            .iter()
            .filter(|level| level.keeps_up() && level.response_ms.mean > 0.0)
            .map(|level| (level.delivered, level.response_ms.mean))
            .collect();
        let highest = points.iter().map(|(x, _)| *x).fold(0.0, f64::max);
        if points.len() < 2 || highest <= 0.0 {
            return None;
        }
        let lowest = ROOM * highest;
        let tried: Vec<f64> = match saturation {
            Some(rate) => vec![rate.max(lowest)],
            None => (0..=TRIED).map(|n| lowest * 10_f64.powf(f64::from(n) / f64::from(TRIED))).collect(),
        };
        let fits = tried.into_iter().map(|rate| through(&points, rate));
        fits.min_by(|a, b| a.error(&points).total_cmp(&b.error(&points)))
    }

    /// The mean response at a delivered rate; `None` at and beyond saturation.
    pub(super) fn response(&self, rate: f64) -> Option<f64> {
        (rate < self.saturation).then(|| self.delay + self.service / (1.0 - rate / self.saturation))
    }

    /// The response without any load.
    pub(super) const fn base(&self) -> f64 {
        self.delay + self.service
    }

    /// Milliseconds that a further operation per second costs at low load.
    pub(super) const fn slope(&self) -> f64 {
        self.service / self.saturation
    }

    /// Sum of squares of relative errors.
    fn error(&self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|(x, r)| (self.response(*x).unwrap_or(f64::INFINITY) / r - 1.0).powi(2)).sum()
    }
}

/// Least squares of relative errors for a given saturation, with neither time below zero.
fn through(points: &[(f64, f64)], saturation: f64) -> Model {
    // Each point is divided by its response, so that errors are relative: r = D + S f becomes 1 = D (1/r) + S (f/r).
    let rows = points.iter().map(|(x, r)| (1.0 / r, 1.0 / (1.0 - x / saturation) / r));
    let (mut aa, mut ab, mut bb, mut a, mut b) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (delay, service) in rows {
        aa += delay * delay;
        ab += delay * service;
        bb += service * service;
        a += delay;
        b += service;
    }
    let determinant = aa * bb - ab * ab;
    let (delay, service) = ((a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant);
    match (delay.is_finite() && service.is_finite(), delay >= 0.0, service >= 0.0) {
        (true, true, true) => Model { delay, service, saturation },
        // The best that is allowed lies on the edge.
        (true, false, _) => Model { delay: 0.0, service: b / bb, saturation },
        _ => Model { delay: a / aa, service: 0.0, saturation },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;

    fn level(delivered: f64, response_ms: f64) -> Level {
        let (response_ms, p99_ms) = (Estimate::exact(response_ms), response_ms);
        Level { offered: delivered, delivered, response_ms, p99_ms, failed: 0 }
    }

    #[test]
    fn a_curve_of_the_model_gives_its_numbers_back_with_and_without_a_measured_saturation() {
        let truth = Model { delay: 2.0, service: 0.5, saturation: 1000.0 };
        let levels: Vec<Level> = [100.0, 400.0, 700.0, 900.0].map(|x| level(x, truth.response(x).unwrap())).to_vec();
        for saturation in [Some(1000.0), None] {
            let model = Model::fit(&levels, saturation).unwrap();
            assert!((model.base() / 2.5 - 1.0).abs() < 0.02, "{model:?}");
            assert!((model.slope() / 0.0005 - 1.0).abs() < 0.1, "{model:?}");
            assert!((model.saturation / 1000.0 - 1.0).abs() < 0.02, "{model:?}");
        }
    }

    #[test]
    fn a_flat_curve_has_no_slope_and_overloaded_levels_do_not_count() {
        let overloaded = Level { offered: 5000.0, ..level(900.0, 80.0) };
        let levels = [level(100.0, 3.0), level(500.0, 3.0), overloaded];
        let model = Model::fit(&levels, Some(950.0)).unwrap();
        assert!((model.base() - 3.0).abs() < 1e-6 && model.slope().abs() < 1e-6, "{model:?}");
        assert_eq!(model.response(960.0), None);
        assert_eq!(Model::fit(&levels[..1], None), None);
    }

    #[test]
    fn no_time_is_below_zero() {
        let falling = [level(100.0, 3.0), level(500.0, 2.0), level(900.0, 1.0)];
        let model = Model::fit(&falling, Some(1000.0)).unwrap();
        assert!(model.delay >= 0.0 && model.service >= 0.0 && model.base() > 0.0, "{model:?}");
    }
}
