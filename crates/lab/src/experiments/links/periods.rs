//! Bad periods: how long nothing passes, seen by a probe every half millisecond.

use super::Part;
use crate::probe::{self, Planned, Probe};
use crate::{Aim, Axis, Context, Estimate, Figure, LabError, LinePlan, Origin, Row, Series, Style};
use std::time::Duration;
use wayfs_link::{BadPeriods, Durations, LineConfig};

/// Between probes.
const EVERY: Duration = Duration::from_micros(500);
/// Published mean of good periods.
const GOOD: Duration = Duration::from_millis(1000);
/// Published means of bad periods, in milliseconds.
const BAD_MS: [u64; 4] = [40, 80, 120, 160];
/// Standard errors of counting that are allowed.
const SIGMAS: f64 = 4.0;

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let mut csv = context.csv("periods", &["bad_mean_ms", "state", "length_ms"])?;
    let measured = measure(context)?;
    let mut part = Part { rows: Vec::new(), figures: Vec::new() };
    let mut series = Vec::new();
    for (bad_ms, probes) in BAD_MS.into_iter().zip(measured) {
        let (good, bad) = dwell_times(&probes);
        for (state, lengths) in [("good", &good), ("bad", &bad)] {
            for length in lengths {
                csv.row(&[bad_ms.to_string(), state.to_owned(), length.to_string()])?;
            }
        }
        for (state, lengths, mean) in [("bad", &bad, bad_ms as f64), ("good", &good, GOOD.as_secs_f64() * 1000.0)] {
            // Uniform in 0 to twice the mean: the deviation is the mean over the root of three.
            let error = SIGMAS * mean / (3.0 * lengths.len().max(1) as f64).sqrt() + EVERY.as_secs_f64() * 1000.0;
            let what = format!("mean {state} period, bad mean {bad_ms} ms");
            let row = Row::new(what, "ms", Estimate::of(lengths)).aim(Aim::Between(mean - error, mean + error));
            part.rows.push(row.note(format!("{mean} expected, {SIGMAS} standard errors and one probe allowed")));
        }
        series.push(Series::cumulative(&format!("bad mean {bad_ms} ms"), Origin::Measured, bad));
        let model = [(0.0, 0.0), (2.0 * bad_ms as f64, 1.0)];
        series.push(Series::new(&format!("uniform, mean {bad_ms} ms"), Style::Curve, Origin::Model, model));
    }
    csv.finish()?;
    part.figures.push(Figure {
        title: "Length of bad periods".into(),
        x: Axis::linear("length", "ms"),
        y: Axis::linear("share of bad periods", ""),
        series,
        caption: "Cumulative share of bad periods by the time in which no probe arrived, beside the uniform distribution of the model. \
                  Good periods have a mean of 1000 ms, as published."
            .into(),
    });
    Ok(part)
}

/// All lines at once: their periods need long to be many.
fn measure(context: &mut Context<'_>) -> Result<Vec<Vec<Probe>>, LabError> {
    let mut lab = context.topology("bad periods", context.seed())?;
    lab.host("base")?;
    for bad_ms in BAD_MS {
        let mobile = format!("mobile-{bad_ms}");
        lab.host(&mobile)?;
        let bad_periods = Some(BadPeriods {
            good_mean: GOOD,
            bad_mean: Duration::from_millis(bad_ms),
            durations: Durations::Uniform,
            ..BadPeriods::default()
        });
        let config = LineConfig { bad_periods, ..LineConfig::default() };
        lab.link(&mobile, "base", LinePlan { config, ..LinePlan::default() })?;
    }
    let seconds = context.choose(6, 120);
    let count = seconds * 1_000_000 / EVERY.as_micros() as u64;
    let plan: Vec<Planned> =
        (0..count).map(|n| Planned { at: EVERY * u32::try_from(n).unwrap_or(u32::MAX), len: 64 }).collect();
    let probes: Result<Vec<Vec<Probe>>, LabError> = std::thread::scope(|scope| {
        let (lab, plan) = (&lab, &plan);
        let streams = BAD_MS.map(|bad_ms| {
            let mobile = format!("mobile-{bad_ms}");
            scope.spawn(move || probe::packets(lab, &mobile, "base", plan, Duration::from_millis(500)))
        });
        streams.into_iter().map(|stream| stream.join().expect("probing does not panic")).collect()
    });
    context.finish("bad periods", lab);
    probes
}

/// Lengths of good and of bad periods in milliseconds, without the first and the last of the run, which are cut.
fn dwell_times(probes: &[Probe]) -> (Vec<f64>, Vec<f64>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let mut since: Option<u64> = None;
    for pair in probes.windows(2) {
        let [before, after] = pair else { continue };
        if before.received.is_some() == after.received.is_some() {
            continue;
        }
        if let Some(since) = since {
            let lengths = if before.received.is_some() { &mut good } else { &mut bad };
            lengths.push((after.sent - since) as f64 / 1e6);
        }
        since = Some(after.sent);
    }
    (good, bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_counted_between_changes() {
        let arrived = [true, true, false, false, false, true, true, false, true];
        let probes: Vec<Probe> = (0..)
            .zip(arrived)
            .map(|(n, arrived)| Probe { len: 64, sent: n * 1_000_000, received: arrived.then_some(0) })
            .collect();
        assert_eq!(dwell_times(&probes), (vec![2.0], vec![3.0, 1.0]));
    }
}
