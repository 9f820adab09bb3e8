//! The plots.

use super::knob::Knob;
use super::sweep::{Curve, Sweep};
use crate::{Axis, Estimate, Figure, Origin, Point, Series, Style};

/// The share of its core that a burdened host spends on packets at most.
const BUSY_SHARE: f64 = 0.9;
/// Points of a model's curve.
const DRAWN: u32 = 60;

/// Response against delivered rate, a curve for each value, the model through each.
pub(super) fn curves(sweep: &Sweep) -> Figure {
    let knob = sweep.knob;
    let name = |curve: &Curve| format!("{} = {} {}", knob.letter(), curve.value, knob.unit());
    let mut series: Vec<Series> = sweep.curves.iter().map(|curve| measured(&name(curve), curve)).collect();
    series.extend(sweep.curves.iter().map(|curve| model(&name(curve), curve)));
    Figure {
        title: format!("{}: {}", sweep.name, knob.name()),
        x: Axis::linear("delivered", "operations/s"),
        y: Axis::logarithmic("mean response", "ms"),
        series,
        caption: format!(
            "Response time against what was delivered while the offered load rises, to more than can be served. Bars are 95 % intervals \
             of the rounds. The model: {MODEL}"
        ),
    }
}

const MODEL: &str = "R(X) = D + S / (1 - X/C), one queue that saturates at C and everything else without a queue, \
                     fitted to the loads that were kept up with.";

/// The response of one operation at a time against a parameter, for several systems.
pub(super) fn alone(title: &str, knob: Knob, sweeps: &[&Sweep], reference: Option<Series>) -> Figure {
    let points = |sweep: &Sweep| -> Vec<(f64, Estimate)> {
        sweep.curves.iter().map(|curve| (curve.value / 1000.0, drawn(&curve.alone()))).collect()
    };
    let mut series: Vec<Series> = sweeps
        .iter()
        .map(|sweep| Series::estimates(sweep.name, Style::Lines, Origin::Measured, points(sweep)))
        .collect();
    series.extend(reference);
    Figure {
        title: title.to_owned(),
        x: Axis::linear(knob.name(), &knob.unit().replacen("us", "ms", 1)),
        y: Axis::linear("mean response", "ms"),
        series,
        caption:
            "Mean response of one operation at a time; bars are 95 % intervals, if there are three rounds or more."
                .into(),
    }
}

/// An estimate to be drawn: the interval of two rounds is so wide that nothing else would be seen, and no response is below zero.
fn drawn(rounds: &[f64]) -> Estimate {
    let estimate = Estimate::of(rounds);
    match rounds {
        [] | [_] | [_, _] => Estimate::exact(estimate.mean),
        _ => Estimate { low: estimate.low.max(0.0), ..estimate },
    }
}

/// The saturation point against the overhead, for several systems.
pub(super) fn saturations(sweeps: &[&Sweep]) -> Figure {
    let points = |sweep: &Sweep| -> Vec<(f64, Estimate)> {
        sweep.curves.iter().map(|curve| (curve.value, curve.saturation())).collect()
    };
    let measured =
        sweeps.iter().map(|sweep| Series::estimates(sweep.name, Style::Lines, Origin::Measured, points(sweep)));
    let expected = sweeps.iter().map(|sweep| Series::new(sweep.name, Style::Curve, Origin::Model, expected(sweep)));
    Figure {
        title: "Saturation and overhead".into(),
        x: Axis::linear(Knob::Overhead.name(), Knob::Overhead.unit()),
        y: Axis::logarithmic("most that was delivered", "operations/s"),
        series: measured.chain(expected).collect(),
        caption: "The most that was delivered at any offered load. The model: the server's time per operation without overhead, and o / 0.9 for each packet that was \
                  counted on the line per operation; nothing is fitted."
            .into(),
    }
}

/// What saturation should be if each packet costs its overhead on top of what an operation costs without.
fn expected(sweep: &Sweep) -> Vec<(f64, f64)> {
    let Some(first) = sweep.curves.first().map(|curve| curve.saturation().mean).filter(|rate| *rate > 0.0) else {
        return Vec::new();
    };
    let packets = |curve: &Curve| curve.value * 1e-6 * curve.packets / BUSY_SHARE;
    sweep.curves.iter().map(|curve| (curve.value, 1.0 / (1.0 / first + packets(curve)))).collect()
}

fn measured(name: &str, curve: &Curve) -> Series {
    let point = |level: &crate::load::Level| Point {
        x: level.delivered,
        y: level.response_ms.mean,
        interval: Some((level.response_ms.low.max(0.0), level.response_ms.high)),
    };
    // Lines follow the load, not the delivered rate: past saturation they turn back.
    Series {
        name: name.to_owned(),
        style: Style::Lines,
        origin: Origin::Measured,
        points: curve.levels.iter().map(point).collect(),
    }
}

fn model(name: &str, curve: &Curve) -> Series {
    let highest = curve.levels.iter().filter(|level| level.keeps_up()).map(|level| level.delivered).fold(0.0, f64::max);
    let points = curve.model.iter().flat_map(|model| {
        (0..=DRAWN).filter_map(move |n| {
            let rate = highest * f64::from(n) / f64::from(DRAWN);
            model.response(rate).map(|response| (rate, response))
        })
    });
    Series::new(name, Style::Curve, Origin::Model, points)
}
