//! What the waits say: rows, a plot, words, raw data.

use super::{Cell, ROUND_TRIP};
use crate::{Aim, Axis, Context, Estimate, Figure, Findings, LabError, Origin, Row, Series, Style, Verdict};
use std::time::Duration;

/// A back-fetch is to take so many times what a fetch takes,
const OVER_FETCH_MAX: f64 = 1.3;
/// from this length on: shorter files take a round trip and little else, of which a back-fetch needs two.
const OVER_FETCH_KIB: usize = 512;
/// So many times what the line makes impossible to beat.
const OVER_LIMIT_MAX: f64 = 1.1;

impl Cell {
    fn name(&self, what: &str) -> String {
        format!("{what}, {} KiB", self.kib)
    }

    fn over_fetch(&self) -> Estimate {
        seconds(&self.back_fetch).over(&seconds(&self.fetch))
    }

    fn over_limit(&self) -> Estimate {
        seconds(&self.back_fetch).over(&Estimate::exact(self.limit(2).as_secs_f64()))
    }
}

fn seconds(waits: &[Duration]) -> Estimate {
    let seconds: Vec<f64> = waits.iter().map(Duration::as_secs_f64).collect();
    Estimate::of(&seconds)
}

pub(super) fn tell(context: &mut Context<'_>, cells: &[Cell]) -> Result<Findings, LabError> {
    write(context, cells)?;
    let rows = rows(cells);
    Ok(Findings {
        expected: expected(),
        came_out: came_out(cells, &rows),
        why_they_differ: why(cells),
        figures: vec![by_length(cells)],
        rows,
    })
}

fn expected() -> String {
    format!(
        "On lines of {} ms there and back and 3 Mb/s a fetch takes a round trip and a transfer at least, a back-fetch two round trips and one transfer if the home passes on what \
         arrives. A back-fetch is to take at most {OVER_LIMIT_MAX} of that at every length, and {OVER_FETCH_MAX} of a fetch from {OVER_FETCH_KIB} KiB on.",
        ROUND_TRIP.as_millis()
    )
}

fn rows(cells: &[Cell]) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in cells {
        let limit = |round_trips| format!("at least {:.3} s on this line", cell.limit(round_trips).as_secs_f64());
        rows.push(Row::new(cell.name("fetch"), "s", seconds(&cell.fetch)).note(limit(1)));
        rows.push(Row::new(cell.name("back-fetch"), "s", seconds(&cell.back_fetch)).note(limit(2)));
        let ratio = Row::new(cell.name("back-fetch by fetch"), "", cell.over_fetch());
        let is_judged = cell.kib >= OVER_FETCH_KIB;
        rows.push(if is_judged { ratio.aim(Aim::AtMost(OVER_FETCH_MAX)) } else { ratio });
        rows.push(
            Row::new(cell.name("back-fetch by its limit"), "", cell.over_limit())
                .aim(Aim::AtMost(OVER_LIMIT_MAX))
                .note("two round trips and one transfer"),
        );
    }
    rows
}

fn came_out(cells: &[Cell], rows: &[Row]) -> String {
    let each: Vec<String> = cells
        .iter()
        .map(|cell| {
            let (fetch, limit) = (cell.over_fetch().mean, cell.over_limit().mean);
            format!("{fetch:.2} of a fetch and {limit:.2} of the limit ({} KiB)", cell.kib)
        })
        .collect();
    let missed: Vec<&str> =
        rows.iter().filter(|row| row.verdict() == Verdict::Missed).map(|row| row.what.as_str()).collect();
    let verdict = match missed.is_empty() {
        true => "All as wanted.".to_owned(),
        false => format!("Not as wanted: {}.", missed.join("; ")),
    };
    format!("A back-fetch took {}. {verdict}", each.join(", "))
}

/// What a wait has beyond its limit, in round trips: where that is the same at all lengths it is questions, and where it grows with
/// them it is bytes.
fn why(cells: &[Cell]) -> String {
    let beyond =
        |waits: &[Duration], limit: Duration| (seconds(waits).mean - limit.as_secs_f64()) / ROUND_TRIP.as_secs_f64();
    let each: Vec<String> = cells
        .iter()
        .map(|cell| {
            let (fetch, back) = (beyond(&cell.fetch, cell.limit(1)), beyond(&cell.back_fetch, cell.limit(2)));
            format!("{fetch:.1} and {back:.1} ({} KiB)", cell.kib)
        })
        .collect();
    format!(
        "Beyond what the line takes, a fetch and a back-fetch took so many round trips: {}. What is the same at all lengths is questions asked one after the other, and \
         what grows with the length is headers and lists, or a rate below the line's.",
        each.join(", ")
    )
}

fn by_length(cells: &[Cell]) -> Figure {
    let points =
        |time: &dyn Fn(&Cell) -> f64| cells.iter().map(|cell| (cell.kib as f64, time(cell))).collect::<Vec<_>>();
    let limit = |round_trips| points(&move |cell: &Cell| cell.limit(round_trips).as_secs_f64());
    Figure {
        title: "Waits by length".into(),
        x: Axis::logarithmic("length", "KiB"),
        y: Axis::logarithmic("wait of the reader", "s"),
        series: vec![
            Series::new("back-fetch", Style::Curve, Origin::Measured, points(&|cell| seconds(&cell.back_fetch).mean)),
            Series::new("fetch", Style::Curve, Origin::Measured, points(&|cell| seconds(&cell.fetch).mean)),
            Series::new("two round trips and a transfer", Style::Curve, Origin::Model, limit(2)),
            Series::new("one round trip and a transfer", Style::Curve, Origin::Model, limit(1)),
        ],
        caption: "Dotted: what the line makes impossible to beat.".into(),
    }
}

fn write(context: &mut Context<'_>, cells: &[Cell]) -> Result<(), LabError> {
    let mut csv = context.csv("waits", &["kib", "trial", "fetch_s", "back_fetch_s"])?;
    for cell in cells {
        for (trial, (fetch, back)) in cell.fetch.iter().zip(&cell.back_fetch).enumerate() {
            csv.row(&[
                cell.kib.to_string(),
                trial.to_string(),
                format!("{:.4}", fetch.as_secs_f64()),
                format!("{:.4}", back.as_secs_f64()),
            ])?;
        }
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(kib: usize, fetch: u64, back_fetch: u64) -> Cell {
        let waits = |milliseconds| vec![Duration::from_millis(milliseconds); 3];
        Cell { kib, fetch: waits(fetch), back_fetch: waits(back_fetch) }
    }

    #[test]
    fn long_files_are_judged_by_a_fetch_and_all_by_what_the_line_allows() {
        // 8 KiB cross in 22 ms, 512 KiB in 1,398.
        let rows = rows(&[cell(8, 110, 200), cell(512, 1_500, 3_000)]);
        let verdict = |what: &str| rows.iter().find(|row| row.what == what).unwrap().verdict();
        assert_eq!(verdict("back-fetch by fetch, 8 KiB"), Verdict::Open);
        assert_eq!(verdict("back-fetch by its limit, 8 KiB"), Verdict::Met);
        assert_eq!(verdict("back-fetch by fetch, 512 KiB"), Verdict::Missed);
        assert_eq!(verdict("back-fetch by its limit, 512 KiB"), Verdict::Missed);
    }
}
