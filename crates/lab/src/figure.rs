//! What a plot shows, apart from how it is drawn.

use serde::{Deserialize, Serialize};

/// A plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// A sentence or two below it: what to see, what intervals mean.
    pub caption: String,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// In which unit; empty if in none.
    pub unit: String,
    /// How values are spread over it.
    pub scale: Scale,
}

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// Evenly. Begins at zero unless the values lie far from it.
    Linear,
    /// By their logarithm; values of zero and below are left out.
    Logarithmic,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Whose numbers they are.
    pub origin: Origin,
    /// In the order of drawing.
    pub points: Vec<Point>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Style {
    /// Points only.
    Points,
    /// Points joined by lines.
    Lines,
    /// A line without points.
    Curve,
    /// A line that keeps its height until the next point (cumulative shares, states).
    Steps,
}

/// Whose numbers they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Measured here.
    Measured,
    /// Published by others: drawn hollow and dashed.
    Published,
    /// Calculated from a model: drawn dotted.
    Model,
}

/// A point, with an interval if one is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// Ends of the interval of `y`.
    pub interval: Option<(f64, f64)>,
}

impl Axis {
    /// An evenly spread axis.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), scale: Scale::Linear }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: &str, unit: &str) -> Self {
        Self { scale: Scale::Logarithmic, ..Self::linear(label, unit) }
    }
}

impl Series {
    /// A series of points without intervals.
    pub fn new(name: &str, style: Style, origin: Origin, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, interval: None }).collect();
        Self { name: name.to_owned(), style, origin, points }
    }

    /// A series of estimates with their intervals.
    pub fn estimates(
        name: &str,
        style: Style,
        origin: Origin,
        points: impl IntoIterator<Item = (f64, crate::Estimate)>,
    ) -> Self {
        let point = |(x, e): (f64, crate::Estimate)| Point {
            x,
            y: e.mean,
            interval: (e.samples > 1).then_some((e.low, e.high)),
        };
        Self { name: name.to_owned(), style, origin, points: points.into_iter().map(point).collect() }
    }

    /// The cumulative share of samples, thinned to at most about 500 steps.
    pub fn cumulative(name: &str, origin: Origin, mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        let every = (count / 500).max(1);
        let kept = samples.into_iter().enumerate().filter(|(i, _)| i % every == 0 || i + 1 == count);
        Self::new(name, Style::Steps, origin, kept.map(|(i, x)| (x, (i + 1) as f64 / count as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cumulative_share_ends_at_one_and_is_thinned() {
        let series = Series::cumulative("all", Origin::Measured, (0..10_000).rev().map(f64::from).collect());
        assert!(series.points.len() <= 502);
        let last = series.points.last().unwrap();
        assert_eq!((last.x, last.y), (9999.0, 1.0));
        assert!(series.points.is_sorted_by_key(|point| point.y));
    }
}
