//! What the cells say: rows, plots, words, raw data.

use super::{Cell, PAUSE, Sample, WIDE, disk_name};
use crate::{Aim, Axis, Context, Estimate, Figure, Findings, LabError, Origin, Row, Series, Verdict};
use std::time::Duration;

/// What the median is to stay under, as a multiple of a round trip and a group commit: on machines of their own. Here client, station,
/// home and the emulator share the cores of one.
const RATIO_MAX: f64 = 1.3;

impl Cell {
    fn milliseconds(&self, of: impl Fn(&Sample) -> Duration) -> Vec<f64> {
        self.samples.iter().map(|sample| of(sample).as_secs_f64() * 1000.0).collect()
    }

    fn closes(&self) -> Vec<f64> {
        self.milliseconds(|sample| sample.close)
    }

    fn limits(&self) -> Vec<f64> {
        self.milliseconds(|sample| sample.round_trip + sample.commit)
    }

    fn median(&self, of: impl Fn(&Sample) -> Duration) -> Estimate {
        Estimate::quantile(&mut self.milliseconds(of), 0.5)
    }

    /// Median close by median limit.
    fn ratio(&self) -> Estimate {
        Estimate::quantile(&mut self.closes(), 0.5).over(&Estimate::quantile(&mut self.limits(), 0.5))
    }
}

pub(super) fn tell(context: &mut Context<'_>, cells: &[Cell]) -> Result<Findings, LabError> {
    write(context, cells)?;
    let rows = rows(cells);
    Ok(Findings {
        expected: expected(),
        came_out: came_out(cells, &rows),
        why_they_differ: why(cells),
        figures: vec![cumulative(cells)],
        rows,
    })
}

fn expected() -> String {
    format!(
        "A close sends the record with its bytes at once; while it is on its way the client's own disk syncs; the station applies it, syncs once, and \
         answers: one round trip and one group commit, and what two machines compute. The limit is measured between the closes (every {} ms on \
         average): the same number of bytes in datagrams over the same line with a short answer, and a durable append on the same disk. \
         The median is to stay within {RATIO_MAX} times that. The client's cache is on the station's disk, or in memory (a disk of its own). The home is behind the {WIDE} line, and nothing of it is to be seen.",
        PAUSE.as_millis(),
    )
}

fn rows(cells: &[Cell]) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in cells {
        let name = cell.name();
        let limit = format!(
            "limit {:.2} ms: round trip {:.2} ms, group commit {:.2} ms",
            Estimate::quantile(&mut cell.limits(), 0.5).mean,
            cell.median(|sample| sample.round_trip).mean,
            cell.median(|sample| sample.commit).mean,
        );
        let carried = |way: usize| {
            Estimate::quantile(
                &mut cell.samples.iter().map(|sample| sample.carried[way] as f64).collect::<Vec<_>>(),
                0.5,
            )
        };
        let of_closes = |share: f64| Estimate::quantile(&mut cell.closes(), share);
        rows.push(Row::new(format!("time to safe, {name}, p50"), "ms", of_closes(0.5)).note(limit));
        rows.push(Row::new(format!("time to safe, {name}, p99"), "ms", of_closes(0.99)));
        rows.push(
            Row::new(format!("time to safe by its limit, {name}"), "", cell.ratio())
                .aim(Aim::AtMost(RATIO_MAX))
                .note("medians"),
        );
        for (way, name_of_way) in ["to the station", "back"].into_iter().enumerate() {
            rows.push(
                Row::new(format!("bytes on the line {name_of_way}, {name}"), "B", carried(way)).note(
                    "of a file of 4096 bytes, from its creation to the end of its close, headers and all; median",
                ),
            );
        }
    }
    let failures: usize = cells.iter().map(|cell| cell.unsafe_files).sum();
    rows.push(
        Row::new("closes that returned before the file was safe", "", Estimate::exact(failures as f64))
            .aim(Aim::AtMost(0.0))
            .note("by what the client says of the file right after the close"),
    );
    rows
}

