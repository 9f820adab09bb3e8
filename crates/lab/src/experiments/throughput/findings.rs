//! What the cells say: rows, plots, words, raw data.

use super::{Cell, Tried, WAYS, Way};
use crate::{Aim, Axis, Context, Estimate, Figure, Findings, LabError, Origin, Row, Series, Style, Verdict};

/// What contents are to get of what TCP with BBR gets.
const SHARE_MIN: f64 = 0.9;
/// Characters of a peer's failure that are told; its programs print their stacks.
const FAILURE_LEN: usize = 200;

impl Tried {
    /// MB/s of a way.
    fn rate(&self, way: Way) -> Estimate {
        let rates: Vec<f64> = self.ways[way.index()].iter().map(super::Transfer::rate).collect();
        Estimate::of(&rates)
    }
}

pub(super) fn tell(context: &mut Context<'_>, cells: &[Cell], absent: &[&str]) -> Result<Findings, LabError> {
    write(context, cells)?;
    let rows = rows(cells);
    Ok(Findings {
        expected: expected(),
        came_out: came_out(cells, &rows, absent),
        why_they_differ: why(cells),
        figures: cells.iter().map(over_time).collect(),
        rows,
    })
}

fn expected() -> String {
    format!(
        "Contents are to get {SHARE_MIN} of what TCP with BBR gets on the line, both ways, up to 600 ms there and back, with bounded memory. That \
         needs as many bytes under way as the line holds in a round trip: 5 MB, 3.8 MB and 7.5 MB on these. Each transfer is one file that \
         cannot be compressed; a session begins anew with none of them, and TCP opens a connection for each. Up is from the first byte that a program \
         writes until the home has all, down from the open of a file that nobody at the site has until its last byte is read."
    )
}

fn rows(cells: &[Cell]) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in cells {
        let line = cell.line;
        for way in WAYS {
            let name = |who: &str| format!("{who}, {}, {}", line.name, way.name());
            let of_line = format!("the line: {} MB/s; {}", line.megabits as f64 / 8.0, line.about);
            rows.push(Row::new(name(cell.tcp.who), "MB/s", cell.tcp.rate(way)).note(of_line));
            rows.push(Row::new(name(cell.ours.who), "MB/s", cell.ours.rate(way)));
            rows.push(
                Row::new(name("WayFS by TCP with BBR"), "", cell.ours.rate(way).over(&cell.tcp.rate(way)))
                    .aim(Aim::AtLeast(SHARE_MIN)),
            );
            rows.extend(cell.peers.iter().map(|peer| Row::new(name(peer.who), "MB/s", peer.rate(way))));
        }
        for (machine, bytes) in ["client", "station", "home"].into_iter().zip(cell.memory) {
            let mib = Estimate::exact(bytes as f64 / f64::from(1 << 20));
            rows.push(Row::new(format!("most memory of the {machine}, {}", line.name), "MiB", mib));
        }
    }
    rows
}

fn came_out(cells: &[Cell], rows: &[Row], absent: &[&str]) -> String {
    let each: Vec<String> = cells
        .iter()
        .map(|cell| {
            let [up, down] = WAYS.map(|way| cell.ours.rate(way).mean / cell.tcp.rate(way).mean);
            format!("{up:.2} up and {down:.2} down ({})", cell.line.name)
        })
        .collect();
    let missed = rows.iter().filter(|row| row.verdict() == Verdict::Missed).count();
    let verdict = match missed {
        0 => "All as wanted.".to_owned(),
        some => format!("{some} of {} are below {SHARE_MIN}.", 2 * cells.len()),
    };
    let absent = match absent {
        [] => String::new(),
        absent => format!(" Not installed: {}.", absent.join(", ")),
    };
    let failed: String =
        cells.iter().flat_map(|cell| cell.failures.iter().map(|failure| failed(cell, failure))).collect();
    format!("Of what TCP with BBR got, contents got {}. {verdict}{absent}{failed}", each.join(", "))
}

fn failed(cell: &Cell, (who, why): &(&str, String)) -> String {
    let end = why.char_indices().nth(FAILURE_LEN).map_or(why.len(), |(at, _)| at);
    format!(" {who} did not get it done over {}: {}.", cell.line.name, why[..end].trim_end_matches('.'))
}

