//! A large backlog: what a station wrote in days offline goes home at once.

use super::backlog::{self, Backlog, Load, Reconciliation};
use super::{Part, gauges};
use crate::context::Parts;
use crate::{Axis, Context, Estimate, Figure, LabError, Origin, Row, Series, Sites, SitesPlan, Style};

/// Wide area of this part.
const SCENARIO: &str = "local-area";

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let files = context.choose(5_000, 100_000);
    let plan = SitesPlan { serve: gauges::serve_arguments(), ..SitesPlan::profiles(&[SCENARIO])? };
    let mut sites = Sites::start(context, "large", context.seed(), plan)?;
    context.progress(Parts { done: 0, total: 2 }, &format!("writing {files} files"));
    backlog::prepare(&sites, Backlog { site: 0, name: "large", files })?;
    backlog::cut(&sites, 0);
    let records = backlog::gather(&sites, Backlog { site: 0, name: "large", files }, Load::Empty)?;
    backlog::end_session(&mut sites, 0)?;
    context.progress(Parts { done: 1, total: 2 }, &format!("reconciling {records} records"));
    let seen = backlog::release(&mut sites, 0, records)?;
    let mut csv = context.csv("large", &["at_s", "connected", "waiting"])?;
    for sight in &seen.sights {
        csv.row(&[sight.at.as_secs_f64(), f64::from(u8::from(sight.connected)), sight.waiting as f64])?;
    }
    csv.finish()?;
    sites.finish(context, "large");
    Ok(part(&seen))
}

fn part(seen: &Reconciliation) -> Part {
    let records = seen.records as f64;
    let what = |what: &str| format!("{what}, {} records, {SCENARIO}", seen.records);
    let row = |name: &str, unit: &str, value: f64| Row::new(what(name), unit, Estimate::exact(value));
    let rate = row("records confirmed per second", "/s", records / seen.total());
    let carried = (seen.bytes.0 as f64 * 8.0 / 1e6) / seen.total();
    Part {
        rows: vec![
            row("home time", "s", seen.spent.home_time()),
            row("processor time of the home", "s", seen.spent.processor),
            row("total time", "s", seen.total()),
            rate.note(format!("{carried:.1} of 10 Mb/s were used on the way to the home")),
        ],
        figures: vec![Figure {
            title: "A large backlog".into(),
            x: Axis::linear("since the line is back", "s"),
            y: Axis::linear("records confirmed", ""),
            series: vec![Series::new("confirmed", Style::Curve, Origin::Measured, progress(seen))],
            caption: format!("{} records, as the station sees them confirmed over the {SCENARIO} line.", seen.records),
        }],
    }
}

/// Records confirmed by time, thinned.
fn progress(seen: &Reconciliation) -> Vec<(f64, f64)> {
    let every = (seen.sights.len() / 500).max(1);
    let confirmed =
        |sight: &backlog::Sight| (sight.at.as_secs_f64(), (seen.records - sight.waiting.min(seen.records)) as f64);
    seen.sights.iter().step_by(every).chain(seen.sights.last()).map(confirmed).collect()
}
