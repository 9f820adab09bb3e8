//! Cost of one reconciliation: 100 to 500 records, scenario by scenario.

use super::Part;
use super::backlog::{self, Backlog, Load, Reconciliation};
use super::gauges;
use crate::context::Parts;
use crate::experiments::scenarios::scenarios;
use crate::{Aim, Axis, Context, Csv, Estimate, Figure, LabError, Origin, Row, Series, Sites, SitesPlan, Style};

/// Published: the home spends just under this on 500 records.
const PUBLISHED_HOME_S: f64 = 1.1;
/// Published: the records of that point, the largest.
const PUBLISHED_RECORDS: usize = 500;
/// Period of the research's reconciliations, which none may exceed.
const PERIOD_S: f64 = 15.0;
/// Bytes of a file whose contents travel in its record.
const CONTENT_LEN: usize = 4096;

const COLUMNS: &[&str] = &[
    "scenario",
    "content_bytes",
    "records",
    "trial",
    "reconnected_s",
    "total_s",
    "engine_s",
    "disk_s",
    "processor_s",
    "up_bytes",
    "down_bytes",
];

/// What is measured of one kind of records over one line.
struct Measured {
    scenario: String,
    load: Load,
    /// By files written: the trials.
    trials: Vec<(usize, Vec<Reconciliation>)>,
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let scenarios = scenarios(context, &["local-area", "intercontinental", "high-latency"])?;
    let counts = context.choose(vec![100, PUBLISHED_RECORDS], vec![100, 200, 300, 400, PUBLISHED_RECORDS]);
    let mut csv = context.csv("cost", COLUMNS)?;
    let mut measured = Vec::new();
    for (number, scenario) in scenarios.iter().enumerate() {
        context
            .progress(Parts { done: number, total: scenarios.len() }, &format!("cost of reconciliation, {scenario}"));
        measured.extend(measure(context, &mut csv, scenario, &counts)?);
    }
    csv.finish()?;
    Ok(part(&measured))
}

/// All trials of a scenario, in one run of the daemons. The first scenario is measured with contents, too.
fn measure(
    context: &mut Context<'_>,
    csv: &mut Csv,
    scenario: &str,
    counts: &[usize],
) -> Result<Vec<Measured>, LabError> {
    let part = format!("cost, {scenario}");
    let plan = SitesPlan { serve: gauges::serve_arguments(), ..SitesPlan::profiles(&[scenario])? };
    let mut sites = Sites::start(context, &part, context.seed(), plan)?;
    let loads = match scenario {
        "local-area" => vec![Load::Empty, Load::Bytes(CONTENT_LEN)],
        _ => vec![Load::Empty],
    };
    let mut measured = Vec::new();
    for load in loads {
        let mut trials = Vec::new();
        for count in counts {
            let mut of_count = Vec::new();
            for trial in 0..context.choose(1, 5) {
                let seen = reconcile(&mut sites, &format!("{load:?}-{count}-{trial}"), *count, load)?;
                write(csv, scenario, load, trial, &seen)?;
                of_count.push(seen);
            }
            trials.push((*count, of_count));
        }
        measured.push(Measured { scenario: scenario.to_owned(), load, trials });
    }
    sites.finish(context, &part);
    Ok(measured)
}

fn reconcile(sites: &mut Sites, name: &str, files: usize, load: Load) -> Result<Reconciliation, LabError> {
    backlog::prepare(sites, Backlog { site: 0, name, files })?;
    backlog::cut(sites, 0);
    let records = backlog::gather(sites, Backlog { site: 0, name, files }, load)?;
    backlog::end_session(sites, 0)?;
    backlog::release(sites, 0, records)
}

fn write(csv: &mut Csv, scenario: &str, load: Load, trial: usize, seen: &Reconciliation) -> Result<(), LabError> {
    let content_len = if let Load::Bytes(len) = load { len } else { 0 };
    let spent = seen.spent;
    csv.row(&[
        scenario.to_owned(),
        content_len.to_string(),
        seen.records.to_string(),
        trial.to_string(),
        seen.reconnected().to_string(),
        seen.total().to_string(),
        spent.engine.to_string(),
        spent.disk.to_string(),
        spent.processor.to_string(),
        seen.bytes.0.to_string(),
        seen.bytes.1.to_string(),
    ])
}

/// An estimate over trials.
fn over(trials: &[Reconciliation], value: impl Fn(&Reconciliation) -> f64) -> Estimate {
    Estimate::of(&trials.iter().map(value).collect::<Vec<_>>())
}