/// Bytes under way that explain a rate: what crosses in a round trip.
fn why(cells: &[Cell]) -> String {
    let each: Vec<String> = cells
        .iter()
        .filter_map(|cell| {
            let plan = cell.line.plan().ok()?;
            let round_trip = (plan.config.up.delay + plan.config.down.delay).as_secs_f64();
            let [up, down] = WAYS.map(|way| cell.ours.rate(way).mean * round_trip);
            Some(format!("{up:.1} MB up and {down:.1} MB down ({})", cell.line.name))
        })
        .collect();
    format!(
        "In one round trip there crossed on average {}. Where this number is the same on every line it is a window that binds, and where it grows with the line \
         it is something else: the start of a transfer, losses, or the processor, which all machines share here.",
        each.join(", ")
    )
}

fn over_time(cell: &Cell) -> Figure {
    let mut series = Vec::new();
    for (tried, origin) in [(&cell.tcp, Origin::Model), (&cell.ours, Origin::Measured)] {
        for way in WAYS {
            let Some(first) = tried.ways[way.index()].first() else { continue };
            let every = (first.notes.len() / 300).max(1);
            let kept = first.notes.iter().step_by(every).chain(first.notes.last());
            let points = kept.map(|(at, bytes)| (at.as_secs_f64(), *bytes as f64 / 1e6));
            series.push(Series::new(&format!("{}, {}", tried.who, way.name()), Style::Curve, origin, points));
        }
    }
    Figure {
        title: format!("{}: {}", cell.line.name, cell.line.about),
        x: Axis::linear("since the begin", "s"),
        y: Axis::linear("bytes that are there", "MB"),
        series,
        caption: "The first transfer each way. Up, ours is what the line had delivered, headers and all; it is at its end when the home says that it has everything. \
                  Dotted: TCP with BBR."
            .into(),
    }
}

fn write(context: &mut Context<'_>, cells: &[Cell]) -> Result<(), LabError> {
    let mut csv = context.csv("transfers", &["line", "who", "way", "trial", "bytes", "took_s"])?;
    for cell in cells {
        for tried in [&cell.tcp, &cell.ours].into_iter().chain(&cell.peers) {
            for way in WAYS {
                for (trial, transfer) in tried.ways[way.index()].iter().enumerate() {
                    csv.row(&[
                        cell.line.name.to_owned(),
                        tried.who.to_owned(),
                        way.name().to_owned(),
                        trial.to_string(),
                        transfer.len.to_string(),
                        format!("{:.4}", transfer.took.as_secs_f64()),
                    ])?;
                }
            }
        }
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::super::Transfer;
    use super::super::lines::LINES;
    use super::*;
    use std::time::Duration;

    fn tried(who: &'static str, seconds: [u64; 2]) -> Tried {
        let transfer = |seconds| Transfer { took: Duration::from_secs(seconds), len: 100_000_000, notes: Vec::new() };
        Tried { who, ways: seconds.map(|seconds| vec![transfer(seconds)]) }
    }

    #[test]
    fn each_way_is_judged_by_what_tcp_made_of_it() {
        let cell = Cell {
            line: LINES[0],
            tcp: tried("TCP with BBR", [10, 10]),
            ours: tried("WayFS", [11, 20]),
            peers: vec![tried("sshfs", [40, 40])],
            failures: vec![("JuiceFS", format!("the mount failed: {}", "é".repeat(1000)))],
            memory: [0; 3],
        };
        let cells = [cell];
        let rows = rows(&cells);
        let row = |what: &str| rows.iter().find(|row| row.what == what).unwrap();
        assert_eq!(row("WayFS by TCP with BBR, gigabit-40ms, up").verdict(), Verdict::Met);
        assert_eq!(row("WayFS by TCP with BBR, gigabit-40ms, down").verdict(), Verdict::Missed);
        assert_eq!(row("sshfs, gigabit-40ms, down").ours.mean, 2.5);
        let words = came_out(&cells, &rows, &[]);
        assert!(words.contains("JuiceFS did not get it done over gigabit-40ms: the mount failed: é"), "{words}");
        assert!(words.len() < 1000, "{words}");
    }
}
