//! What the cells say: rows, plots, words, raw data.

use super::cell::Cell;
use super::{Extent, Load, PERIOD};
use crate::{Aim, Axis, Context, Estimate, Figure, Findings, LabError, Origin, Row, Series, Style, Verdict};

/// What a lag behind a backlog is to be at most beyond a round trip. On the thinnest line one packet takes longer.
const BEYOND_MAX_MS: f64 = 200.0;
/// Below this share of the line, the backlog was not what the small files had to compete with.
const USED_MIN: f64 = 50.0;

pub(super) fn tell(context: &mut Context<'_>, extent: &Extent, cells: &[Cell]) -> Result<Findings, LabError> {
    write(context, cells)?;
    let rows = rows(cells);
    Ok(Findings {
        expected: expected(extent),
        came_out: came_out(cells, &rows),
        why_they_differ: why(cells),
        figures: vec![
            cumulative(cells, Load::Idle, "Lag with nothing else to do"),
            cumulative(cells, Load::Backlog, "Lag behind the backlog"),
            over_time(cells),
        ],
        rows,
    })
}

fn expected(extent: &Extent) -> String {
    format!(
        "A record that finds the line to the home idle is kept for 50 ms for what may undo it, crosses to the home, is ordered and stored there, and \
         its image crosses to the other station: one round trip of the wide area (once up, once down), 50 ms, and three group commits. If earlier \
         records are still under way, it waits until they are acknowledged, at most {} s. The bound is two such periods and a round trip. \
         A backlog of {:.0} MB should change little: frames with records go before contents, so they wait only for what the sender has already put \
         into the queue of the line, and that should be a fraction of a second.",
        PERIOD.as_secs(),
        extent.backlog_len as f64 / 1e6,
    )
}

fn rows(cells: &[Cell]) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in cells {
        let (name, load) = (cell.scenario.name, cell.load.name());
        let bound_ms = cell.scenario.bound().as_secs_f64() * 1000.0;
        let rtt = cell.rtt_ms.map_or(String::new(), |rtt| {
            format!(
                "; the session's round trip at the end: {rtt:.0} ms, of the line alone {:.0} ms",
                round_trip_ms(cell)
            )
        });
        rows.push(Row::new(format!("lag, {name}, {load}, p50"), "ms", cell.quantile_ms(0.5)));
        rows.push(
            Row::new(format!("lag, {name}, {load}, p99"), "ms", cell.quantile_ms(0.99))
                .aim(Aim::AtMost(bound_ms))
                .note(format!("bound: two periods and a round trip{rtt}")),
        );
        if cell.load == Load::Backlog {
            let (p99, trip) = (cell.quantile_ms(0.99), round_trip_ms(cell));
            let beyond = Estimate { mean: p99.mean - trip, low: p99.low - trip, high: p99.high - trip, ..p99 };
            rows.push(
                Row::new(format!("lag beyond a round trip, {name}, {load}, p99"), "ms", beyond)
                    .aim(Aim::AtMost(BEYOND_MAX_MS))
                    .note("contents are to delay what is closed by no more than this"),
            );
            rows.push(
                Row::new(format!("line used meanwhile, {name}, {load}"), "%", Estimate::exact(100.0 * cell.used))
                    .aim(Aim::AtLeast(USED_MIN))
                    .note("that there was a backlog indeed"),
            );
        }
    }
    let failures: u64 = cells.iter().map(Cell::failures).sum();
    let all: u64 = cells.iter().map(|cell| cell.samples.len() as u64).sum();
    rows.push(
        Row::new("closes that were never seen or read wrong", "", Estimate::exact(failures as f64))
            .aim(Aim::AtMost(0.0))
            .note(format!("of {all}")),
    );
    rows
}

fn round_trip_ms(cell: &Cell) -> f64 {
    cell.scenario.round_trip.as_secs_f64() * 1000.0
}

/// The largest of a number over the cells of a load, and whose it is.
fn worst(cells: &[Cell], load: Load, number: impl Fn(&Cell) -> f64) -> Option<(&Cell, f64)> {
    let of_load = cells.iter().filter(|cell| cell.load == load);
    of_load.map(|cell| (cell, number(cell))).max_by(|a, b| a.1.total_cmp(&b.1))
}

