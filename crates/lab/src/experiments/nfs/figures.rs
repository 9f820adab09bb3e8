//! Plots: measured, published and the limit in one.

use super::Nfs;
use super::plan::{BOTH, BOTH_REAL, Condition, NO_CHANGES, OURS, OURS_TOOL, Way};
use super::published;
use super::table::Table;
use crate::{Axis, Figure, Origin, Series, Style};

impl Table<'_> {
    pub(super) fn figures(&self, which: Nfs) -> Vec<Figure> {
        let mut figures: Vec<Figure> = match which {
            Nfs::Overflow => vec![self.progress("Bytes over time, reading: what overflows goes again", 0)],
            Nfs::TwoClients => Way::BOTH.into_iter().flat_map(|way| [1, 2].map(|n| self.times(way, n))).collect(),
            Nfs::BlockSize => Way::BOTH.into_iter().map(|way| self.sizes_figure(way)).collect(),
            Nfs::Backoff | Nfs::Link | Nfs::Both => Way::BOTH.into_iter().map(|way| self.times(way, 1)).collect(),
        };
        if which == Nfs::Both {
            figures.push(self.progress("Bytes over time, one read (figure 9 of 1996)", 160));
        }
        figures.retain(|figure| figure.series.iter().any(|series| !series.points.is_empty()));
        figures
    }

    /// Time against the mean bad period.
    fn times(&self, way: Way, clients: usize) -> Figure {
        let conditions: Vec<Condition> =
            self.work.conditions.iter().filter(|it| it.way == way && it.clients == clients).copied().collect();
        let mut series = Vec::new();
        for row in &self.work.rows {
            let ours = conditions.iter().filter_map(|it| Some((it.bad_ms as f64, self.time(&row.name, it)?)));
            series.push(Series::estimates(&row.name, Style::Lines, Origin::Measured, ours));
            // What was published stands beside what the papers did; the tool is beside both.
            let same = self.work.kilobytes == super::table::PUBLISHED_KILOBYTES;
            if same && row.name != BOTH_REAL && row.name != super::plan::REAL {
                let theirs = conditions.iter().filter_map(|it| {
                    let [_, mean, _] = published::seconds(&row.name, it)?;
                    Some((it.bad_ms as f64, mean))
                });
                series.push(Series::new(&row.name, Style::Lines, Origin::Published, theirs));
            }
            if row.name == OURS || row.name == OURS_TOOL {
                let limit = conditions.iter().filter_map(|it| Some((it.bad_ms as f64, self.limit(&row.name, it)?)));
                series.push(Series::new(&format!("limit of {}", row.name), Style::Curve, Origin::Model, limit));
            }
        }
        series.retain(|series| !series.points.is_empty());
        let who = if clients > 1 { format!(", {clients} clients") } else { String::new() };
        Figure {
            title: format!("Response time, {}{who}", way.name()),
            x: Axis::linear("mean bad period", "ms"),
            y: Axis::linear("time", "s"),
            series,
            caption:
                "Good periods 1000 ms on average; 95 % intervals over runs. The limit is the time without errors, \
                      stretched by the share of bad time."
                    .to_owned(),
        }
    }

    /// Time against the block size, a line for each bad period.
    fn sizes_figure(&self, way: Way) -> Figure {
        let mut series = Vec::new();
        for (suffix, style) in [("", Style::Lines), (", both", Style::Points)] {
            for condition in self.work.conditions.iter().filter(|it| it.way == way) {
                let sizes = [1024, 2048, 4096, 8192];
                let points = sizes.iter().filter_map(|size| {
                    Some((f64::from(*size), self.time(&format!("{size} bytes{suffix}"), condition)?))
                });
                let name = format!("bad {} ms{suffix}", condition.bad_ms);
                series.push(Series::estimates(&name, style, Origin::Measured, points));
            }
        }
        Figure {
            title: format!("Response time by block size, {}", way.name()),
            x: Axis::logarithmic("block", "bytes"),
            y: Axis::linear("time", "s"),
            series,
            caption: "One call at a time. Points: with hybrid back-off and a link that holds packets.".to_owned(),
        }
    }

    /// How far one read had come by when, for some rows.
    fn progress(&self, title: &str, bad_ms: u64) -> Figure {
        let condition = Condition { way: Way::Read, bad_ms, clients: 1 };
        let all = self.work.rows.iter().map(|row| row.name.as_str());
        let names: Vec<&str> = match bad_ms {
            0 => all.collect(),
            _ => all.filter(|name| [NO_CHANGES, BOTH, BOTH_REAL, OURS, OURS_TOOL].contains(name)).collect(),
        };
        let series = names.into_iter().filter_map(|name| {
            let client = self.cell(name, &condition)?.runs.first()?.first()?;
            let points = client.progress.iter().map(|(at, len)| (*at, *len as f64 / 1024.0));
            Some(Series::new(name, Style::Steps, Origin::Measured, points))
        });
        Figure {
            title: title.to_owned(),
            x: Axis::linear("time", "s"),
            y: Axis::linear("arrived", "KB"),
            series: series.collect(),
            caption: "The first run of each. Flat parts are time in which nothing came.".to_owned(),
        }
    }
}