fn part(measured: &[Measured]) -> Part {
    let mut part = Part::default();
    let pure: Vec<&Measured> = measured.iter().filter(|one| one.load == Load::Empty).collect();
    for one in &pure {
        let Some((count, largest)) = one.trials.last() else { continue };
        let what = |what: &str| format!("{what}, {count} records, {}", one.scenario);
        let home = Row::new(what("home time"), "s", over(largest, |seen| seen.spent.home_time()));
        part.rows.push(home.published(PUBLISHED_HOME_S).aim(Aim::AtMost(PUBLISHED_HOME_S)).note(HOME_NOTE));
        part.rows.push(Row::new(what("processor time of the home"), "s", over(largest, |seen| seen.spent.processor)));
        part.rows.push(
            Row::new(what("total time"), "s", over(largest, Reconciliation::total))
                .aim(Aim::AtMost(PERIOD_S))
                .note(TOTAL_NOTE),
        );
    }
    for one in measured.iter().filter(|one| one.scenario == "local-area") {
        part.rows.extend(bytes_rows(one));
    }
    part.figures.push(figure(
        "Home time",
        "home time",
        &pure,
        |seen| seen.spent.home_time(),
        Some(published()),
        HOME_CAPTION,
    ));
    part.figures.push(figure("Total time", "total time", &pure, Reconciliation::total, None, TOTAL_CAPTION));
    part
}

/// Bytes of a record on the wire: by how much a reconciliation with one more grows, so that the handshake does not count.
fn bytes_rows(one: &Measured) -> Vec<Row> {
    let kind = match one.load {
        Load::Empty => "record without contents".to_owned(),
        Load::Bytes(len) => format!("file of {len} bytes"),
    };
    let growth = |bytes: fn(&Reconciliation) -> u64| {
        let of = |files: usize, seen: &Reconciliation| (files as f64, bytes(seen) as f64);
        let points: Vec<(f64, f64)> =
            one.trials.iter().flat_map(|(files, trials)| trials.iter().map(move |seen| of(*files, seen))).collect();
        Estimate::exact(slope(&points))
    };
    let per_file = one.trials.last().and_then(|(files, trials)| Some(trials.first()?.records as f64 / *files as f64));
    let note = format!(
        "{:.1} records per file; with all headers, acknowledgements, and what is sent twice",
        per_file.unwrap_or(0.0)
    );
    vec![
        Row::new(format!("bytes on the wire, {kind}, to the home"), "B", growth(|seen| seen.bytes.0)).note(&note),
        Row::new(format!("bytes on the wire, {kind}, back"), "B", growth(|seen| seen.bytes.1)).note(&note),
    ]
}

/// Of the straight line that fits best; zero if it is not determined.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    let common = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    if spread > 0.0 { common / spread } else { 0.0 }
}

fn figure(
    title: &str,
    label: &str,
    measured: &[&Measured],
    value: impl Fn(&Reconciliation) -> f64 + Copy,
    published: Option<Series>,
    caption: &str,
) -> Figure {
    let of = |one: &&Measured| {
        let points = one.trials.iter().map(|(count, trials)| (*count as f64, over(trials, value)));
        Series::estimates(&one.scenario, Style::Lines, Origin::Measured, points)
    };
    Figure {
        title: title.into(),
        x: Axis::linear("records", ""),
        y: Axis::logarithmic(label, "s"),
        series: measured.iter().map(of).chain(published).collect(),
        caption: caption.into(),
    }
}

fn published() -> Series {
    let point = [(PUBLISHED_RECORDS as f64, PUBLISHED_HOME_S)];
    Series::new("published, 550 MHz server", Style::Points, Origin::Published, point)
}

const HOME_NOTE: &str =
    "the engine's work and syncs of the disk, as the home counts them; published of a 550 MHz Pentium III";
const TOTAL_NOTE: &str = "seen at the station, from the session with the home until the last record was confirmed; wanted: below the research's period";
const HOME_CAPTION: &str = "Time that the home works on a reconciliation: its engine takes the records in and orders them, its disk makes them durable. \
Bars are 95 % intervals. The line should not matter, and the home's time should grow in proportion.";
const TOTAL_CAPTION: &str = "Time that a reconciliation takes as the station sees it, from the session with the home until the last record is confirmed: \
a few round trips, the bytes, and the home time. Bars are 95 % intervals.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_leaves_the_handshake_out() {
        assert!((slope(&[(100.0, 15_000.0), (200.0, 25_000.0), (300.0, 35_000.0)]) - 100.0).abs() < 1e-9);
        assert_eq!(slope(&[(1.0, 1.0)]), 0.0);
    }
}