fn came_out(cells: &[Cell], rows: &[Row]) -> String {
    let mut words = String::new();
    for (load, what) in [(Load::Idle, "With nothing else to do"), (Load::Backlog, "Behind the backlog")] {
        let beyond = |cell: &Cell| cell.quantile_ms(0.5).mean - round_trip_ms(cell);
        let share = |cell: &Cell| cell.quantile_ms(0.99).mean / cell.scenario.bound().as_secs_f64() / 10.0;
        if let (Some((far, ms)), Some((tight, percent))) = (worst(cells, load, beyond), worst(cells, load, share)) {
            words.push_str(&format!(
                "{what}, the median lag is at most {ms:.0} ms more than a round trip ({}), and the 99th percentile comes to at most {percent:.0} % of \
                 the bound ({}). ",
                far.scenario.name, tight.scenario.name,
            ));
        }
    }
    let missed: Vec<&str> =
        rows.iter().filter(|row| row.verdict() == Verdict::Missed).map(|row| row.what.as_str()).collect();
    words.push_str(&match missed.is_empty() {
        true => "Every cell is within its bound.".to_owned(),
        false => format!("Not as wanted: {}.", missed.join("; ")),
    });
    words
}

/// What the backlog costs, and how much of it is the queue that contents fill before records.
fn why(cells: &[Cell]) -> String {
    let idle =
        |cell: &Cell| cells.iter().find(|other| other.load == Load::Idle && other.scenario.name == cell.scenario.name);
    let cost = |cell: &Cell| idle(cell).map_or(0.0, |idle| cell.quantile_ms(0.5).mean - idle.quantile_ms(0.5).mean);
    let Some((cell, ms)) = worst(cells, Load::Backlog, cost) else { return String::new() };
    let queue = cell.rtt_ms.map_or(String::new(), |rtt| {
        format!(
            " The station's own estimate of its round trip there was {rtt:.0} ms, {:.0} ms more than the line's: so long a packet waited in the queue that \
             contents kept filled, and a record and its acknowledgement wait there, too.",
            rtt - round_trip_ms(cell)
        )
    });
    let name = cell.scenario.name;
    format!("The backlog cost most in the scenario {name}: the median grew by {ms:.0} ms.{queue}")
}

fn cumulative(cells: &[Cell], load: Load, title: &str) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.load == load) {
        let name = format!("{} (bound {:.2} s)", cell.scenario.name, cell.scenario.bound().as_secs_f64());
        series.push(Series::cumulative(&name, Origin::Measured, cell.lags()));
    }
    Figure {
        title: title.to_owned(),
        x: Axis::logarithmic("from close at one site to sight at the other", "s"),
        y: Axis::linear("share of closes", ""),
        series,
        caption: "Cumulative shares. Steps to the left of 2 s are within every bound. Times are up to a millisecond too long, the pause between two looks.".into(),
    }
}

fn over_time(cells: &[Cell]) -> Figure {
    let points = |cell: &Cell| -> Vec<(f64, f64)> {
        let lag = |at: usize| cell.lags()[at];
        cell.samples.iter().enumerate().map(|(at, sample)| (sample.closed.as_secs_f64(), lag(at))).collect()
    };
    let behind = cells.iter().filter(|cell| cell.load == Load::Backlog);
    let series = behind.map(|cell| {
        let mut points = points(cell);
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(cell.scenario.name, Style::Curve, Origin::Measured, points)
    });
    Figure {
        title: "Lag over time behind the backlog".into(),
        x: Axis::linear("time of the close", "s"),
        y: Axis::logarithmic("from close to sight", "s"),
        series: series.collect(),
        caption: "Each bend is a close. What rises and falls together is the queue of the line.".into(),
    }
}

fn write(context: &mut Context<'_>, cells: &[Cell]) -> Result<(), LabError> {
    let columns = ["scenario", "load", "closed_s", "lag_ms", "read_right"];
    let mut csv = context.csv("lags", &columns)?;
    for cell in cells {
        for sample in &cell.samples {
            csv.row(&[
                cell.scenario.name.to_owned(),
                cell.load.name().to_owned(),
                format!("{:.6}", sample.closed.as_secs_f64()),
                sample.lag.map_or(String::new(), |lag| format!("{:.3}", lag.as_secs_f64() * 1000.0)),
                sample.right.to_string(),
            ])?;
        }
    }
    csv.finish()
}
