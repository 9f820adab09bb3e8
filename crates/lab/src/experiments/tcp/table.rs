//! A table as findings: ours beside the published cells, and whether the order of the schemes is the same.

use super::measure::Measured;
use super::published::{Cell, OURS, REASONS};
use super::rank::kendall;
use super::schemes::Setting;
use crate::{Aim, Axis, Estimate, Figure, Findings, Origin, Row, Series, Style, Verdict};

/// A column: a setting, and the schemes that run in it.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    /// Where it is on the axis of a plot.
    pub(super) x: f64,
    pub(super) setting: Setting,
    pub(super) cells: Vec<(&'static str, Option<Cell>)>,
}

/// A table; with an axis, if its columns lie on one.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) x: Option<(&'static str, &'static str)>,
}

/// How far a cell may be from the published one.
const TOLERANCE: f64 = 0.15;
/// Kendall's tau of a column, at least.
const TAU_MIN: f64 = 0.9;
/// Published in one table and not reached: what ours is measured by.
const BEST_PUBLISHED: &str = "LL-STCP-AWARE";
/// What ours is to carry where an error takes six packets.
const OURS_IN_RUNS_OF_SIX: f64 = 1.30;

pub(super) fn findings(table: &Table, measured: &[Vec<Measured>]) -> Findings {
    let mut findings = Findings { expected: EXPECTED.into(), ..Findings::default() };
    for (column, cells) in table.columns.iter().zip(measured) {
        for ((name, published), cell) in column.cells.iter().zip(cells) {
            findings.rows.extend(rows(&column.name, name, *published, cell));
        }
        findings.rows.extend(order(column, cells));
        findings.rows.extend(ours(column, cells));
    }
    findings.figures = figures(table, measured);
    tell(&mut findings);
    findings
}

fn rows(column: &str, name: &str, published: Option<Cell>, cell: &Measured) -> Vec<Row> {
    let row = |what: &str, unit, ours| Row::new(format!("{column}: {name}{what}"), unit, ours);
    let Some(published) = published else {
        return vec![
            row("", "Mb/s", cell.throughput),
            row(", wireless goodput", "%", cell.wireless),
            row(", wired goodput", "%", cell.wired),
        ];
    };
    let theirs = published.throughput;
    let aim = Aim::Between((1.0 - TOLERANCE) * theirs, (1.0 + TOLERANCE) * theirs);
    let throughput = row("", "Mb/s", cell.throughput).published(theirs).aim(aim);
    let off = throughput.verdict() == Verdict::Missed;
    let reason = REASONS.iter().find(|(scheme, begin, _)| *scheme == name && column.starts_with(begin));
    let throughput = match reason.filter(|_| off) {
        Some((_, _, why)) => throughput.note(*why),
        None => throughput,
    };
    let wireless = row(", wireless goodput", "%", cell.wireless);
    let wired = row(", wired goodput", "%", cell.wired);
    vec![
        throughput,
        published.wireless.map_or(wireless.clone(), |theirs| wireless.published(theirs)),
        published.wired.map_or(wired.clone(), |theirs| wired.published(theirs)),
    ]
}

/// Whether the schemes have the published order.
fn order(column: &Column, cells: &[Measured]) -> Option<Row> {
    let pairs: Vec<(f64, f64)> = column
        .cells
        .iter()
        .zip(cells)
        .filter_map(|((_, published), cell)| Some(((*published)?.throughput, cell.throughput.mean)))
        .collect();
    let tau = Estimate::exact(kendall(&pairs));
    let what = format!("{}: order of the schemes, Kendall's tau", column.name);
    (pairs.len() > 2).then(|| Row::new(what, "", tau).aim(Aim::AtLeast(TAU_MIN)))
}

/// Ours against the best that was published, as we measure it.
fn ours(column: &Column, cells: &[Measured]) -> Vec<Row> {
    let find = |wanted: &str| column.cells.iter().position(|(name, _)| *name == wanted).and_then(|n| cells.get(n));
    let (Some(ours), Some(best)) = (find(OURS), find(BEST_PUBLISHED)) else { return Vec::new() };
    let percent = 100.0 * (ours.throughput.mean / best.throughput.mean - 1.0);
    let more = Row::new(format!("{}: ours over {BEST_PUBLISHED}", column.name), "%", Estimate::exact(percent))
        .aim(Aim::AtLeast(0.0));
    let mut rows = vec![more.note("both as simulated here")];
    if column.setting.run == 6 {
        let row = Row::new(format!("{}: ours, wanted", column.name), "Mb/s", ours.throughput);
        rows.push(row.aim(Aim::AtLeast(OURS_IN_RUNS_OF_SIX)));
    }
    rows
}

fn figures(table: &Table, measured: &[Vec<Measured>]) -> Vec<Figure> {
    let Some((label, unit)) = table.x else { return Vec::new() };
    let names: Vec<&str> =
        table.columns.first().map(|column| column.cells.iter().map(|(name, _)| *name).collect()).unwrap_or_default();
    let mut series = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let ours = table.columns.iter().zip(measured).map(|(column, cells)| (column.x, cells[n].throughput));
        series.push(Series::estimates(name, Style::Lines, Origin::Measured, ours));
        let theirs = table.columns.iter().filter_map(|column| Some((column.x, column.cells[n].1?.throughput)));
        let theirs = Series::new(name, Style::Lines, Origin::Published, theirs);
        if !theirs.points.is_empty() {
            series.push(theirs);
        }
    }
    vec![Figure {
        title: "Throughput".into(),
        x: Axis::linear(label, unit),
        y: Axis::linear("throughput", "Mb/s"),
        series,
        caption:
            "Simulated here, with 95 % intervals over seeds, beside the published means. Sockets of 32 KB behind a LAN."
                .into(),
    }]
}

const EXPECTED: &str = "The schemes come out in the published order (Kendall's tau at least 0.9 in each column), and each cell within 15 % of what was \
published. What was not published is set by a few cells: the radio's cost per packet by the 1.5 Mb/s without losses, the wide area's rate by its 1.35 and its \
unevenness by LL's 0.82, how slow the mobile's application reads by the two columns of the LAN. Ours is never below the best published scheme, and carries at least 1.30 Mb/s where an error takes six packets.";

fn tell(findings: &mut Findings) {
    let missed: Vec<&Row> = findings.rows.iter().filter(|row| row.verdict() == Verdict::Missed).collect();
    let cells = findings.rows.iter().filter(|row| row.published.is_some() && row.unit == "Mb/s").count();
    let off = missed.iter().filter(|row| row.published.is_some()).count();
    findings.came_out = format!("{} of {cells} published cells are within 15 %.", cells - off);
    if missed.is_empty() {
        return;
    }
    let names: Vec<&str> = missed.iter().map(|row| row.what.as_str()).collect();
    findings.came_out += &format!(" Not as wanted: {}.", names.join("; "));
    let reasons: Vec<String> =
        missed.iter().filter(|row| !row.note.is_empty()).map(|row| format!("{}: {}", row.what, row.note)).collect();
    findings.why_they_differ = if reasons.is_empty() {
        "No reason is known for what is not as wanted.".into()
    } else {
        format!("{}. Of what else is not as wanted no reason is known.", reasons.join(". "))
    };
}
