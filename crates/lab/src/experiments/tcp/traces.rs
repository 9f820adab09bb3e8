//! Windows over time: why the schemes differ.

use super::measure::run_all;
use super::{Which, schemes};
use crate::wireless::Trace;
use crate::{Axis, Context, Figure, LabError, Origin, Series, Style};

/// A line of a plot: its name, the scheme, and which number.
type Line = (&'static str, &'static str, fn(&Trace) -> f64);

/// The published plots of windows.
const PLOTS: [(&str, &[Line], &str); 4] = [
    (
        "Congestion window: LL and snoop",
        &[("LL", "LL", |trace| trace.cwnd), ("snoop", "LL-TCP-AWARE", |trace| trace.cwnd)],
        "The sender of LL sees duplicates of what the hop repairs, and halves its window for each; that of snoop never does.",
    ),
    (
        "Congestion window: end to end, without and with notices of loss",
        &[("E2E", "E2E", |trace| trace.cwnd), ("E2E-ELN", "E2E-ELN", |trace| trace.cwnd)],
        "With a notice that a loss was no congestion the window stays; only the timer still collapses it.",
    ),
    (
        "Congestion windows: both sides of SPLIT",
        &[("wired", "SPLIT", |trace| trace.cwnd), ("wireless", "SPLIT", |trace| trace.cwnd_air)],
        "The wired side keeps a large window that it cannot use: the base station takes no more than the wireless side gives on.",
    ),
    (
        "Window that SPLIT advertises to the wired sender",
        &[("advertised", "SPLIT", |trace| trace.advertised)],
        "Published: 14 KB on the average, of a bandwidth times delay of 25 to 30 KB.",
    ),
];

/// The plots of a column with sockets of 32 KB, and their raw data.
pub(super) fn figures(context: &mut Context<'_>, which: Which) -> Result<Vec<Figure>, LabError> {
    let setting = if which == Which::Wan { schemes::wan(32_768) } else { schemes::lan(32_768) };
    let mut csv = context.csv("windows", &["plot", "line", "at_s", "window_kb"])?;
    let len = context.choose(1 << 20, 8 << 20);
    let mut figures = Vec::new();
    for (title, lines, caption) in PLOTS {
        let mut series = Vec::new();
        for (name, scheme, value) in lines {
            let row = schemes::row(scheme).ok_or_else(|| LabError::Experiment(format!("{scheme} is no scheme")))?;
            let outcome = run_all(&[row.transfer(&setting, len, context.seed())]).remove(0);
            let points: Vec<(f64, f64)> = outcome.trace.iter().map(|trace| (trace.at, value(trace))).collect();
            for (at, window) in &points {
                csv.row(&[title.to_owned(), (*name).to_owned(), at.to_string(), window.to_string()])?;
            }
            let mean = points.iter().map(|(_, window)| window).sum::<f64>() / points.len().max(1) as f64;
            series.push(Series::new(&format!("{name}, mean {mean:.1} KB"), Style::Steps, Origin::Measured, points));
        }
        figures.push(Figure {
            title: title.to_owned(),
            x: Axis::linear("time", "s"),
            y: Axis::linear("window", "KB"),
            series,
            caption: caption.to_owned(),
        });
    }
    csv.finish()?;
    Ok(figures)
}