fn came_out(cells: &[Cell], rows: &[Row]) -> String {
    let each: Vec<String> = cells
        .iter()
        .map(|cell| {
            let close = cell.median(|sample| sample.close).mean;
            format!("{close:.2} ms on {} ({:.2} of the limit)", cell.name(), cell.ratio().mean)
        })
        .collect();
    let missed: Vec<&str> =
        rows.iter().filter(|row| row.verdict() == Verdict::Missed).map(|row| row.what.as_str()).collect();
    let verdict = match missed.is_empty() {
        true => "All as wanted.".to_owned(),
        false => format!("Not as wanted: {}.", missed.join("; ")),
    };
    format!("The median close is safe after {}. {verdict}", each.join(", "))
}

/// What is left when the limit is taken away is nearly the same on every line.
fn why(cells: &[Cell]) -> String {
    let beyond: Vec<f64> = cells
        .iter()
        .map(|cell| {
            cell.median(|sample| sample.close).mean - cell.median(|sample| sample.round_trip + sample.commit).mean
        })
        .collect();
    let (least, most) = beyond.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), ms| (low.min(*ms), high.max(*ms)));
    if beyond.is_empty() {
        return String::new();
    }
    format!(
        "Beyond its limit a close takes {least:.2} to {most:.2} ms: the kernel's request to the mount and its answer, the record built, encrypted, sent and \
         read on both sides, and two threads woken at each. The faster the line, the larger is that share. What a disk of the client's own changes is \
         what the two syncs of one disk wait for each other."
    )
}

fn cumulative(cells: &[Cell]) -> Figure {
    let mut series = Vec::new();
    for cell in cells {
        series.push(Series::cumulative(&cell.name(), Origin::Measured, cell.closes()));
        series.push(Series::cumulative(&format!("{}, limit", cell.name()), Origin::Model, cell.limits()));
    }
    Figure {
        title: "Time to safe".into(),
        x: Axis::logarithmic("from close to its return", "ms"),
        y: Axis::linear("share of closes", ""),
        series,
        caption:
            "Cumulative shares. Dotted: a round trip of the line and a durable append, measured between the closes."
                .into(),
    }
}

fn write(context: &mut Context<'_>, cells: &[Cell]) -> Result<(), LabError> {
    let mut csv = context
        .csv("closes", &["line", "client_disk", "close_ms", "round_trip_ms", "commit_ms", "up_bytes", "down_bytes"])?;
    for cell in cells {
        for sample in &cell.samples {
            let times = [sample.close, sample.round_trip, sample.commit];
            let numbers = times.map(|time| format!("{:.4}", time.as_secs_f64() * 1000.0));
            let place = [cell.line.to_owned(), disk_name(cell.disk).to_owned()];
            csv.row(&[&place[..], &numbers, &sample.carried.map(|len| len.to_string())].concat())?;
        }
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CacheDisk;

    fn cell(line: &'static str, close: u64, round_trip: u64, commit: u64) -> Cell {
        let ms = Duration::from_millis;
        let sample = |extra| Sample {
            close: ms(close + extra),
            round_trip: ms(round_trip),
            commit: ms(commit),
            carried: [5000, 500],
        };
        Cell { line, disk: CacheDisk::Shared, samples: (0..9).map(sample).collect(), unsafe_files: 0 }
    }

    #[test]
    fn the_median_is_judged_by_the_median_limit() {
        let rows = rows(&[cell("near", 10, 4, 1), cell("far", 10, 9, 2)]);
        let verdict = |what: &str| rows.iter().find(|row| row.what == what).unwrap().verdict();
        assert_eq!(verdict("time to safe by its limit, near"), Verdict::Missed, "14 by 5");
        assert_eq!(verdict("time to safe by its limit, far"), Verdict::Met, "14 by 11");
        assert_eq!(verdict("closes that returned before the file was safe"), Verdict::Met);
    }

    #[test]
    fn a_disk_of_the_clients_own_has_rows_of_its_own() {
        let rows = rows(&[cell("near", 10, 4, 1), Cell { disk: CacheDisk::Memory, ..cell("near", 10, 8, 2) }]);
        let ratio = |what: &str| rows.iter().find(|row| row.what == what).unwrap().ours.mean;
        assert!(
            ratio("time to safe by its limit, near") > ratio("time to safe by its limit, near and a disk of its own")
        );
    }

    #[test]
    fn a_close_that_lied_is_missed() {
        let rows = rows(&[Cell { unsafe_files: 1, ..cell("near", 10, 4, 1) }]);
        assert_eq!(rows.last().unwrap().verdict(), Verdict::Missed);
    }
}
