//! After an outage: how soon the station is back, and its records at the home.

use super::backlog::{self, Backlog, Load, Reconciliation};
use super::{Part, gauges};
use crate::context::Parts;
use crate::{Axis, Context, Estimate, Figure, LabError, Origin, Row, Series, Sites, SitesPlan, Style};
use std::time::{Duration, Instant};

/// Wide area of this part.
const SCENARIO: &str = "medium-distance";
/// Records that gather.
const RECORDS: usize = 100;

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let lengths = context.choose(vec![2], vec![1, 3, 10, 30]);
    let plan = SitesPlan { serve: gauges::serve_arguments(), ..SitesPlan::profiles(&[SCENARIO])? };
    let mut sites = Sites::start(context, "outage", context.seed(), plan)?;
    let mut csv = context.csv("outage", &["outage_s", "trial", "records", "first_confirmed_s", "all_confirmed_s"])?;
    let mut part = Part::default();
    let mut series = [Vec::new(), Vec::new()];
    for (number, seconds) in lengths.iter().copied().enumerate() {
        context.progress(Parts { done: number, total: lengths.len() }, &format!("after an outage of {seconds} s"));
        let mut trials = Vec::new();
        for trial in 0..context.choose(1, 5) {
            let seen = outage(&mut sites, &format!("outage-{seconds}-{trial}"), Duration::from_secs(seconds))?;
            let numbers = [seen.first_confirmed(), seen.all_confirmed()];
            csv.row(&[seconds as f64, f64::from(trial), seen.records as f64, numbers[0], numbers[1]])?;
            trials.push(numbers);
        }
        for (which, what) in ["the first record", "all records"].into_iter().enumerate() {
            let estimate = Estimate::of(&trials.iter().map(|numbers| numbers[which]).collect::<Vec<_>>());
            let what = format!("until {what} of {RECORDS} confirmed, after an outage of {seconds} s");
            part.rows.push(Row::new(what, "s", estimate).note(NOTE));
            series[which].push((seconds as f64, estimate));
        }
    }
    csv.finish()?;
    sites.finish(context, "outage");
    let [first, all] = series;
    part.figures.push(Figure {
        title: "After an outage".into(),
        x: Axis::logarithmic("length of the outage", "s"),
        y: Axis::linear("since the line is back", "s"),
        series: vec![
            Series::estimates("first record confirmed", Style::Lines, Origin::Measured, first),
            Series::estimates("all confirmed", Style::Lines, Origin::Measured, all),
        ],
        caption: format!(
            "{RECORDS} records gather at the station while its line ({SCENARIO}) is cut; the clock starts when it is restored. The difference \
             between the curves is the reconciliation, the rest is the search for the home. Bars are 95 % intervals."
        ),
    });
    Ok(part)
}

const NOTE: &str = "from the restoring of the line; the station tries again every 2 s at most, for 5 s each time";

fn outage(sites: &mut Sites, name: &str, length: Duration) -> Result<Reconciliation, LabError> {
    backlog::prepare(sites, Backlog { site: 0, name, files: RECORDS })?;
    let begin = Instant::now();
    backlog::cut(sites, 0);
    let records = backlog::gather(sites, Backlog { site: 0, name, files: RECORDS }, Load::Empty)?;
    std::thread::sleep(length.saturating_sub(begin.elapsed()));
    backlog::release(sites, 0, records)
}
