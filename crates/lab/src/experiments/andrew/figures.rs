//! The plots.

use super::BASE;
use super::phases::PHASES;
use super::results::{Results, State};
use super::rows::published;
use super::trial::OURS;
use crate::{Axis, Estimate, Figure, Origin, Profile, Series, Style};

/// Not in plots over the round trip: its bandwidth is what makes it slow.
const NO_MATTER_OF_DISTANCE: &str = "low-bandwidth";

/// All of them.
pub(super) fn figures(results: &Results) -> Vec<Figure> {
    vec![relative(results), absolute(results), by_phase(results)]
}

/// Scenarios by what their wide area adds to a round trip, in milliseconds.
fn distances(results: &Results) -> Vec<(f64, &'static str)> {
    let mut found: Vec<(f64, &'static str)> = results
        .scenarios()
        .into_iter()
        .filter(|name| *name != NO_MATTER_OF_DISTANCE)
        .filter_map(|name| Some((Profile::named(name)?.delay_us as f64 / 500.0, name)))
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}

fn relative(results: &Results) -> Figure {
    let mut series = Vec::new();
    for state in State::BOTH {
        let Some(base) = results.total(OURS, BASE, state) else { continue };
        let ours = |(x, name): (f64, &'static str)| Some((x, results.total(OURS, name, state)?.over(&base)));
        let points: Vec<(f64, Estimate)> = distances(results).into_iter().filter_map(ours).collect();
        series.push(Series::estimates(&format!("{OURS}, {}", state.name()), Style::Lines, Origin::Measured, points));
        let theirs = |(x, name): (f64, &'static str)| Some((x, published(name, state)?));
        let points: Vec<(f64, f64)> = distances(results).into_iter().filter_map(theirs).collect();
        let name = format!("published prototype, {}", state.name());
        series.push(Series::new(&name, Style::Points, Origin::Published, points));
    }
    Figure {
        title: "Running time by that of the local area".into(),
        x: Axis::linear("round trip that the wide area adds", "ms"),
        y: Axis::linear("running time by that of the local area", ""),
        series,
        caption: "Bars: 95 % intervals over trials. Distances differ in bandwidth, too (see `wayfs lab profiles`); low-bandwidth is in the table.".into(),
    }
}

fn absolute(results: &Results) -> Figure {
    let mut series = Vec::new();
    for system in results.systems() {
        for state in State::BOTH {
            let point = |(x, name): (f64, &'static str)| Some((x, results.total(system, name, state)?));
            let points: Vec<(f64, Estimate)> = distances(results).into_iter().filter_map(point).collect();
            if !points.is_empty() {
                let name = format!("{system}, {}", state.name());
                series.push(Series::estimates(&name, Style::Lines, Origin::Measured, points));
            }
        }
    }
    Figure {
        title: "Running time beside peers".into(),
        x: Axis::linear("round trip that the wide area adds", "ms"),
        y: Axis::logarithmic("all five phases", "s"),
        series,
        caption: "Runs that were given up stand at the time after which they were: they take longer.".into(),
    }
}

fn by_phase(results: &Results) -> Figure {
    let local = (0..PHASES.len()).filter_map(|phase| Some((phase as f64 + 1.0, results.local_phase(phase)?)));
    let mut series = vec![Series::estimates("local disk", Style::Points, Origin::Measured, local)];
    for system in results.systems() {
        let point = |phase: usize| Some((phase as f64 + 1.0, results.phase(system, BASE, State::Warm, phase)?));
        let points: Vec<(f64, Estimate)> = (0..PHASES.len()).filter_map(point).collect();
        series.push(Series::estimates(&format!("{system}, warm"), Style::Points, Origin::Measured, points));
    }
    let names: Vec<String> =
        PHASES.iter().enumerate().map(|(at, phase)| format!("{}: {}", at + 1, phase.name)).collect();
    Figure {
        title: "Phases in the local area".into(),
        x: Axis::linear("phase", ""),
        y: Axis::logarithmic("time of the phase", "s"),
        series,
        caption: format!("{}.", names.join(", ")),
    }
}
