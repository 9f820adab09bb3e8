//! The table of results.

use serde_json::{Value, json};

/// One line: a measurement at the places it makes sense for, and what bounds it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// Unit of the figures; larger is better unless it is a time.
    pub(crate) unit: &'static str,
    /// Figures of native, loopback, wayfs; absent where it makes no sense.
    pub(crate) figures: [Option<f64>; 3],
    /// What the last figure is to be compared with, and how (a sight of the project).
    pub(crate) limit: String,
    /// Whether a smaller figure is better.
    pub(crate) is_time: bool,
}

impl Row {
    /// How far the volume is from another place: 1 means as good.
    fn ratio(&self, place: usize) -> Option<f64> {
        let (other, ours) = (self.figures[place]?, self.figures[2]?);
        Some(if self.is_time { other / ours } else { ours / other })
    }
}

/// Prints Markdown, so that a run can go into `docs/bench.md` as it is.
pub(crate) fn print(rows: &[Row]) {
    println!("| what | unit | native | loopback FUSE | wayfs | to native | to loopback | limit or sight |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for row in rows {
        let figure = |n: usize| row.figures[n].map_or_else(|| "-".to_owned(), short);
        let ratio = |n: usize| row.ratio(n).map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.what,
            row.unit,
            figure(0),
            figure(1),
            figure(2),
            ratio(0),
            ratio(1),
            row.limit
        );
    }
}

/// The same for programs.
pub(crate) fn json(rows: &[Row]) -> Value {
    rows.iter()
        .map(|row| {
            json!({
                "what": row.what, "unit": row.unit, "native": row.figures[0], "loopback": row.figures[1],
                "wayfs": row.figures[2], "to_native": row.ratio(0), "to_loopback": row.ratio(1), "limit": row.limit,
            })
        })
        .collect()
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1000.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
